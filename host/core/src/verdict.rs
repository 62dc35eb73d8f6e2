//! What plugins answer, and how answers combine: deny > ask > allow > abstain, and every failure is a deny.

use serde::{Deserialize, Serialize};

use crate::charge::Charge;
use crate::code::Code;

/// Whether the agent can do something about a denial.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// The same call will always be refused.
    Never,
    /// Other arguments may pass.
    Changed,
    /// The same call may pass later.
    Later,
}

/// A plugin's no.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Denial {
    /// Stable, kebab-case, chosen by the plugin.
    pub code: String,
    /// One sentence for the agent.
    pub message: String,
    /// Whether trying again can help.
    pub retry: Retry,
}

/// A plugin's wish that a person decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Question {
    /// Stable, kebab-case, chosen by the plugin.
    pub code: String,
    /// One sentence for the person.
    pub message: String,
    /// The answer needs proof of presence.
    pub presence: bool,
}

/// What one plugin says of one call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No.
    Deny(Denial),
    /// A person decides.
    Ask(Question),
    /// Yes, as far as this plugin is concerned.
    Allow,
    /// Nothing to say.
    Abstain,
}

/// The part of the settings that spoke.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// RFC 6901 JSON pointer into the settings document.
    pub path: String,
    /// The named set it belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<String>,
    /// The rule as a person would say it.
    pub text: String,
}

/// One plugin's whole answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What it says.
    pub verdict: Verdict,
    /// The rule that gave the verdict.
    pub rule: Option<Rule>,
    /// What else a person should know; never sent to the agent.
    pub notes: Vec<String>,
    /// What the call consumes.
    pub charges: Vec<Charge>,
}

/// Why a plugin gave no answer. Each is a denial with a code of its own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The deadline passed.
    #[error("it gave no answer within {limit_ms} ms")]
    Deadline {
        /// The deadline in force.
        limit_ms: u64,
    },
    /// The fuel is spent.
    #[error("it used up its {limit} units of fuel")]
    Fuel {
        /// The fuel it had.
        limit: u64,
    },
    /// It asked for more memory or table room than it may have.
    #[error("it asked for more memory than its limit of {limit_bytes} bytes")]
    Memory {
        /// The limit in force.
        limit_bytes: u64,
    },
    /// It stopped on a fault of its own.
    #[error("it failed: {0}")]
    Trap(String),
    /// The answer breaks a bound that the contract states.
    #[error("its answer breaks the contract: {0}")]
    BadAnswer(String),
    /// More instances are at work than there may be.
    #[error("too many calls are being decided at once")]
    Overload,
    /// Its settings did not load, or it could not be instantiated.
    #[error("it is not ready: {0}")]
    NotReady(String),
    /// It failed so often for this agent that it is not asked any more.
    #[error("it failed too often for this agent and is not asked any more until it is reset; the last time {last}")]
    Breaker {
        /// The last of those failures.
        last: Box<Failure>,
    },
    /// The arguments are larger than a plugin is shown.
    #[error("the arguments take {bytes} bytes, more than the {limit_bytes} that can be judged")]
    TooLarge {
        /// What they take.
        bytes: u64,
        /// The limit in force.
        limit_bytes: u64,
    },
}

impl Failure {
    /// The code that a refusal for this failure carries.
    pub const fn code(&self) -> Code {
        match self {
            Self::Deadline { .. } => Code::PluginDeadline,
            Self::Fuel { .. } => Code::PluginFuel,
            Self::Memory { .. } => Code::PluginMemory,
            Self::Trap(_) => Code::PluginTrap,
            Self::BadAnswer(_) => Code::PluginBadAnswer,
            Self::Overload => Code::PluginOverload,
            Self::NotReady(_) => Code::PluginNotReady,
            Self::Breaker { .. } => Code::PluginBreaker,
            Self::TooLarge { .. } => Code::CallTooLarge,
        }
    }
}

/// What one plugin instance of the chain had to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opinion {
    /// Its place in the chain, from 0; decides who speaks among equally strict ones.
    pub position: usize,
    /// The instance's name.
    pub plugin: String,
    /// Whether its `allow` counts.
    pub may_grant: bool,
    /// Its answer, or why there is none.
    pub outcome: Result<Answer, Failure>,
}

/// How strict an opinion is. The order is the verdict algebra.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Strictness {
    /// Says nothing.
    Abstain,
    /// Yes.
    Allow,
    /// A person decides.
    Ask,
    /// No, or no answer.
    Deny,
}

impl Opinion {
    /// How strict this opinion counts: a failure is a deny, an `allow` from an instance that may not grant says nothing.
    pub const fn strictness(&self) -> Strictness {
        match &self.outcome {
            Err(_) | Ok(Answer { verdict: Verdict::Deny(_), .. }) => Strictness::Deny,
            Ok(Answer { verdict: Verdict::Ask(_), .. }) => Strictness::Ask,
            Ok(Answer { verdict: Verdict::Allow, .. }) if self.may_grant => Strictness::Allow,
            Ok(Answer { verdict: Verdict::Allow | Verdict::Abstain, .. }) => Strictness::Abstain,
        }
    }

    /// The stricter of the two; of equally strict ones the earlier in the chain.
    #[must_use]
    pub fn stricter<'a>(&'a self, other: &'a Self) -> &'a Self {
        let rank = |opinion: &Self| (opinion.strictness(), std::cmp::Reverse(opinion.position));
        if rank(other) > rank(self) { other } else { self }
    }
}

/// The opinion that decides; `None` for an empty chain.
pub fn strictest(opinions: &[Opinion]) -> Option<&Opinion> {
    opinions.iter().reduce(Opinion::stricter)
}
