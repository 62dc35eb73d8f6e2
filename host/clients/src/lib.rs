//! The configuration files of MCP clients: where each client keeps them, which servers they start, and the edit that puts
//! Callgate in front of a server.
//!
//! A file is read into a tree that knows where in the file everything stands, and an edit is a few splices at such places: what
//! is not about the edit stays, to the byte. The result is read back and held against what it was meant to be before anything
//! is written. Nothing here reads the environment, and only [`mod@file`] and [`backup`] touch a disk.
#![forbid(unsafe_code)]

pub mod backup;
pub mod client;
mod diff;
mod edit;
mod entry;
pub mod file;
pub mod plan;
mod secrets;
mod syntax;

pub use entry::NoServers;
pub use syntax::Unreadable;
