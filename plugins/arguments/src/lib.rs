//! The default plugin `arguments`: an allow-list of grants, with patterns for what arguments may be.
//!
//! A call is allowed when the tool and the arguments of any one grant fit it. An argument that a call does not have is not
//! checked. The plugin answers for agents that it holds a grant for or that `agents` names, and abstains for all others and
//! where the agent is not established.
#![forbid(unsafe_code)]

mod grant;
mod index;
mod settings;
mod widening;

pub use settings::{AGENTS_MAX, ARGS_MAX, GRANTS_MAX, Settings};
pub use widening::COMPARED_MAX;

use callgate_sdk::arguments::Arguments;
use callgate_sdk::{Call, Decision, Pointer, Policy, Retry, Rule, SettingsErrors, SettingsWarning};

use grant::{Constraint, Grant};
use index::Index;

/// The grants in force.
#[derive(Debug)]
pub struct Grants {
    grants: Vec<Grant>,
    index: Index,
}

impl Policy for Grants {
    type Settings = Settings;

    fn configure(settings: Settings, warnings: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors> {
        let (grants, agents) = settings.check()?;
        *warnings = widening::warnings(&grants);
        let index = Index::new(&grants, agents);
        Ok(Self { grants, index })
    }

    fn decide(&self, call: &Call) -> Decision {
        let agent = match &call.caller.agent {
            Some(agent) if self.index.is_under(&agent.name) => &agent.name,
            Some(_) | None => return Decision::abstain(),
        };
        let naming = self.index.naming(agent, &call.caller.server.name, &call.tool.name);
        if naming.is_empty() {
            return no_grant(agent, call);
        }
        self.judge(&naming, call)
    }
}

impl Grants {
    /// Judges a call by the grants that name its tool.
    fn judge(&self, naming: &[usize], call: &Call) -> Decision {
        if let Some(free) = naming.iter().find(|place| self.grants[**place].args.is_empty()) {
            return self.granted(*free);
        }
        let Some(arguments) = Arguments::read(call.arguments_json()) else {
            return Decision::deny("argument", "the arguments are no JSON object").retry(Retry::Changed);
        };
        // Of those that fail equally often the earliest.
        let mut closest: Option<(usize, usize)> = None;
        for place in naming {
            let failing = self.grants[*place].failing(&arguments).count();
            if failing == 0 {
                return self.granted(*place);
            }
            if closest.is_none_or(|(fewest, _)| failing < fewest) {
                closest = Some((failing, *place));
            }
        }
        let (_, place) = closest.expect("some grant names the tool");
        self.refused(place, &arguments)
    }

    fn granted(&self, place: usize) -> Decision {
        Decision::allow().rule(self.rule(place))
    }

    /// Tells what would have to change for the closest grant. Never a value: messages reach the agent, and may be kept where
    /// the arguments are not.
    fn refused(&self, closest: usize, arguments: &Arguments<'_>) -> Decision {
        let demands: Vec<String> = self.grants[closest].failing(arguments).map(Constraint::demand).collect();
        Decision::deny("argument", demands.join(" and ")).retry(Retry::Changed).rule(self.rule(closest))
    }

    fn rule(&self, place: usize) -> Rule {
        Rule::new(pointer(place), self.grants[place].text())
    }
}

fn no_grant(agent: &str, call: &Call) -> Decision {
    let (tool, server) = (call.tool.name.as_str(), call.caller.server.name.as_str());
    let message = ["no grant of the agent `", agent, "` names the tool `", tool, "` of the server `", server, "`"];
    Decision::deny("no-grant", message.concat())
}

/// Where a grant stands in the settings.
fn pointer(place: usize) -> Pointer {
    Pointer::root().key("grants").index(place)
}

callgate_sdk::export! {
    policy: Grants,
    id: "arguments",
    settings: "settings.schema.json",
}
