//! The journal: a hash-chained record of every decision, committed before the decision takes effect, and the operator's
//! policy, each change of which is an entry in the same transaction.
//!
//! [`Journal`] writes, one a process; [`Reader`] reads, beside it or without it. Bodies are made once and hashed as the
//! bytes they are: nothing here ever writes a body again to check it. docs/reference/journal-format.md is normative.
#![forbid(unsafe_code)]

mod agents;
mod append;
mod batch;
mod calls;
mod chain;
mod clock;
mod error;
mod fault;
mod files;
mod install;
mod journal;
mod notes;
mod plugins;
mod policy;
mod queue;
mod reader;
mod schema;
mod servers;
mod sessions;
mod store;
mod tally;
#[cfg(test)]
mod tests;
mod verify;
mod view;
mod work;
mod writer;

pub use agents::AgentsError;
pub use append::AppendError;
pub use batch::BODY_BYTES_MAX;
pub use calls::RecordPolicy;
pub use error::OpenError;
#[cfg(any(test, feature = "faults"))]
pub use fault::{Act, Fault, Point};
pub use install::InstallId;
pub use journal::{Journal, Options, Status};
pub use notes::{DroppedNotes, NOTE_BYTES_MAX, NOTES_MAX};
pub use plugins::{PLUGINS_MAX, Plugins, PluginsChanged, PluginsError};
pub use policy::{Policy, PolicyChanged, PolicyError, Swap};
pub use queue::{BATCH_ITEMS_MAX, WAITING_ITEMS_MAX};
pub use reader::{Filter, PAGE_ENTRIES_MAX, Page, ReadError, Reader};
pub use servers::ServersError;
pub use sessions::SessionError;
pub use store::Head;
pub use verify::{Breach, Claim, Counted, CounterState, Sound, Verification, verify};
pub use view::{CallState, Content, DecisionView, Entry, OutcomeView};
