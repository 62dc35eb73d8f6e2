//! The manifest that a component carries in a custom section: read before any of its code is compiled.

use std::collections::BTreeSet;

use callgate_core::escape::visible_up_to;
use serde::Deserialize;

use crate::failure::shown;
use crate::inspect::Hook;
use crate::limits::Limits;
use crate::load::LoadError;

/// The custom section that holds it.
pub(crate) const SECTION: &str = "callgate:manifest";

/// The form of manifest that this build reads.
const FORMAT: u32 = 1;

/// The longest manifest: it holds a settings schema.
const BYTES_MAX: usize = 1 << 20;

/// The longest id, in characters.
const ID_CHARS_MAX: usize = 128;

/// A plugin's manifest, as far as this build reads it. A later one may say more, but not what it needs or is bound by.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Manifest {
    /// The form it is written in.
    manifest: u32,
    /// What the plugin is called unless the operator names it otherwise.
    pub id: String,
    /// The plugin's own version.
    pub version: String,
    /// What it is for.
    #[serde(default)]
    pub summary: String,
    /// The hooks it says it has; the same as it exports, or it does not load.
    pub hooks: Vec<String>,
    /// What it asks for beyond what every plugin gets. Nothing can be given, so it must be empty.
    #[serde(default)]
    pub requests: Vec<String>,
    /// Limits of its own.
    #[serde(default)]
    pub limits: OwnLimits,
    /// The JSON Schema of its settings.
    #[serde(default)]
    pub settings: serde_json::Value,
}

/// Limits that a plugin sets itself: they lower the host's and never raise them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnLimits {
    /// As [`Limits::fuel`].
    pub fuel: Option<u64>,
    /// As [`Limits::deadline_ms`].
    pub deadline_ms: Option<u32>,
    /// As [`Limits::configure_fuel`].
    pub configure_fuel: Option<u64>,
    /// As [`Limits::configure_deadline_ms`].
    pub configure_deadline_ms: Option<u32>,
    /// As [`Limits::memory_bytes`].
    pub memory_bytes: Option<usize>,
}

impl OwnLimits {
    /// The host's limits, lowered to these.
    pub(crate) fn lower(self, host: Limits) -> Limits {
        fn lower<T: Ord>(host: T, own: Option<T>) -> T {
            match own {
                Some(own) if own < host => own,
                Some(_) | None => host,
            }
        }
        Limits {
            fuel: lower(host.fuel, self.fuel),
            deadline_ms: lower(host.deadline_ms, self.deadline_ms),
            configure_fuel: lower(host.configure_fuel, self.configure_fuel),
            configure_deadline_ms: lower(host.configure_deadline_ms, self.configure_deadline_ms),
            memory_bytes: lower(host.memory_bytes, self.memory_bytes),
            ..host
        }
    }
}

/// Reads a manifest and holds it against what the component really exports.
pub(crate) fn read(section: &[u8], exported: &BTreeSet<Hook>) -> Result<Manifest, LoadError> {
    if section.len() > BYTES_MAX {
        return Err(LoadError::BadManifest(format!("it takes {} bytes, more than {BYTES_MAX}", section.len())));
    }
    let manifest: Manifest =
        serde_json::from_slice(section).map_err(|error| LoadError::BadManifest(shown(&error.to_string())))?;
    let Manifest { manifest: format, id, hooks, requests, .. } = &manifest;
    if *format != FORMAT {
        return Err(LoadError::BadManifest(format!("it is of form {format}, this Callgate reads form {FORMAT}")));
    }
    if id.is_empty() || visible_up_to(id, ID_CHARS_MAX) != *id {
        return Err(LoadError::BadManifest(format!("the id `{}` is not a name to show", shown(id))));
    }
    if !requests.is_empty() {
        return Err(LoadError::Requests(shown(&requests.join(", "))));
    }
    let claimed: BTreeSet<&str> = hooks.iter().map(String::as_str).collect();
    let exported: BTreeSet<&str> = exported.iter().map(|hook| hook.as_str()).collect();
    if claimed != exported {
        return Err(LoadError::ManifestMismatch { claimed: list(&claimed), exported: list(&exported) });
    }
    Ok(manifest)
}

fn list(hooks: &BTreeSet<&str>) -> String {
    if hooks.is_empty() {
        return "no hook".to_owned();
    }
    shown(&hooks.iter().copied().collect::<Vec<_>>().join(", "))
}
