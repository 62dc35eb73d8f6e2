//! What a component says of itself, as a person reads it before letting it in.

use callgate_core::digest::Digest;
use callgate_core::escape::visible;
use callgate_core::plugin::PluginEntry;
use callgate_plugin::{Hook, OwnLimits, Plugin};
use serde::Serialize;

/// A component's own words, as far as they were checked: they come from its manifest and its exports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Asks {
    /// What it is called in its manifest.
    pub(crate) id: Option<String>,
    /// Its version.
    pub(crate) version: Option<String>,
    /// What it is for.
    pub(crate) summary: Option<String>,
    /// The digest of its bytes.
    pub(crate) digest: Digest,
    /// The hooks that it has.
    pub(crate) hooks: Vec<&'static str>,
    /// What it may do: `log`, which every plugin gets, and what it asks for besides.
    pub(crate) capabilities: Vec<String>,
    /// Limits of its own, below the shipped ones.
    pub(crate) limits: Vec<String>,
}

impl Asks {
    /// Of a component that loaded.
    pub(crate) fn of(plugin: &Plugin) -> Self {
        let manifest = plugin.manifest();
        let requests = manifest.map(|manifest| manifest.requests.clone()).unwrap_or_default();
        let text = |text: &String| (!text.is_empty()).then(|| visible(text).into_owned());
        Self {
            id: manifest.and_then(|manifest| text(&manifest.id)),
            version: manifest.and_then(|manifest| text(&manifest.version)),
            summary: manifest.and_then(|manifest| text(&manifest.summary)),
            digest: plugin.digest(),
            hooks: plugin.hooks().iter().copied().map(Hook::as_str).collect(),
            capabilities: std::iter::once("log".to_owned()).chain(requests).collect(),
            limits: manifest.map(|manifest| limits(manifest.limits)).unwrap_or_default(),
        }
    }

    /// As lines: a word, and what there is to say about it.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let or_none = |list: &[String], none: &str| if list.is_empty() { none.to_owned() } else { list.join(", ") };
        let said = |text: &Option<String>| text.clone().unwrap_or_else(|| "(it does not say)".to_owned());
        vec![
            ("id", said(&self.id)),
            ("version", said(&self.version)),
            ("summary", said(&self.summary)),
            ("digest", self.digest.to_string()),
            ("hooks", self.hooks.join(", ")),
            ("may", self.capabilities.join(", ")),
            ("limits", or_none(&self.limits, "the shipped ones")),
        ]
    }
}

/// On what terms the configuration lets one in, as lines like those; `may_grant` is how that is worded.
pub(crate) fn terms(entry: &PluginEntry, may_grant: &str) -> [(&'static str, String); 4] {
    [
        ("agents", entry.agents.join(", ")),
        ("servers", entry.servers.join(", ")),
        ("may grant", may_grant.to_owned()),
        ("settings", visible(&entry.settings_text()).into_owned()),
    ]
}

fn limits(limits: OwnLimits) -> Vec<String> {
    let OwnLimits { fuel, deadline_ms, configure_fuel, configure_deadline_ms, memory_bytes } = limits;
    let limits = [
        ("fuel", fuel),
        ("deadline_ms", deadline_ms.map(u64::from)),
        ("configure_fuel", configure_fuel),
        ("configure_deadline_ms", configure_deadline_ms.map(u64::from)),
        ("memory_bytes", memory_bytes.map(|bytes| bytes as u64)),
    ];
    limits.into_iter().filter_map(|(name, limit)| Some(format!("{name} {}", limit?))).collect()
}
