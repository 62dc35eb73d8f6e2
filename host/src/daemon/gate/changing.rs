//! Changes of the policy: the plugins take it first, then it is committed, then it is in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use callgate_core::agent::Agents;
use callgate_core::grant::GrantsOf;
use callgate_core::identity::AgentName;
use callgate_core::policy::{Conflict, PolicyChange, PolicyItem, PolicyKey, apply};
use callgate_ipc::message::{Changed, ChangedItem, CommandReply, Fault};
use callgate_journal::{Policy, PolicyChanged, PolicyError};

use super::{DAEMON_HINT, Gate, Open, lock, request};
use crate::daemon::policies::NotMade;

/// How much of what was changed is told, in bytes of JSON: well within what a message may hold.
const TOLD_BYTES_MAX: usize = 256 * 1024;

impl Gate {
    /// Makes changes, all of them or none.
    pub(in crate::daemon) fn change(&self, changes: Vec<PolicyChange>) -> CommandReply {
        self.change_by(|_| Ok(changes))
    }

    /// Revokes grants, all of them or none.
    pub(in crate::daemon) fn revoke(&self, grants: &GrantsOf) -> CommandReply {
        self.change_by(|items| {
            let revoked = items.iter().filter_map(|item| match item {
                PolicyItem::Grant(grant) if grants.has(grant) => Some(PolicyChange::Remove(item.key())),
                PolicyItem::Grant(_) | PolicyItem::Rule(_) | PolicyItem::Budget(_) => None,
            });
            let revoked: Vec<PolicyChange> = revoked.collect();
            if revoked.is_empty() { Err(no_such_grant(grants)) } else { Ok(revoked) }
        })
    }

    /// Makes the changes that `changes` says of the items in force.
    fn change_by(
        &self,
        changes: impl FnOnce(&[PolicyItem]) -> Result<Vec<PolicyChange>, CommandReply>,
    ) -> CommandReply {
        let open = match self.serving() {
            Ok(open) => open,
            Err(failure) => return self.shut(&failure),
        };
        let _one_at_a_time = lock(&open.changing);
        let policy = match open.journal.policy() {
            Ok(policy) => policy,
            Err(failure) => return self.unwritten(&failure),
        };
        changes(&policy.items).map_or_else(|reply| reply, |changes| self.make(&open, policy, changes))
    }

    fn make(&self, open: &Arc<Open>, policy: Policy, changes: Vec<PolicyChange>) -> CommandReply {
        let Policy { generation, mut items } = policy;
        // The journal checks the same again, inside its transaction.
        if let Err(conflict) = apply(&mut items, &changes) {
            return self.unchanged(&conflict.into());
        }
        let changed = Policy { generation: generation + 1, items };
        let plugins = match open.journal.plugins() {
            Ok(plugins) => plugins.entries,
            Err(failure) => return self.unwritten(&failure),
        };
        let made = match open.policies.changed(&changed, &changes, &plugins, &open.switch.chain()) {
            Ok(made) => made,
            Err(error) => return not_made(&error),
        };
        let swap = {
            let open = Arc::clone(open);
            Box::new(move |_| open.switch.set(made.chain))
        };
        match open.journal.change_policy(changes, generation, swap) {
            Ok(PolicyChanged { items, .. }) => {
                let warnings = made.warnings.into_iter().chain(unbound(&items, &changed.items));
                let warnings = warnings.chain(nobody(&items, &changed.items, &open.agents())).collect();
                CommandReply::Changed(told(items, warnings))
            }
            Err(error) => self.unchanged(&error),
        }
    }

    pub(super) fn unchanged(&self, error: &PolicyError) -> CommandReply {
        let hint = match error {
            PolicyError::Conflict(Conflict::AlreadyThere(there)) => already_there_hint(there),
            PolicyError::Conflict(Conflict::NotThere(PolicyKey::Rule(_) | PolicyKey::Budget(_))) => {
                "callgate policy list".to_owned()
            }
            PolicyError::Conflict(Conflict::NotThere(PolicyKey::Grant(_))) => "callgate grants".to_owned(),
            PolicyError::Count(_) => "make fewer changes at once".to_owned(),
            PolicyError::Stale { .. } => "try again".to_owned(),
            PolicyError::Unwritten(failure) => return self.unwritten(failure),
        };
        request(error.to_string(), Some(hint))
    }
}

fn already_there_hint(there: &PolicyItem) -> String {
    match there {
        PolicyItem::Rule(rule) => format!("remove it first: callgate policy remove {}", rule.key.as_arguments()),
        PolicyItem::Budget(budget) => {
            format!("remove it first: callgate policy budget remove {}", budget.key.as_arguments())
        }
        PolicyItem::Grant(grant) => format!("to see all grants of the agent: callgate grants --agent {}", grant.agent),
    }
}

fn no_such_grant(GrantsOf { agent, server, tool }: &GrantsOf) -> CommandReply {
    let tool = tool.as_ref().map(|tool| format!(" for exactly {tool:?}")).unwrap_or_default();
    let hint = format!("callgate grants --agent {agent}");
    request(format!("agent {agent} has no grant on server {server}{tool}"), Some(hint))
}

fn not_made(error: &NotMade) -> CommandReply {
    let message = error.to_string();
    match error {
        NotMade::Refused { hint, .. } => request(message, hint.clone()),
        NotMade::Failed { .. } => {
            CommandReply::Failed { message, hint: Some(DAEMON_HINT.to_owned()), fault: Fault::Environment }
        }
    }
}

/// Warns of agents whose last grant was removed: they are not left with nothing, as one might think, but without this limit.
fn unbound(changed: &[(u64, PolicyItem)], in_force: &[PolicyItem]) -> Vec<String> {
    let bound: BTreeSet<&AgentName> = in_force.iter().filter_map(granted).collect();
    let touched: BTreeSet<&AgentName> = changed.iter().filter_map(|(_, item)| granted(item)).collect();
    let warn = |agent: &&AgentName| format!("agent {agent} has no grant any more: only rules and budgets limit it now");
    touched.difference(&bound).map(warn).collect()
}

/// Warns of agents that were just named and that no session can be.
fn nobody(changed: &[(u64, PolicyItem)], in_force: &[PolicyItem], agents: &Agents) -> Vec<String> {
    let named: BTreeSet<&AgentName> =
        changed.iter().filter(|(_, item)| in_force.contains(item)).filter_map(|(_, item)| item.agent()).collect();
    let warn = |agent: &&AgentName| {
        format!(
            "no agent named {agent} is enrolled, and until one is, this binds nobody: callgate agent add {agent} PROGRAM"
        )
    };
    named.iter().filter(|agent| agents.named(agent).is_none()).map(warn).collect()
}

const fn granted(item: &PolicyItem) -> Option<&AgentName> {
    match item {
        PolicyItem::Grant(grant) => Some(&grant.agent),
        PolicyItem::Rule(_) | PolicyItem::Budget(_) => None,
    }
}

/// What was changed, as much of it as is told.
fn told(items: Vec<(u64, PolicyItem)>, warnings: Vec<String>) -> Changed {
    let count = items.len();
    let mut room = TOLD_BYTES_MAX;
    let fits = |(entry, item): (u64, PolicyItem)| {
        let bytes = serde_json::to_vec(&item).map_or(usize::MAX, |json| json.len());
        room = room.checked_sub(bytes)?;
        Some(ChangedItem { entry, item })
    };
    let items: Vec<ChangedItem> = items.into_iter().map_while(fits).collect();
    Changed { more: count.abs_diff(items.len()) as u64, items, warnings }
}
