//! Components and settings from files that a person names.

use std::io;
use std::path::Path;
use std::sync::Arc;

use callgate_core::escape::visible;
use callgate_plugin::{ConfigureError, Engine, LoadError, LogBatch, LogSink, Plugin};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::home::Home;
use crate::output;
use crate::plugins::{self, store};

/// Settings are given to a plugin whole; more than this is none.
const SETTINGS_BYTES_MAX: u64 = 16 << 20;

/// An engine that shares the daemon's cache and tells what plugins write.
pub(super) fn engine(home: &Home) -> Result<Engine, Failure> {
    home.prepare()?;
    let warn =
        |why: &str| output::tell(&format!("warning: what is compiled here is compiled again by the daemon: {why}"));
    plugins::engine(home, Arc::new(Told), warn).map_err(Failure::environment)
}

/// Tells a person what plugins write.
struct Told;

impl LogSink for Told {
    fn take(&self, batch: LogBatch<'_>) {
        for line in batch.lines {
            output::tell(&format!("plugin {}: {}", batch.plugin, visible(&line.message)));
        }
        if batch.dropped > 0 {
            output::tell(&format!("plugin {}: {} more lines were dropped", batch.plugin, batch.dropped));
        }
    }
}

/// A component's bytes.
pub(super) fn component(file: &Path) -> Result<Vec<u8>, Failure> {
    store::read_file(file).map_err(|error| unreadable(file, &error))
}

/// Loads a component, of which `what` is what a person calls it.
pub(super) fn plugin(engine: &Engine, what: &str, component: &[u8]) -> Result<Plugin, Failure> {
    engine.load(component).map_err(|error| {
        let failure = Failure::usage(format!("{what} is not a plugin that can be used: {error}"));
        match error {
            LoadError::CoreModule => failure.hint("callgate plugin build DIR makes a component of a policy crate"),
            LoadError::UnknownInterface { .. } | LoadError::UnknownVersion { .. } => {
                failure.hint("build it against the SDK of this Callgate, or install a Callgate that knows that version")
            }
            LoadError::UnknownImport(_) => failure.hint(
                "a plugin may import callgate:policy/log and nothing else; build it for wasm32-unknown-unknown, without WASI",
            ),
            _ => failure,
        }
    })
}

/// What a person is told of settings that are not taken.
pub(super) fn not_configured(name: &str, error: &ConfigureError) -> Failure {
    match error {
        ConfigureError::Refused(_) | ConfigureError::TooLarge { .. } => {
            Failure::usage(format!("{name} does not take these settings: {error}"))
                .hint("give settings that it takes: --settings FILE")
        }
        ConfigureError::Failed(_) => Failure::usage(format!("{name} fails when it is configured: {error}")),
    }
}

/// A settings document from a file: one JSON object.
pub(super) fn settings(file: &Path) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(&text(file, SETTINGS_BYTES_MAX)?)
        .map_err(|error| Failure::usage(format!("{} is not one JSON object: {error}", file.display())))
}

/// A text file.
pub(super) fn text(file: &Path, bytes_max: u64) -> Result<String, Failure> {
    let bytes = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
    if bytes > bytes_max {
        return Err(Failure::usage(format!("{} takes {bytes} bytes, more than {bytes_max}", file.display())));
    }
    std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot read {}: {error}", file.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => Failure::usage(message),
        _ => Failure::environment(message),
    }
}
