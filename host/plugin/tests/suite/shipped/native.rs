//! Plugins without WebAssembly: the same sources, natively, put between the same call and the same kind of answer.

use callgate_core::call::Call;
use callgate_core::charge::{CalendarUnit, Charge, Occasion, Subject, Window, Zone};
use callgate_core::verdict::{Answer, Denial, Question, Retry, Rule, Verdict};
use callgate_plugin::{SettingsError, SettingsWarning};
use callgate_sdk as sdk;
use callgate_sdk::Policy;
use callgate_sdk::bindings::callgate::policy::types;
use callgate_sdk::testing::Harness;

/// A policy with its settings.
pub(super) struct Native<P>(Harness<P>);

impl<P: Policy> Native<P> {
    pub(super) fn configure(settings: &str) -> Result<Self, Vec<SettingsError>> {
        let told = |sdk::SettingsError { path, message, hint }| SettingsError { path, message, hint };
        Harness::new(settings).map(Self).map_err(|errors| errors.into_iter().map(told).collect())
    }

    pub(super) fn warnings(&self) -> Vec<SettingsWarning> {
        let told = |warning: &sdk::SettingsWarning| {
            let sdk::SettingsWarning { path, message } = warning.clone();
            SettingsWarning { path, message }
        };
        self.0.warnings().iter().map(told).collect()
    }

    pub(super) fn decide(&self, call: &Call) -> Answer {
        answer(self.0.decide(&shown(call)))
    }
}

/// The call as a plugin is shown it.
fn shown(call: &Call) -> sdk::Call {
    let caller = &call.caller;
    let annotations = call.listed.as_ref().and_then(|listed| listed.annotations);
    sdk::Call::from(types::Call {
        caller: sdk::Caller {
            agent: caller.agent.as_ref().map(|agent| sdk::Agent {
                id: agent.id.clone(),
                name: agent.name.to_string(),
                evidence: agent.evidence.clone(),
            }),
            client: caller.client.clone(),
            server: sdk::Server { id: caller.server.id.clone(), name: caller.server.name.to_string() },
            attributes: caller
                .attributes
                .iter()
                .map(|attribute| sdk::Attribute { name: attribute.name.clone(), value: attribute.value.clone() })
                .collect(),
        },
        tool: sdk::Tool {
            name: call.tool.clone(),
            annotations: annotations.map(|annotations| sdk::Annotations {
                read_only: annotations.read_only,
                destructive: annotations.destructive,
                idempotent: annotations.idempotent,
                open_world: annotations.open_world,
            }),
            definition_digest: call.listed.as_ref().map(|listed| listed.definition.to_string()),
        },
        arguments: call.arguments.text().to_owned(),
        arguments_digest: call.arguments.digest().to_string(),
    })
}

fn answer(decision: sdk::Decision) -> Answer {
    let sdk::Decision { verdict, rule: spoke, notes, charges } = decision;
    Answer {
        verdict: match verdict {
            sdk::Verdict::Deny(sdk::Denial { code, message, retry }) => Verdict::Deny(Denial {
                code,
                message,
                retry: match retry {
                    sdk::Retry::Never => Retry::Never,
                    sdk::Retry::Changed => Retry::Changed,
                    sdk::Retry::Later => Retry::Later,
                },
            }),
            sdk::Verdict::Ask(sdk::Question { code, message, presence }) => {
                Verdict::Ask(Question { code, message, presence })
            }
            sdk::Verdict::Allow => Verdict::Allow,
            sdk::Verdict::Abstain => Verdict::Abstain,
        },
        rule: spoke.map(rule),
        notes,
        charges: charges.into_iter().map(charge).collect(),
    }
}

fn rule(sdk::Rule { path, policy, text }: sdk::Rule) -> Rule {
    Rule { path, policy, text }
}

fn charge(charge: sdk::Charge) -> Charge {
    let sdk::Charge { key, subject, window, occasion, amount, limit, rule: stands_for, code, message } = charge;
    Charge {
        key: key.into(),
        subject: match subject {
            sdk::Subject::Session => Subject::Session,
            sdk::Subject::Agent => Subject::Agent,
            sdk::Subject::Everyone => Subject::Everyone,
        },
        window: match window {
            sdk::Window::Lifetime => Window::Lifetime,
            sdk::Window::Sliding(ms) => Window::SlidingMs(ms),
            sdk::Window::Calendar(sdk::Calendar { unit, zone }) => {
                Window::Calendar { unit: calendar_unit(unit), zone: Zone::try_from(zone).unwrap() }
            }
        },
        occasion: match occasion {
            sdk::Occasion::Forwarded => Occasion::Forwarded,
            sdk::Occasion::Attempted => Occasion::Attempted,
        },
        amount: whole(amount),
        limit: whole(limit),
        rule: rule(stands_for).into(),
        code: code.into(),
        message: message.into(),
    }
}

fn calendar_unit(unit: sdk::CalendarUnit) -> CalendarUnit {
    match unit {
        sdk::CalendarUnit::Hour => CalendarUnit::Hour,
        sdk::CalendarUnit::Day => CalendarUnit::Day,
        sdk::CalendarUnit::Week => CalendarUnit::Week,
        sdk::CalendarUnit::Month => CalendarUnit::Month,
    }
}

/// Through its text, so that nothing is rounded.
fn whole(number: f64) -> u64 {
    number.to_string().parse().unwrap()
}
