//! Plugins on this machine: the shipped ones, the operator's files, and the engine they are loaded into.

pub(crate) mod asked;
pub(crate) mod asks;
pub(crate) mod shipped;
pub(crate) mod store;
pub(crate) mod table;

use std::sync::Arc;

use callgate_plugin::{Cache, Engine, Limits, LogSink};

use crate::home::Home;

/// An engine as the daemon has it: with the shipped limits and the home's cache, so that what one process compiled the next
/// one finds. Without a cache, and `warn` is told why, every start compiles anew.
pub(crate) fn engine(home: &Home, log: Arc<dyn LogSink>, warn: impl FnOnce(&str)) -> Result<Engine, String> {
    let cache = home
        .compiled()
        .map_err(|failure| failure.message)
        .and_then(|folder| Cache::open(folder).map_err(|error| error.to_string()));
    let cache = cache.inspect_err(|why| warn(why)).ok();
    Engine::new(Limits::SHIPPED, cache, log).map_err(|error| error.to_string())
}
