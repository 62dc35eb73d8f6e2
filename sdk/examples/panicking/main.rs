//! A plugin that panics with the words of its settings, in `configure` or in `decide`: what the host's tests see the SDK's
//! panic hook by. `plugins/build --out` builds it beside the plugins; it is never shipped.
#![forbid(unsafe_code)]

use callgate_sdk::{Call, Decision, Policy, SettingsErrors, SettingsWarning};

/// Where it panics, and what it says.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    configure: Option<String>,
    decide: Option<String>,
}

/// The plugin. Public, because natively nothing makes one.
pub struct Panicking {
    decide: Option<String>,
}

impl Policy for Panicking {
    type Settings = Settings;

    #[expect(clippy::panic, reason = "what it is for")]
    fn configure(settings: Settings, _: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors> {
        if let Some(words) = settings.configure {
            panic!("while configuring: {words}");
        }
        Ok(Self { decide: settings.decide })
    }

    #[expect(clippy::panic, reason = "what it is for")]
    fn decide(&self, _: &Call) -> Decision {
        if let Some(words) = &self.decide {
            panic!("while deciding: {words}");
        }
        Decision::allow()
    }
}

callgate_sdk::export! {
    policy: Panicking,
    id: "panicking",
    settings: "examples/panicking/settings.schema.json",
}
