//! What the export macro puts between the contract and a policy. Too thin to be wrong, and not for use by hand.

use std::sync::OnceLock;

use crate::bindings::callgate::policy::types;
use crate::bounds::{shorten_decision, shorten_errors, shorten_warnings};
use crate::{Call, Decision, Policy, SettingsError, SettingsErrors, SettingsWarning, settings};

/// Makes a policy from its settings document, within the contract's bounds.
pub(crate) fn configure<P: Policy>(settings: &str) -> Result<(P, Vec<SettingsWarning>), SettingsErrors> {
    let mut warnings = Vec::new();
    let read: Result<P::Settings, SettingsError> = settings::read(settings);
    match read.map_err(|error| vec![error]).and_then(|settings| P::configure(settings, &mut warnings)) {
        Ok(policy) => {
            shorten_warnings(&mut warnings);
            Ok((policy, warnings))
        }
        Err(mut errors) => {
            shorten_errors(&mut errors);
            Err(errors)
        }
    }
}

/// Asks a policy, and brings its answer within the contract's bounds; beside it, whether the answer rests on the arguments.
pub(crate) fn decide<P: Policy>(policy: &P, call: &Call) -> (Decision, bool) {
    let (mut decision, rests_on_arguments) = call.noticing(|call| policy.decide(call));
    shorten_decision(&mut decision);
    (decision, rests_on_arguments)
}

/// The one policy of a component's instance.
#[derive(Debug)]
pub struct Slot<P>(OnceLock<P>);

impl<P: Policy> Slot<P> {
    /// An instance that is not configured yet.
    #[expect(clippy::new_without_default, reason = "made by the export macro in a static")]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The contract's `lifecycle.configure`.
    pub fn configure(&self, settings: &str) -> Result<Vec<SettingsWarning>, SettingsErrors> {
        // Without it a panic's text is lost: the instance only stops.
        std::panic::set_hook(Box::new(|panic| crate::log::error(&panic.to_string())));
        let (policy, warnings) = configure(settings)?;
        self.0.set(policy).map_err(|_| vec![SettingsError::new(crate::Pointer::root(), "configured already")])?;
        Ok(warnings)
    }

    /// The contract's `call-policy.decide`.
    pub fn decide(&self, call: types::Call) -> types::Decision {
        let policy = self.0.get().expect("the host configures an instance before it asks it");
        let (Decision { verdict, rule, notes, charges }, rests_on_arguments) = decide(policy, &call.into());
        types::Decision { verdict, rule, notes, charges, any_arguments: !rests_on_arguments }
    }
}
