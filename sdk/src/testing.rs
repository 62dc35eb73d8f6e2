//! Tests of a policy without WebAssembly: the same code, natively, under the contract's checks.
//!
//! ```
//! use callgate_sdk::testing::Harness;
//! use callgate_sdk::{Call, Decision, Policy, SettingsErrors, SettingsWarning};
//! # #[derive(serde::Deserialize)]
//! # struct Settings {}
//! # struct NoShell;
//! # impl Policy for NoShell {
//! #     type Settings = Settings;
//! #     fn configure(_: Settings, _: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors> { Ok(Self) }
//! #     fn decide(&self, call: &Call) -> Decision {
//! #         if call.tool.name == "shell" { Decision::deny("no-shell", "shells are not allowed") } else { Decision::abstain() }
//! #     }
//! # }
//!
//! let harness = Harness::<NoShell>::new("{}").unwrap();
//! let call = Call::new("fs", "shell").agent("cursor").arguments(r#"{"command": "ls"}"#);
//! assert_eq!(harness.decide(&call), Decision::deny("no-shell", "shells are not allowed"));
//! assert!(!harness.rests_on_arguments(&call));
//! ```

mod call;
mod canonical;
mod contract;
mod table;

use std::cell::RefCell;

pub use contract::broken_bound;
pub use table::{Mismatch, Table};

use crate::log::Level;
use crate::{Call, Decision, Policy, SettingsErrors, SettingsWarning, guest};

/// A configured policy under test.
#[derive(Debug)]
pub struct Harness<P> {
    policy: P,
    warnings: Vec<SettingsWarning>,
}

impl<P: Policy> Harness<P> {
    /// Configures the policy with a settings document, as the host would.
    pub fn new(settings: &str) -> Result<Self, SettingsErrors> {
        let (policy, warnings) = guest::configure(settings)?;
        Ok(Self { policy, warnings })
    }

    /// What the policy found odd about its settings.
    pub fn warnings(&self) -> &[SettingsWarning] {
        &self.warnings
    }

    /// The policy itself.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The policy's answer, as it would leave the component.
    ///
    /// # Panics
    /// When the answer breaks a bound that the contract states: the host would refuse it.
    pub fn decide(&self, call: &Call) -> Decision {
        self.ask(call).0
    }

    /// Whether the policy's answer to a call rests on the call's arguments. Where it does not, the host may give it again for
    /// the same caller and tool without asking.
    ///
    /// # Panics
    /// As [`decide`](Self::decide).
    pub fn rests_on_arguments(&self, call: &Call) -> bool {
        self.ask(call).1
    }

    fn ask(&self, call: &Call) -> (Decision, bool) {
        let (decision, rests_on_arguments) = guest::decide(&self.policy, call);
        assert_eq!(broken_bound(&decision), None, "the host would refuse this answer: {decision:?}");
        (decision, rests_on_arguments)
    }
}

thread_local! {
    static LOGGED: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn keep_log(level: Level, message: &str) {
    LOGGED.with_borrow_mut(|logged| logged.push((level, message.to_owned())));
}

/// Takes the lines that this thread logged since the last time.
pub fn take_log() -> Vec<(Level, String)> {
    LOGGED.take()
}
