//! The enrolled agents, and the names that the policy gives to agents.

use std::collections::BTreeSet;

use callgate_core::agent::AgentEntry;
use callgate_core::policy::PolicyItem;

use super::Check;
use crate::command::{agents, policy};
use crate::environment::Environment;
use crate::home::Home;

/// Whether each agent's program is the one that was enrolled, and everything that the policy says of an agent binds one.
pub(super) fn agents(home: &Home, environment: &Environment) -> Vec<Check> {
    let check = "agents";
    let enrolled = match agents::enrolled(home) {
        Ok(enrolled) => enrolled,
        Err(failure) => return vec![Check::failed(check, failure)],
    };
    let changed = enrolled.0.iter().filter_map(|agent| changed(agent, environment));
    // A policy that cannot be read has a check of its own.
    let items = policy::in_force(home).unwrap_or_default();
    let named: BTreeSet<_> = items.iter().filter_map(PolicyItem::agent).collect();
    let unbound = named.into_iter().filter(|name| enrolled.named(name).is_none()).map(|name| {
        let found = format!("no agent named {name} is enrolled, so what the policy says of it binds nobody");
        Check::warn(check, found, format!("callgate agent add {name} PROGRAM"))
    });
    let wrong = changed.chain(unbound).collect();
    Check::some_or_ok(wrong, check, format!("{} enrolled", enrolled.0.len()))
}

fn changed(agent: &AgentEntry, environment: &Environment) -> Option<Check> {
    let name = &agent.name;
    match agents::is_current(agent, environment.path.as_deref()) {
        Ok(true) => None,
        Ok(false) => Some(Check::warn(
            "agents",
            format!("{name} is stale: its program changed since it was enrolled, so that its sessions are not known"),
            format!("callgate agent refresh {name}"),
        )),
        Err(why) => Some(Check::warn(
            "agents",
            format!("{name}: {why}"),
            format!("callgate agent remove {name}, or enrol it anew where it is now"),
        )),
    }
}
