//! `callgate policy`: rules, and what is decided. Budgets have a module of their own.

use serde::Serialize;

use callgate_core::budget::BudgetEntry;
use callgate_core::escape::visible;
use callgate_core::policy::{PolicyChange, PolicyItem, PolicyKey};
use callgate_core::rule::{RuleEntry, RuleKey, Target};
use callgate_core::settle::{Foreseen, Word};
use callgate_ipc::message::{Changed, ChangedItem, Command, CommandReply, Explain, Explained};

use super::{budget, log};
use crate::cli::{Json, Policy, Scope, ToolScope};
use crate::client::{Client, unexpected};
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn policy(policy: Policy, home: &Home) -> Outcome {
    match policy {
        Policy::Allow(rule) => add_rule(home, Word::Allow, tool_key(rule)),
        Policy::Deny(rule) => add_rule(home, Word::Deny, tool_key(rule)),
        Policy::Ask(rule) => add_rule(home, Word::Ask, tool_key(rule)),
        Policy::Default { effect, scope } => add_rule(home, effect.into(), key(Target::Default, scope)),
        Policy::Budget(budget) => budget::budget(budget, home),
        Policy::Usage(json) => budget::usage(home, json),
        Policy::Remove { tool, scope, .. } => {
            remove(home, PolicyKey::Rule(key(tool.map_or(Target::Default, Target::Tool), scope)))
        }
        Policy::List(json) => list(home, json),
        Policy::Explain { tool, scope, args, session, json } => {
            let Scope { agent, server } = scope;
            explain(home, Explain { tool, agent, server, arguments: args, session }, json)
        }
    }
}

fn tool_key(rule: ToolScope) -> RuleKey {
    key(Target::Tool(rule.tool), rule.scope)
}

fn key(target: Target, scope: Scope) -> RuleKey {
    RuleKey { target, agent: scope.agent, server: scope.server }
}

fn add_rule(home: &Home, effect: Word, key: RuleKey) -> Outcome {
    add(home, PolicyItem::Rule(RuleEntry { effect, key }), "added")
}

/// Adds one item, and tells of it in a word.
pub(super) fn add(home: &Home, item: PolicyItem, word: &str) -> Outcome {
    changed(home, &Command::Change(vec![PolicyChange::Add(item)]), word)
}

/// Removes one item.
pub(super) fn remove(home: &Home, key: PolicyKey) -> Outcome {
    changed(home, &Command::Change(vec![PolicyChange::Remove(key)]), "removed")
}

/// Has the policy changed, and tells of each item in a word what became of it.
pub(super) fn changed(home: &Home, command: &Command, word: &str) -> Outcome {
    let reply = Client::connect(home)?.ask(command)?;
    let CommandReply::Changed(Changed { items, more, warnings }) = reply else { return Err(unexpected()) };
    for warning in warnings {
        output::tell(&format!("warning: {}", visible(&warning)));
    }
    for ChangedItem { entry, item } in items {
        output::line(&format!("{word}: {} (entry {entry})", visible(&item.to_string())))?;
    }
    if more > 0 {
        output::line(&format!("{word}: {more} more, see callgate log"))?;
    }
    Ok(Exit::Done)
}

/// The items in force. Before the first daemon there is no database, and so there is none.
pub(super) fn in_force(home: &Home) -> Result<Vec<PolicyItem>, Failure> {
    if !home.database().exists() {
        return Ok(Vec::new());
    }
    Ok(log::open(home)?.policy().map_err(|error| log::unreadable(&error))?.items)
}

#[derive(Serialize, Default)]
struct Listed {
    rules: Vec<RuleEntry>,
    budgets: Vec<BudgetEntry>,
}

fn list(home: &Home, json: Json) -> Outcome {
    let mut listed = Listed::default();
    let mut grants: usize = 0;
    for item in in_force(home)? {
        match item {
            PolicyItem::Rule(rule) => listed.rules.push(rule),
            PolicyItem::Budget(budget) => listed.budgets.push(budget),
            PolicyItem::Grant(_) => grants += 1,
        }
    }
    if json.json {
        output::json(&listed)?;
        return Ok(Exit::Done);
    }
    let Listed { rules, budgets } = listed;
    if rules.is_empty() {
        output::line("no rules: every call is allowed")?;
    }
    let rules = rules.iter().map(ToString::to_string);
    let mut lines = rules.chain(budgets.iter().map(ToString::to_string));
    lines.try_for_each(|line| output::line(&visible(&line)))?;
    if grants > 0 {
        output::tell("agents that have grants get nothing else; to see them: callgate grants");
    }
    Ok(Exit::Done)
}

fn explain(home: &Home, question: Explain, json: Json) -> Outcome {
    let tool = question.tool.clone();
    let reply = Client::connect(home)?.ask(&Command::Explain(question))?;
    let CommandReply::Explained(explained) = reply else { return Err(unexpected()) };
    if json.json {
        output::json(&explained)?;
    } else {
        print(&tool, &explained)?;
    }
    Ok(if explained.refusal.is_none() { Exit::Done } else { Exit::No })
}

fn print(tool: &str, explained: &Explained) -> Result<(), Failure> {
    let by = match (&explained.plugin, &explained.rule) {
        (Some(plugin), Some(rule)) => format!("{plugin}: {}", rule.text),
        (Some(plugin), None) => format!("{plugin}: no rule names it"),
        (None, _) => "the chain's default".to_owned(),
    };
    output::line(&visible(&format!("{}: {tool} ({by})", explained.verdict)))?;
    match &explained.agent {
        Some(agent) if agent.id.is_empty() => {
            output::line(&format!("  note: no agent named {} is enrolled", agent.name))?;
        }
        Some(agent) => output::line(&format!("  agent: {} ({})", agent.name, agent.evidence))?,
        None => {}
    }
    if let Some(reason) = &explained.refusal {
        output::line(&visible(&format!("  reason: {} ({})", reason.message, reason.code_text())))?;
    }
    for opinion in &explained.opinions {
        let rule = opinion.rule.as_ref().map(|rule| format!(" by {rule}")).unwrap_or_default();
        output::line(&visible(&format!("  {}: {}{rule}", opinion.plugin, opinion.verdict)))?;
        let charges = explained.charges.iter().filter(|charge| charge.plugin == opinion.plugin);
        charges.map(charged).try_for_each(|line| output::line(&visible(&line)))?;
    }
    explained.notes.iter().try_for_each(|note| output::line(&visible(&format!("  note: {note}"))))
}

/// What a charge would come to.
fn charged(Foreseen { rule, amount, spent, limit, .. }: &Foreseen) -> String {
    let room = if spent.saturating_add(*amount) > *limit { ", no room for this call" } else { "" };
    format!("    counts {amount} against {}: {spent} of {limit} spent{room}", rule.text)
}
