//! What a plugin's author writes.

use serde::de::DeserializeOwned;

use crate::{Call, Decision, Pointer, SettingsError, SettingsWarning};

/// A policy: made once from its settings, then asked about calls.
///
/// A pure function of both. `Send` and `Sync` are asked for so that memory kept behind `&self` stands out; what needs memory
/// is a [`Charge`](crate::Charge).
///
/// ```
/// use callgate_sdk::{Call, Decision, Policy, SettingsErrors, SettingsWarning};
///
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Settings {
///     server: String,
/// }
///
/// struct OneServer(String);
///
/// impl Policy for OneServer {
///     type Settings = Settings;
///
///     fn configure(settings: Settings, _: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors> {
///         Ok(Self(settings.server))
///     }
///
///     fn decide(&self, call: &Call) -> Decision {
///         if call.caller.server.name == self.0 {
///             return Decision::abstain();
///         }
///         Decision::deny("other-server", format!("only the server {} may be called", self.0))
///     }
/// }
/// # fn main() {}
/// ```
pub trait Policy: Sized + Send + Sync + 'static {
    /// The settings as read from their JSON document. Put `#[serde(deny_unknown_fields)]` on it, so that a misspelled key is
    /// an error that names the nearest known one.
    type Settings: DeserializeOwned;

    /// Makes the policy. Compile patterns here: [`decide`](Self::decide) is on the decision path. What is wrong is returned,
    /// all of it at once; what is only odd is added to `warnings`.
    fn configure(settings: Self::Settings, warnings: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors>;

    /// Answers one call. Must give the same answer for the same settings and call, always. Looks at caller and tool first, and
    /// at the arguments only where the answer rests on them: the host may give any other answer again without asking.
    fn decide(&self, call: &Call) -> Decision;
}

/// Everything that keeps settings from loading.
pub type SettingsErrors = Vec<SettingsError>;

impl SettingsError {
    /// Something wrong at a place of the settings: lower-case, no full stop.
    pub fn new(path: Pointer, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), hint: None }
    }

    /// Says what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl SettingsWarning {
    /// Something odd at a place of the settings: lower-case, no full stop.
    pub fn new(path: Pointer, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}
