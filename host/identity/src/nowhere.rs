//! Other systems: nothing is known of anybody, and who is not known is nobody.

use std::io;
use std::os::fd::AsFd;

use callgate_core::evidence::Process;

use crate::Peer;

/// Somebody.
#[derive(Debug)]
pub struct NoPeer;

impl Peer for NoPeer {
    fn of(_socket: &impl AsFd) -> io::Result<Self> {
        Ok(Self)
    }

    fn pid(&self) -> u32 {
        0
    }

    fn runs_this_program(&self) -> bool {
        false
    }

    fn ancestors(&self) -> Vec<Process> {
        Vec::new()
    }
}
