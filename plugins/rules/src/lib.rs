//! The default plugin `rules`: allow, deny or ask by tool, agent and server.
//!
//! Of the rules that fit a call the one that says most about it wins: an exact tool scores 2, a glob 1, a default 0, and each
//! of agent and server named adds 1. Of equal scores the strictest wins, then the earliest. Where no rule fits, the call is
//! allowed: Callgate changes nothing that nobody set up. A call whose agent is not established fits only rules that name no
//! agent.
#![forbid(unsafe_code)]

mod index;
mod order;
mod rule;
mod settings;

pub use settings::{RULES_MAX, Settings};

use callgate_sdk::{Call, Decision, Pointer, Policy, SettingsErrors, SettingsWarning};

use index::Index;
use rule::{Effect, Rule};

/// The rules in force.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    index: Index,
}

impl Policy for Rules {
    type Settings = Settings;

    fn configure(settings: Settings, _: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors> {
        let (rules, order) = settings.check()?;
        let index = Index::new(&rules, &order);
        Ok(Self { rules, index })
    }

    fn decide(&self, call: &Call) -> Decision {
        let agent = call.caller.agent.as_ref().map(|agent| agent.name.as_str());
        match self.index.winner(&call.tool.name, agent, &call.caller.server.name) {
            Some(place) => answer(place, &self.rules[place]),
            None => Decision::allow(),
        }
    }
}

fn answer(place: usize, rule: &Rule) -> Decision {
    let text = rule.text();
    let decision = match rule.effect {
        Effect::Allow => Decision::allow(),
        Effect::Ask => Decision::ask("ask", ["the rule `", &text, "` wants a person to decide"].concat()),
        Effect::Deny => Decision::deny("deny", ["the rule `", &text, "` refuses it"].concat()),
    };
    decision.rule(callgate_sdk::Rule::new(Pointer::root().key("rules").index(place), text))
}

callgate_sdk::export! {
    policy: Rules,
    id: "rules",
    settings: "settings.schema.json",
}
