//! Settle: the second of a decision's two steps. Runs serially, inside the journal writer's transaction.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::evaluate::{ChainDefault, Evaluated, Ruling};
use crate::refusal::Reason;
use crate::verdict::{Failure, Retry, Rule};

/// What the journal knows at the moment of settling.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    /// The generation in force.
    pub generation: u64,
}

/// A settled decision, not yet committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Forward it.
    Allowed {
        /// The plugin instance that allowed it; `None` when the chain's default did.
        plugin: Option<String>,
        /// The rule that spoke.
        rule: Option<Rule>,
    },
    /// Refuse it.
    Refused(Reason),
}

/// How a decision is filed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filing {
    /// Forwarded.
    Allowed,
    /// Refused by policy.
    Denied,
    /// Refused because something failed.
    Error,
}

impl Decision {
    /// How it is filed.
    pub const fn filing(&self) -> Filing {
        match self {
            Self::Allowed { .. } => Filing::Allowed,
            Self::Refused(reason) => reason.filing(),
        }
    }
}

/// The verdict as a word, for the journal and for explanations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// deny
    Deny,
    /// ask
    Ask,
    /// allow
    Allow,
}

impl Word {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Ruling {
    /// The ruling as a word; a failure counts as a deny.
    pub const fn word(&self) -> Word {
        match self {
            Self::Deny { .. } | Self::Failed { .. } | Self::Default(ChainDefault::Deny) | Self::Unsettled => Word::Deny,
            Self::Ask { .. } | Self::Default(ChainDefault::Ask) => Word::Ask,
            Self::Allow { .. } | Self::Default(ChainDefault::Allow) => Word::Allow,
        }
    }
}

/// Settles one evaluated call against the present. `None`: the chain changed meanwhile, evaluate again.
pub fn settle(evaluated: &Evaluated, present: Present) -> Option<Decision> {
    // A call that is given up on is refused whatever the present is.
    let holds = evaluated.generation == present.generation || evaluated.ruling == Ruling::Unsettled;
    holds.then(|| decision(&evaluated.ruling))
}

/// What a ruling comes to when nothing else has a say; `explain` tells this.
pub fn decision(ruling: &Ruling) -> Decision {
    match ruling {
        Ruling::Default(ChainDefault::Allow) => Decision::Allowed { plugin: None, rule: None },
        Ruling::Default(ChainDefault::Deny) => Decision::Refused(Reason::of(
            Code::DefaultDeny,
            "no policy allows this call, and the chain's default is deny",
            Retry::Never,
        )),
        Ruling::Default(ChainDefault::Ask) => Decision::Refused(Reason::of(
            Code::AskUnavailable,
            "no policy decides this call and the chain's default is to ask a person, but calls cannot be held for an answer yet",
            Retry::Never,
        )),
        Ruling::Allow { plugin, rule } => Decision::Allowed { plugin: Some(plugin.clone()), rule: rule.clone() },
        Ruling::Deny { plugin, denial, rule } => Decision::Refused(Reason {
            code: Code::Policy,
            policy_code: Some(denial.code.clone()),
            message: denial.message.clone(),
            retry: denial.retry,
            plugin: Some(plugin.clone()),
            rule: rule.clone(),
        }),
        Ruling::Ask { plugin, question, rule } => Decision::Refused(Reason {
            code: Code::AskUnavailable,
            policy_code: Some(question.code.clone()),
            message: format!("{}; calls cannot be held for an answer yet, so it is refused", question.message),
            retry: Retry::Never,
            plugin: Some(plugin.clone()),
            rule: rule.clone(),
        }),
        Ruling::Failed { plugin, failure } => Decision::Refused(from_failure(plugin, failure)),
        Ruling::Unsettled => Decision::Refused(Reason::unsettled()),
    }
}

fn from_failure(plugin: &str, failure: &Failure) -> Reason {
    let retry = match failure {
        Failure::Deadline { .. } | Failure::Overload => Retry::Later,
        Failure::TooLarge { .. } => Retry::Changed,
        Failure::Fuel { .. }
        | Failure::Memory { .. }
        | Failure::Trap(_)
        | Failure::BadAnswer(_)
        | Failure::NotReady(_) => Retry::Never,
    };
    Reason {
        code: failure.code(),
        policy_code: None,
        message: format!("the policy plugin {plugin} could not decide: {failure}"),
        retry,
        plugin: Some(plugin.to_owned()),
        rule: None,
    }
}
