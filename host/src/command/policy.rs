//! `callgate policy`

use serde::Serialize;

use callgate_core::escape::visible;
use callgate_core::rule::{RuleEntry, RuleKey, Target};
use callgate_core::settle::Word;
use callgate_ipc::message::{Command, CommandReply, Explain, Explained};

use super::log;
use crate::cli::{Json, Policy, Scope, ToolScope};
use crate::client::Client;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn policy(policy: Policy, home: &Home) -> Outcome {
    match policy {
        Policy::Allow(rule) => add(home, Word::Allow, tool_key(rule)),
        Policy::Deny(rule) => add(home, Word::Deny, tool_key(rule)),
        Policy::Ask(rule) => add(home, Word::Ask, tool_key(rule)),
        Policy::Default { effect, scope } => add(home, effect.into(), key(Target::Default, scope)),
        Policy::Remove { tool, scope, .. } => remove(home, key(tool.map_or(Target::Default, Target::Tool), scope)),
        Policy::List(json) => list(home, json),
        Policy::Explain { tool, scope, args, json } => explain(home, &tool, scope, args, json),
    }
}

fn tool_key(rule: ToolScope) -> RuleKey {
    key(Target::Tool(rule.tool), rule.scope)
}

fn key(target: Target, scope: Scope) -> RuleKey {
    RuleKey { target, agent: scope.agent, server: scope.server }
}

fn add(home: &Home, effect: Word, key: RuleKey) -> Outcome {
    let reply = Client::connect(home)?.ask(&Command::AddRule(RuleEntry { effect, key }))?;
    changed("added", reply)
}

fn remove(home: &Home, key: RuleKey) -> Outcome {
    let reply = Client::connect(home)?.ask(&Command::RemoveRule(key))?;
    changed("removed", reply)
}

fn changed(what: &str, reply: CommandReply) -> Outcome {
    let CommandReply::Changed { entry, rule, warnings } = reply else { return Err(unexpected()) };
    for warning in warnings {
        output::tell(&format!("warning: {}", visible(&warning)));
    }
    output::line(&format!("{what}: {} (entry {entry})", visible(&rule.to_string())))?;
    Ok(Exit::Done)
}

fn unexpected() -> Failure {
    Failure::internal("the daemon answered another question")
}

#[derive(Serialize)]
struct Rules {
    rules: Vec<RuleEntry>,
}

fn list(home: &Home, json: Json) -> Outcome {
    // Before the first daemon there is no database, and so there is no rule.
    let rules = if home.database().exists() {
        log::open(home)?.rules().map_err(|error| log::unreadable(&error))?.entries
    } else {
        Vec::new()
    };
    if json.json {
        output::json(&Rules { rules })?;
    } else if rules.is_empty() {
        output::line("no rules: every call is allowed")?;
    } else {
        rules.iter().try_for_each(|rule| output::line(&visible(&rule.to_string())))?;
    }
    Ok(Exit::Done)
}

fn explain(home: &Home, tool: &str, scope: Scope, arguments: String, json: Json) -> Outcome {
    let question = Explain { tool: tool.to_owned(), agent: scope.agent, server: scope.server, arguments };
    let reply = Client::connect(home)?.ask(&Command::Explain(question))?;
    let CommandReply::Explained(explained) = reply else { return Err(unexpected()) };
    if json.json {
        output::json(&explained)?;
    } else {
        print(tool, &explained)?;
    }
    Ok(if explained.verdict == Word::Allow { Exit::Done } else { Exit::No })
}

fn print(tool: &str, explained: &Explained) -> Result<(), Failure> {
    let by = match (&explained.plugin, &explained.rule) {
        (Some(plugin), Some(rule)) => format!("{plugin}: {}", rule.text),
        (Some(plugin), None) => format!("{plugin}: no rule names it"),
        (None, _) => "the chain's default".to_owned(),
    };
    output::line(&visible(&format!("{}: {tool} ({by})", explained.verdict)))?;
    if let Some(reason) = &explained.refusal {
        output::line(&visible(&format!("  reason: {} ({})", reason.message, reason.code_text())))?;
    }
    for opinion in &explained.opinions {
        let rule = opinion.rule.as_ref().map(|rule| format!(" by {rule}")).unwrap_or_default();
        output::line(&visible(&format!("  {}: {}{rule}", opinion.plugin, opinion.verdict)))?;
    }
    explained.notes.iter().try_for_each(|note| output::line(&visible(&format!("  note: {note}"))))
}
