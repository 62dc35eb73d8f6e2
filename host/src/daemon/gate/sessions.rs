//! The sessions that are open, for whoever asks how the daemon is.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use callgate_core::agent::AgentId;
use callgate_core::identity::Agent;
use callgate_ipc::message::SessionState;

use super::{Gate, lock};

/// How many sessions are told of: more than a person reads, and well within what a message may hold.
const TOLD_MAX: usize = 256;

/// What is known of every open session, in the order in which they were opened.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Open>);

#[derive(Default)]
struct Open {
    opened: u64,
    sessions: BTreeMap<u64, (Instant, SessionState)>,
}

/// A session that is open for as long as this lives.
pub(in crate::daemon) struct OpenSession<'a> {
    sessions: &'a Sessions,
    number: u64,
}

impl Drop for OpenSession<'_> {
    fn drop(&mut self) {
        lock(&self.sessions.0).sessions.remove(&self.number);
    }
}

impl Sessions {
    pub(super) fn count(&self) -> u64 {
        lock(&self.0).sessions.len() as u64
    }

    /// The sessions as they are now: an agent that is enrolled no more is nobody's.
    pub(super) fn shown(&self, is_enrolled: impl Fn(&Agent) -> bool) -> Vec<SessionState> {
        let sessions: Vec<_> = lock(&self.0).sessions.values().take(TOLD_MAX).cloned().collect();
        let shown = |(since, session): (Instant, SessionState)| SessionState {
            agent: session.agent.filter(&is_enrolled),
            age_ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
            ..session
        };
        sessions.into_iter().map(shown).collect()
    }
}

impl Gate {
    /// Counts a session until what is returned goes.
    pub(in crate::daemon) fn count_session(&self, session: SessionState) -> OpenSession<'_> {
        let mut open = lock(&self.sessions.0);
        open.opened += 1;
        let number = open.opened;
        open.sessions.insert(number, (Instant::now(), session));
        OpenSession { sessions: &self.sessions, number }
    }

    /// How many sessions of an agent are open.
    pub(super) fn sessions_of(&self, id: &AgentId) -> u64 {
        let is_its = |(_, session): &&(Instant, SessionState)| {
            session.agent.as_ref().is_some_and(|agent| agent.id == id.as_str())
        };
        lock(&self.sessions.0).sessions.values().filter(is_its).count() as u64
    }
}
