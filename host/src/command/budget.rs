//! `callgate policy budget` and `callgate policy usage`

use callgate_core::agent::Agents;
use callgate_core::budget::{BadLimit, BudgetEntry, BudgetKey, Limit, Tools};
use callgate_core::charge::{Owner, QUANTITY_MAX, Subject};
use callgate_core::escape::visible;
use callgate_core::policy::{PolicyItem, PolicyKey};
use callgate_core::rule::{RuleKey, Target};
use callgate_ipc::message::{BudgetUsage, Command, CommandReply, Spent, Usage};

use super::agents;
use super::policy::{add, remove};
use crate::cli::{Budget, BudgetChange, Counted, Json, Scope, SharedBy};
use crate::client::{Client, unexpected};
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn budget(budget: Budget, home: &Home) -> Outcome {
    if let Some(BudgetChange::Remove(counted)) = budget.change {
        return remove(home, PolicyKey::Budget(key(counted)));
    }
    let key = key(budget.counted);
    let limit = budget.limit.unwrap_or_default().parse::<Limit>().map_err(|error| bad_limit(&error, &key))?;
    add(home, PolicyItem::Budget(BudgetEntry { limit, key }), "added")
}

fn key(counted: Counted) -> BudgetKey {
    let Counted { tool, scope: Scope { agent, server }, shared_by, .. } = counted;
    let per = match shared_by {
        None => Subject::Session,
        Some(SharedBy::Agent) => Subject::Agent,
        Some(SharedBy::Everyone) => Subject::Everyone,
    };
    BudgetKey { tools: tool.map_or(Tools::All, Tools::Named), agent, server, per }
}

fn bad_limit(error: &BadLimit, key: &BudgetKey) -> Failure {
    let hint = match error {
        BadLimit::Zero => {
            let tool = match &key.tools {
                Tools::Named(tool) => tool.clone(),
                Tools::All => "*".to_owned(),
            };
            let rule = RuleKey { target: Target::Tool(tool), agent: key.agent.clone(), server: key.server.clone() };
            format!("to refuse these calls: callgate policy deny {}", rule.as_arguments())
        }
        BadLimit::NotALimit(_) => {
            format!("write how many calls may go through, for example 20; {QUANTITY_MAX} is the most")
        }
    };
    Failure::usage(error.to_string()).hint(hint)
}

pub(super) fn usage(home: &Home, json: Json) -> Outcome {
    let reply = Client::connect(home)?.ask(&Command::Usage)?;
    let CommandReply::Usage(usage) = reply else { return Err(unexpected()) };
    if json.json {
        output::json(&usage)?;
    } else if usage.budgets.is_empty() {
        output::line("no budgets")?;
    } else {
        table(&usage, &agents::enrolled(home)?)?;
    }
    Ok(Exit::Done)
}

/// One line for everyone who spent something, one for a budget of which nobody did.
fn table(usage: &Usage, agents: &Agents) -> Result<(), Failure> {
    let rows: Vec<[String; 4]> = usage.budgets.iter().flat_map(|usage| rows(usage, agents)).collect();
    let head = ["SPENT", "LEFT", "BY", "BUDGET"].map(str::to_owned);
    let width = |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [spent_width, left_width, by_width] = [width(0), width(1), width(2)];
    for [spent, left, by, budget] in [&head].into_iter().chain(&rows) {
        output::line(&format!("{spent:>spent_width$}  {left:>left_width$}  {by:<by_width$}  {budget}"))?;
    }
    Ok(())
}

fn rows(BudgetUsage { budget, spent, more }: &BudgetUsage, agents: &Agents) -> Vec<[String; 4]> {
    let text = visible(&budget.to_string()).into_owned();
    let row =
        |Spent { by, spent, left }: &Spent| [spent.to_string(), left.to_string(), owner(by, agents), text.clone()];
    let mut rows: Vec<[String; 4]> = spent.iter().map(row).collect();
    if rows.is_empty() {
        rows.push(["0".to_owned(), budget.limit.to_string(), "nobody yet".to_owned(), text.clone()]);
    }
    if *more > 0 {
        rows.push(["-".to_owned(), "-".to_owned(), format!("{more} more"), text.clone()]);
    }
    rows
}

/// Whose a counter is, as a person would say it. An agent that is not among these has its id.
pub(super) fn owner(by: &Owner, agents: &Agents) -> String {
    match by {
        Owner::Session(session) => format!("session {session}"),
        Owner::Agent(id) => match agents.with_id(id) {
            Some(agent) => format!("agent {}", agent.name),
            None => format!("agent {}", visible(id)),
        },
        Owner::Unknown => "agents not known".to_owned(),
        Owner::Everyone => "everyone".to_owned(),
    }
}
