//! Framing over pipes, and child processes that leave no orphan.
//!
//! Shared by whoever speaks MCP with a child over its standard streams. This crate moves bytes and processes; it reads
//! no JSON, decides nothing and writes nothing of its own to any stream. It is the one home of `std::process::Command`.

pub mod child;
pub mod detached;
pub mod frames;
pub mod ladder;
pub mod pipes;
pub mod resident;

mod command;
