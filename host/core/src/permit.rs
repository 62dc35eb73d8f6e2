//! The only value that releases a `tools/call`.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// What a decision is about: this very frame, at this place, on this connection. A permit for anything else is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Binding {
    /// The connection, a number that the daemon drew for it.
    pub connection: u64,
    /// The call's number on that connection, from 1.
    pub sequence: u64,
    /// The digest of the frame's exact bytes.
    pub frame: Digest,
}

/// Says that the bound frame may be forwarded, because entry `entry` of the journal, already committed, allows it.
///
/// Not `Clone`: a permit is spent by forwarding one frame.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Permit {
    binding: Binding,
    entry: u64,
}

/// A permit that speaks of another frame, place or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the permit is for call {} of connection {}, not for call {} of connection {}",
    .permitted.sequence, .permitted.connection, .waiting.sequence, .waiting.connection)]
pub struct Mismatch {
    /// What was waiting.
    pub waiting: Binding,
    /// What the permit is for.
    pub permitted: Binding,
}

impl Permit {
    /// Made from a committed decision and nothing else; see [`crate::decide`].
    pub(crate) const fn committed(binding: Binding, entry: u64) -> Self {
        Self { binding, entry }
    }

    /// Checks that this permit is for what `waiting` describes, and tells the journal entry that allows it.
    pub fn spend(self, waiting: &Binding) -> Result<u64, Mismatch> {
        if self.binding == *waiting {
            return Ok(self.entry);
        }
        Err(Mismatch { waiting: *waiting, permitted: self.binding })
    }

    /// The sequence on its connection, to find what waits for it.
    pub const fn sequence(&self) -> u64 {
        self.binding.sequence
    }
}
