//! What relay, daemon and command line say to each other: values to bytes and back, nothing else.
//!
//! The protocol is private and versioned by the build: both ends say which build they are, and ends of different builds
//! part. See [`frame`] for the bytes and [`message`] for the values.
#![forbid(unsafe_code)]

pub mod frame;
pub mod message;
