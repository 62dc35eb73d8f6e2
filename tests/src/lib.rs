//! What the end-to-end suite and the bench are built of: homes, daemons, relayed sessions and what is left of them.
//!
//! Everything here drives the real `callgate` binary from outside: processes, pipes, sockets, files. A failed expectation
//! is a panic that names what was waited for; nothing here sleeps where it can wait for an event.

pub mod command;
pub mod frame;
pub mod home;
pub mod interposer;
pub mod journal;
pub mod mount;
pub mod peer;
pub mod process;
pub mod program;
pub mod relay;
pub mod session;
pub mod wait;
