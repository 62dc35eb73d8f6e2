//! Who is connected, for whoever asks how the daemon is.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use callgate_ipc::message::OpenSession;

/// The sessions that are open, by their connections.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<u64, (Instant, OpenSession)>>);

/// A session is in the list while this lives.
pub(super) struct Listed<'a> {
    sessions: &'a Sessions,
    connection: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let _ = self.sessions.lock().remove(&self.connection);
    }
}

impl Sessions {
    /// Lists a session until what is returned goes.
    pub(super) fn list(&self, connection: u64, session: OpenSession) -> Listed<'_> {
        let _ = self.lock().insert(connection, (Instant::now(), session));
        Listed { sessions: self, connection }
    }

    /// Those that are open, the oldest first.
    pub(super) fn open(&self) -> Vec<OpenSession> {
        let mut open: Vec<_> = self.lock().values().cloned().collect();
        open.sort_by_key(|(since, _)| *since);
        let aged = |(since, session): (Instant, OpenSession)| {
            let age_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            OpenSession { age_ms, ..session }
        };
        open.into_iter().map(aged).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Instant, OpenSession)>> {
        // A list of values, whole at every moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
