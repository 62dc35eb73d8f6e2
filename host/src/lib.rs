//! Callgate's command line and daemon: reads the configuration, composes the crates, decides nothing.
#![forbid(unsafe_code)]

pub mod cli;
mod client;
mod command;
mod config;
mod daemon;
pub mod environment;
pub mod failure;
mod home;
mod launch;
mod lock;
mod output;
mod plugins;
mod stores;
mod wire;

pub use command::run;

/// This build: the version and a digest of everything the binary is made of. Relay and daemon of different builds part.
pub const BUILD: &str = env!("CALLGATE_BUILD");
