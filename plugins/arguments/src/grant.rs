//! One grant.

use callgate_sdk::arguments::Arguments;
use callgate_sdk::matching::{ToolPattern, ValuePattern};

/// A grant that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) agent: String,
    pub(crate) server: String,
    pub(crate) tool: ToolPattern,
    /// Ordered by name, each name once.
    pub(crate) args: Vec<Constraint>,
}

/// What one argument has to be where a call has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Constraint {
    pub(crate) name: String,
    pub(crate) pattern: ValuePattern,
}

impl Grant {
    /// The constraints that a call's arguments do not meet.
    pub(crate) fn failing(&self, arguments: &Arguments<'_>) -> impl Iterator<Item = &Constraint> {
        self.args.iter().filter(|constraint| !constraint.is_met(arguments))
    }

    /// The grant as a person would say it.
    pub(crate) fn text(&self) -> String {
        // In one piece rather than formatted: this is on the decision path.
        let mut parts = vec!["grant ", self.tool.as_str(), " on ", &self.server, " (agent ", &self.agent];
        for Constraint { name, pattern } in &self.args {
            parts.extend([", ", name, "=", pattern.as_str()]);
        }
        parts.push(")");
        parts.concat()
    }
}

impl Constraint {
    /// An argument that is not there meets everything; of two that its name means each has to.
    fn is_met(&self, arguments: &Arguments<'_>) -> bool {
        arguments.named(&self.name).all(|argument| argument.matches(&self.pattern))
    }

    /// What it asks for, as a sentence.
    pub(crate) fn demand(&self) -> String {
        ["the argument `", &self.name, "` has to match `", self.pattern.as_str(), "`"].concat()
    }

    /// As it is written on a command line.
    pub(crate) fn text(&self) -> String {
        [&self.name, "=", self.pattern.as_str()].concat()
    }
}
