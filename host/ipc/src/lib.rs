//! What relay, daemon and command line say to each other: values to bytes and back, and to whom it may be said.
//!
//! The protocol is private and versioned by the build: both ends say which build they are, and ends of different builds
//! part. See [`frame`] for the bytes, [`message`] for the values and [`peer`] for the other end. Nothing here reads or writes.
#![forbid(unsafe_code)]

pub mod agents;
pub mod frame;
pub mod message;
pub mod peer;
pub mod servers;
