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

use std::sync::Arc;

use callgate_core::port::Identities;

use crate::environment::Environment;
use crate::failure::{Exit, Outcome};

/// Serves as the daemon of `environment`'s home, in the foreground, with `identities` saying who calls: for tests, until agents
/// can be established. [`run`], all that the `callgate` binary calls, leads to no other than the shipped ones.
pub fn serve(environment: &Environment, identities: Arc<dyn Identities>) -> Exit {
    let served: Outcome =
        home::Home::find(environment).and_then(|home| daemon::serve(&home, environment, false, identities));
    served.unwrap_or_else(|failure| {
        output::tell(&failure.to_string());
        failure.exit
    })
}

/// This build: the version and a digest of everything the binary is made of. Relay and daemon of different builds part.
pub const BUILD: &str = env!("CALLGATE_BUILD");
