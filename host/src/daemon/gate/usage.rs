//! What is spent of the budgets in force. The plugin that charges them says itself which counters those are: it is asked about
//! one call of each.

use std::cmp::Reverse;

use callgate_core::budget::{BudgetEntry, BudgetKey, Tools};
use callgate_core::call::Call;
use callgate_core::charge::Owner;
use callgate_core::counters::Name;
use callgate_core::policy::PolicyItem;
use callgate_core::port::Evaluator;
use callgate_ipc::message::{BudgetUsage, CommandReply, Fault, Spent, Usage};

use super::{DAEMON_HINT, Gate, lock, request};
use crate::daemon::policies::{BUDGET, budget_pointer};
use crate::plugins::asked;

/// How many who spent something are told of, over all budgets: well within what a message may hold. One of each budget is
/// always among them.
const SPENDERS_TOLD_MAX: usize = 4096;

impl Gate {
    /// What is spent of every budget.
    pub(in crate::daemon) fn usage(&self) -> CommandReply {
        let open = match self.serving() {
            Ok(open) => open,
            Err(failure) => return self.shut(&failure),
        };
        let chain = open.chain();
        let policy = {
            let _unchanged_meanwhile = lock(&open.changing);
            match open.journal.policy() {
                Ok(policy) => policy,
                Err(failure) => return self.unwritten(&failure),
            }
        };
        if policy.generation != chain.generation() {
            return request("the policy changed meanwhile".to_owned(), Some("try again".to_owned()));
        }
        let budgets: Vec<BudgetEntry> = policy.items.into_iter().filter_map(budget).collect();
        let names = budgets.iter().enumerate().map(|(place, budget)| counter(&chain.imagined(), place, budget));
        let names: Vec<Name> = match names.collect() {
            Ok(names) => names,
            Err(message) => {
                let hint = Some(DAEMON_HINT.to_owned());
                return CommandReply::Failed { message, hint, fault: Fault::Environment };
            }
        };
        let told_max = (SPENDERS_TOLD_MAX / budgets.len().max(1)).max(1);
        match open.journal.spent(&names) {
            Ok(spent) => {
                let budgets = budgets.into_iter().zip(spent).map(|(budget, spent)| told(budget, spent, told_max));
                CommandReply::Usage(Usage { budgets: budgets.collect() })
            }
            Err(failure) => self.unwritten(&failure),
        }
    }
}

fn budget(item: PolicyItem) -> Option<BudgetEntry> {
    match item {
        PolicyItem::Budget(budget) => Some(budget),
        PolicyItem::Rule(_) | PolicyItem::Grant(_) => None,
    }
}

/// The counter that a budget is charged to.
fn counter(chain: &impl Evaluator, place: usize, budget: &BudgetEntry) -> Result<Name, String> {
    let opinions = chain.opinions(&counted_call(budget)).opinions;
    let answer = opinions.into_iter().find(|opinion| opinion.plugin == BUDGET).map(|opinion| opinion.outcome);
    let charges = match answer {
        Some(Ok(answer)) => answer.charges,
        Some(Err(failure)) => return Err(format!("the plugin {BUDGET} cannot say what it counts: {failure}")),
        None => return Err(format!("the plugin {BUDGET} is not in the chain")),
    };
    let charge = charges.into_iter().find(|charge| charge.rule.path == budget_pointer(place));
    let charge = charge.ok_or_else(|| format!("the plugin {BUDGET} does not count what it should: {budget}"))?;
    Ok(Name { plugin: BUDGET.into(), key: charge.key, window: charge.window })
}

/// A call that a budget counts, made by nobody.
fn counted_call(budget: &BudgetEntry) -> Call {
    let BudgetKey { tools, agent, server, .. } = budget.key.clone();
    let tool = match tools {
        // Every pattern matches itself: its wildcards stand for any text, themselves too.
        Tools::Named(tool) => tool,
        Tools::All => "-".to_owned(),
    };
    asked::unread(server, tool, agent.map(asked::declared), "{}")
}

/// Who spent how much, those who spent most first.
fn told(budget: BudgetEntry, mut spent: Vec<(Owner, u64)>, told_max: usize) -> BudgetUsage {
    spent.sort_by(|(a, of_a), (b, of_b)| (Reverse(of_a), a).cmp(&(Reverse(of_b), b)));
    let more = spent.len().saturating_sub(told_max) as u64;
    let limit = u64::from(budget.limit);
    let told = spent.into_iter().take(told_max);
    let spent = told.map(|(by, spent)| Spent { by, spent, left: limit.saturating_sub(spent) }).collect();
    BudgetUsage { budget, spent, more }
}
