//! One rule.

use callgate_sdk::matching::ToolPattern;
use serde::Deserialize;

/// What a rule does with the calls it wins. Ordered by strictness.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Effect {
    Allow,
    Ask,
    Deny,
}

/// Which tools a rule is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    Tool(ToolPattern),
    /// Every tool that no other rule names.
    Default,
}

/// A rule that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) effect: Effect,
    pub(crate) target: Target,
    pub(crate) agent: Option<String>,
    pub(crate) server: Option<String>,
}

impl Rule {
    /// What makes it one of a kind.
    pub(crate) fn key(&self) -> (&Target, Option<&str>, Option<&str>) {
        (&self.target, self.agent.as_deref(), self.server.as_deref())
    }

    /// How much the rule says about a call that it fits.
    pub(crate) fn score(&self) -> u8 {
        let target = match &self.target {
            Target::Tool(pattern) if pattern.is_glob() => 1,
            Target::Tool(_) => 2,
            Target::Default => 0,
        };
        target + u8::from(self.agent.is_some()) + u8::from(self.server.is_some())
    }

    /// The rule as a person would say it.
    pub(crate) fn text(&self) -> String {
        let effect = match self.effect {
            Effect::Allow => "allow ",
            Effect::Ask => "ask ",
            Effect::Deny => "deny ",
        };
        let target = match &self.target {
            Target::Tool(pattern) => pattern.as_str(),
            Target::Default => "every other tool",
        };
        let scope = match (self.agent.as_deref(), self.server.as_deref()) {
            (None, None) => [""; 5],
            (Some(agent), None) => [" (agent ", agent, "", "", ")"],
            (None, Some(server)) => ["", "", " (server ", server, ")"],
            (Some(agent), Some(server)) => [" (agent ", agent, ", server ", server, ")"],
        };
        let [open, agent, between, server, close] = scope;
        // In one piece rather than formatted: this is on the decision path.
        [effect, target, open, agent, between, server, close].concat()
    }
}
