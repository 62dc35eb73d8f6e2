//! Who is at the other end of a connection.

use std::sync::Arc;

use callgate_core::evidence::Evidence;
use callgate_identity::{Peer, SystemPeer};

/// The process that made a connection.
#[derive(Debug)]
pub(super) struct Caller {
    peer: Arc<SystemPeer>,
    ran_this_program: bool,
}

impl Caller {
    /// Looks at who made a connection. Nothing of what it says may be believed that was sent before.
    pub(super) fn looked_at(peer: Arc<SystemPeer>) -> Self {
        Self { ran_this_program: peer.runs_this_program(), peer }
    }

    pub(super) fn pid(&self) -> u32 {
        self.peer.pid()
    }

    /// Whether it ran this very program when it was looked at, and still does: once it is gone, another process that has its
    /// connection may get its id.
    pub(super) fn runs_this_program(&self) -> bool {
        self.ran_this_program && self.peer.runs_this_program()
    }

    /// What is known of where its session comes from.
    pub(super) fn evidence(&self) -> Evidence {
        Evidence { is_relay: self.runs_this_program(), ancestors: self.peer.ancestors() }
    }
}
