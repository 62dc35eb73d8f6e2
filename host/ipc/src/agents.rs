//! What is said about enrolled agents.

use callgate_core::agent::{AgentEntry, Program};
use callgate_core::identity::{AgentName, WrapperName};
use callgate_core::policy::{PolicyItem, PolicyKind};
use serde::{Deserialize, Serialize};

/// An agent to be enrolled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Enrol {
    /// Its name.
    pub name: AgentName,
    /// Its program.
    pub program: Program,
    /// What may stand between the program and the relay.
    pub via: Vec<WrapperName>,
}

/// An agent whose program is another one, or another file, from here on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refresh {
    /// Its name.
    pub name: AgentName,
    /// Its program as it is now.
    pub program: Program,
}

/// A change of the enrolments that was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentChanged {
    /// The agent: as it is now, or as it was when it was removed.
    pub agent: AgentEntry,
    /// The journal's entry.
    pub entry: u64,
    /// What of the policy names it.
    pub naming: Naming,
    /// Other agents that the same program is.
    pub same_program: Vec<AgentName>,
    /// Its sessions that are open.
    pub sessions: u64,
}

/// How much of the policy names an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Naming {
    /// Rules.
    pub rules: u64,
    /// Budgets.
    pub budgets: u64,
    /// Grants.
    pub grants: u64,
}

impl Naming {
    /// What of a policy names this agent.
    pub fn of(policy: &[PolicyItem], agent: &AgentName) -> Self {
        let of = |kind| {
            let named = policy.iter().filter(|item| item.kind() == kind && item.agent() == Some(agent));
            named.count() as u64
        };
        Self { rules: of(PolicyKind::Rule), budgets: of(PolicyKind::Budget), grants: of(PolicyKind::Grant) }
    }
}
