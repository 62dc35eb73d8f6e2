//! A policy as people write them, around one call that it allows: 1,000 rules, 100 grants, and 20 budgets of which 3 match.

use std::sync::Arc;

use callgate_core::policy::{PolicyChange, PolicyItem};
use callgate_core::port::Clock;
use callgate_journal::{Journal, Options, RecordPolicy};
use callgate_tests::home::Home;
use serde_json::{Value, json};

pub(crate) const RULES: usize = 1_000;
/// Whose grants there are.
pub(crate) const AGENT: &str = "cursor";
const GRANTS: usize = 100;
const BUDGETS: usize = 20;
/// More than is ever spent here.
const UNSPENT: u64 = 1_000_000_000;

/// Mostly exact names, some globs, some for one server; the call at hand meets an exact one.
pub(crate) fn rules(count: usize, tool: &str) -> Vec<Value> {
    let rule = |number: usize| match number % 10 {
        0 => json!({ "effect": "deny", "tool": format!("admin_{number}_*") }),
        1 => json!({ "effect": "ask", "tool": format!("*_secret_{number}") }),
        2 => json!({ "effect": "deny", "tool": format!("write_{number}"), "server": "other" }),
        _ => json!({ "effect": "deny", "tool": format!("tool_{number}") }),
    };
    (1..count).map(rule).chain([json!({ "effect": "allow", "tool": tool })]).collect()
}

/// The first three match.
pub(crate) fn budgets(tool: &str, server: &str) -> Vec<Value> {
    let budget = |number: usize| match number {
        0 => json!({ "limit": UNSPENT, "all_tools": true }),
        1 => json!({ "limit": UNSPENT, "tool": tool }),
        2 => json!({ "limit": UNSPENT, "tool": format!("{tool}*"), "server": server }),
        _ => json!({ "limit": 20, "tool": format!("list_{number}") }),
    };
    (0..BUDGETS).map(budget).collect()
}

/// Of several agents; the call at hand meets the last of its agent's.
pub(crate) fn grants(tool: &str, server: &str) -> Vec<Value> {
    let grant = |number: usize| match number % 4 {
        0 => json!({ "agent": AGENT, "server": server, "tool": format!("write_{number}_*") }),
        1 => json!({ "agent": AGENT, "server": format!("server-{number}"), "tool": "*" }),
        _ => json!({ "agent": format!("agent-{number}"), "server": server, "tool": "*" }),
    };
    let last = json!({ "agent": AGENT, "server": server, "tool": tool, "args": { "path": "/home/user/**" } });
    (1..GRANTS).map(grant).chain([last]).collect()
}

/// Puts the policy into the journal of a home that no daemon has used yet.
pub(crate) fn write(home: &Home, tool: &str, server: &str) {
    let journal = Journal::open(Options {
        database: home.database(),
        install_marker: home.path().join("install"),
        record: RecordPolicy::default(),
        clock: Arc::new(LongAgo),
        build: "bench".to_owned(),
    })
    .expect("a journal can be made");
    let named = |name: &'static str| move |item: Value| json!({ name: item });
    let items = (rules(RULES, tool).into_iter().map(named("rule")))
        .chain(budgets(tool, server).into_iter().map(named("budget")))
        .chain(grants(tool, server).into_iter().map(named("grant")));
    let add = |item: Value| PolicyChange::Add(serde_json::from_value::<PolicyItem>(item).expect("it is an item"));
    journal.change_policy(items.map(add).collect(), 0, Box::new(|_| ())).expect("the policy is written");
    journal.close().expect("the journal can be closed");
}

/// The daemon's clock is later than this.
struct LongAgo;

impl Clock for LongAgo {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn boot_ms(&self) -> u64 {
        0
    }
}
