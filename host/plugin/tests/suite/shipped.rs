//! The shipped components on this engine: their case tables, and that they decide as their sources do natively.

mod arguments;
mod budget;
mod native;
mod rules;
mod same;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callgate_core::call::Call;
use callgate_plugin::{Limits, Plugin};

use crate::fixture::{call, caller, engine};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A case table, as `tests/cases/README.md` describes it.
fn table(name: &str) -> String {
    fs::read_to_string(repository().join(format!("tests/cases/{name}.json"))).unwrap()
}

/// A component: the committed one, or with `CALLGATE_PLUGINS=<folder>` the one that was built there.
#[expect(clippy::disallowed_methods, reason = "a test has no environment module to ask")]
fn component(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("CALLGATE_PLUGINS").map_or_else(|| repository().join("plugins/dist"), PathBuf::from);
    fs::read(folder.join(format!("{name}.wasm"))).unwrap()
}

/// Within the limits as shipped, but that no test depends on how busy the machine is: fuel is what decides.
const LIMITS: Limits = Limits { deadline_ms: 60_000, configure_deadline_ms: 60_000, ..Limits::SHIPPED };

fn shipped(name: &str) -> Plugin {
    engine(LIMITS).load(&component(name)).unwrap()
}

/// A call as the daemon would put it before the chain.
fn asked_of(agent: Option<&str>, server: &str, tool: &str, arguments: &str) -> Call {
    Call { caller: Arc::new(caller(agent, server)), arguments: arguments.into(), ..call(tool) }
}
