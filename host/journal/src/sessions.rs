//! Sessions: an id is used once, for good, unless the session says that it was there before.

use callgate_core::entry::{Draft, Kind, SessionStartBody};
use callgate_core::identity::SessionId;
use callgate_core::port::LedgerFailure;
use rusqlite::params;

use crate::batch::{Batch, Stop, signed};
use crate::work::Item;

/// Why a session was not begun.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SessionError {
    /// The id was used before.
    #[error("the session id {0} was used before")]
    Used(SessionId),
    /// It could not be written.
    #[error(transparent)]
    Unwritten(#[from] LedgerFailure),
}

/// A session about to begin or to go on.
pub(crate) struct Opening(pub(crate) SessionStartBody);

impl Item for Opening {
    type Done = u64;
    type Error = SessionError;

    fn write(&self, batch: &mut Batch) -> Result<u64, Stop<SessionError>> {
        let Self(body) = self;
        let session = body.session.as_str();
        let used = batch
            .connection()
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM session WHERE id = ?1)")?
            .query_row([session], |row| row.get(0))?;
        if used && !body.resumed {
            return Err(Stop::Refused(SessionError::Used(body.session.clone())));
        }
        let entry = batch.append(&Draft::of(Kind::SessionStart, body))?;
        // A relay may resume a session of which it never learned that it was begun.
        if !used {
            batch
                .connection()
                .prepare_cached("INSERT INTO session (id, started) VALUES (?1, ?2)")?
                .execute(params![session, signed(entry)])?;
        }
        Ok(entry)
    }
}
