//! Runs policy plugins: WebAssembly components behind the contract in `wit/`, each within limits that are always on.
//!
//! From bytes to a verdict: [`Engine::load`] reads what a component is, compiles it and probes it; [`Plugin::configure`]
//! gives it its settings; [`Chain`] puts a call before every plugin; [`Switch`] changes the chain while calls run.
//!
//! This crate must never load native code that it did not compile, give a plugin a power that it does not import, or turn
//! a plugin's failure into anything but a [`callgate_core::verdict::Failure`].

mod answer;
mod bindings;
mod breaker;
mod cache;
mod chain;
mod compile;
mod configured;
mod effort;
mod engine;
mod failure;
mod inspect;
mod instance;
mod limits;
mod load;
mod log;
mod manifest;
mod memo;
mod pool;
mod scope;
mod settings;
mod state;
mod ticker;

pub use breaker::OpenBreaker;
pub use cache::{Cache, CacheError};
pub use chain::{Chain, Imagined, Link, Switch};
pub use configured::{ConfigureError, Configured, Measured};
pub use engine::{Engine, EngineError};
pub use inspect::Hook;
pub use limits::Limits;
pub use load::{COMPONENT_BYTES_MAX, LoadError, Origin, Plugin};
pub use log::{Level, LogBatch, LogLine, LogSink};
pub use manifest::{Manifest, OwnLimits};
pub use pool::Life;
pub use scope::{Scope, ScopeError};
pub use settings::{Refused, SettingsError, SettingsWarning};
