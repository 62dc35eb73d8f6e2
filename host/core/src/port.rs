//! What core asks of the world.

use crate::call::Call;
use crate::evaluate::{Evaluated, Opinions};
use crate::settle::Decision;

/// Asks the chain. Implemented by whoever runs plugins.
pub trait Evaluator {
    /// Every opinion of the chain on one call, and the generation of the chain that gave them. Never fails: a plugin that
    /// gives no answer is an opinion with a failure in it.
    fn opinions(&self, call: &Call) -> Opinions;
}

/// A decision that waits to be settled and written.
#[derive(Clone, Debug)]
pub struct Case {
    /// What was asked.
    pub call: Call,
    /// What the chain made of it.
    pub evaluated: Evaluated,
}

/// What became of a case in the journal's transaction.
#[derive(Debug)]
pub enum Settlement {
    /// Committed as entry `entry`.
    Committed {
        /// The entry's number.
        entry: u64,
        /// What it says.
        decision: Decision,
    },
    /// The chain changed since the case was evaluated. Nothing was written; evaluate again.
    Stale,
}

/// Why a decision could not be written. Each is a denial.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedgerFailure {
    /// The write failed; the cause as text.
    #[error("the decision could not be written: {0}")]
    WriteFailed(String),
    /// There is no room on the disk.
    #[error("the disk that holds the journal is full")]
    Full,
    /// The database is missing, was swapped, or is of another install or a newer schema.
    #[error("the journal is not the one this install knows: {0}")]
    Foreign(String),
    /// Too many decisions wait to be written.
    #[error("too many decisions wait to be written")]
    Overload,
}

/// Settles and writes decisions. Implemented by the journal, which calls [`crate::settle::settle`] inside its transaction.
pub trait Ledger {
    /// Settles every case, in order, inside one transaction, and answers after its COMMIT: one result a case, in order.
    fn settle(&self, cases: Vec<Case>) -> Vec<Result<Settlement, LedgerFailure>>;
}

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC, as the wall clock says.
    fn now_ms(&self) -> i64;

    /// Milliseconds since some moment of this boot, as a clock that nobody sets says: it never goes back, and it counts
    /// on while the machine sleeps.
    fn boot_ms(&self) -> u64;
}
