//! The shipped `budget` component: the case table, call by call, natively and on this engine, its charges settled as the
//! journal settles them.

use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::counters::{Counters, Moment};
use callgate_core::evaluate::{ChainDefault, Opinions, evaluate};
use callgate_core::identity::SessionId;
use callgate_core::port::Case;
use callgate_core::settle::{Decision, Present, Settled, settle};
use callgate_core::verdict::{Answer, Denial, Opinion, Retry, Verdict};
use callgate_plugin::{ConfigureError, Life};
use callgate_plugin_budget::{BUDGETS_MAX, Budgets};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::native::Native;
use super::{asked_of, shipped, table};
use crate::fixture::call;

/// One set of budgets with its calls, as `tests/cases/README.md` describes it.
#[derive(Deserialize)]
struct Set {
    about: String,
    calls: Vec<Expected>,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    at: Option<String>,
    #[serde(default)]
    session: u8,
    agent: Option<String>,
    server: String,
    tool: String,
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    refused: bool,
    expect: String,
    because: Option<String>,
    rule: Option<String>,
    retry: Option<Retry>,
    message: Option<String>,
}

impl Expected {
    fn call(&self) -> Call {
        let arguments = self.arguments.as_ref().map_or("{}", |arguments| arguments.get());
        let call = asked_of(self.agent.as_deref(), &self.server, &self.tool, arguments);
        Call { session: SessionId::from_random([self.session; 16]), ..call }
    }

    /// Milliseconds since 1970.
    fn at_ms(&self) -> Option<i64> {
        self.at.as_ref().map(|at| at.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    /// What the table says in the words of [`told`], as far as it says it.
    fn holds(&self, told: &Told) -> bool {
        let as_said = |said: &Option<String>, is: &Option<String>| said.is_none() || said == is;
        self.expect == told.verdict
            && self.because == told.because
            && self.rule == told.rule
            && as_said(&self.message, &told.message)
            && (self.retry.is_none() || self.retry == told.retry)
    }
}

/// A settled call in the table's words.
#[derive(Debug)]
struct Told {
    verdict: &'static str,
    because: Option<String>,
    rule: Option<String>,
    retry: Option<Retry>,
    message: Option<String>,
}

fn told(settled: &Settled) -> Told {
    match &settled.decision {
        Decision::Allowed { .. } => Told { verdict: "allow", because: None, rule: None, retry: None, message: None },
        Decision::Refused(reason) => Told {
            verdict: "deny",
            because: reason.policy_code.clone(),
            rule: reason.rule.as_ref().map(|rule| rule.path.clone()),
            retry: Some(reason.retry),
            message: Some(reason.message.clone()),
        },
    }
}

/// Settles one answer of `budget` in a chain that allows, or that has another plugin before it that refuses.
fn settled(call: &Call, refused: bool, answer: Answer, counters: &mut Counters, now: Moment) -> Settled {
    let opinion = |position: usize, plugin: &str, answer| Opinion {
        position,
        plugin: plugin.to_owned(),
        may_grant: false,
        outcome: Ok(answer),
    };
    let denial = Denial { code: "refused".to_owned(), message: "no".to_owned(), retry: Retry::Never };
    let other = Answer {
        verdict: if refused { Verdict::Deny(denial) } else { Verdict::Abstain },
        rule: None,
        notes: Vec::new(),
        charges: Vec::new(),
    };
    let opinions = vec![opinion(0, "other", other), opinion(1, "budget", answer)];
    let evaluated = evaluate(Opinions { generation: 0, members: Arc::new([]), default: ChainDefault::Allow, opinions });
    settle(&Case { call: call.clone(), evaluated }, Present { generation: 0, now }, counters).unwrap()
}

#[test]
fn the_component_decides_every_case_as_the_table_says_and_as_it_does_natively() {
    let plugin = shipped("budget");
    let sets: Vec<Set> = serde_json::from_str(&table("budget")).unwrap();
    let mut decided = 0;
    for set in &sets {
        let settings = json!(set.settings).to_string();
        let native = Native::<Budgets>::configure(&settings).unwrap();
        let kept = plugin.configure("budget", &settings, Life::Kept { instances: 1 }).unwrap();
        let fresh = plugin.configure("budget", &settings, Life::Fresh { ready: 1 }).unwrap();
        let mut counters = Counters::default();
        let mut component_counters = Counters::default();
        let begin_ms = set.calls[0].at_ms().expect("the first call says when");
        let mut now = Moment { wall_ms: begin_ms, steady_ms: 0 };
        for (number, expected) in set.calls.iter().enumerate() {
            if let Some(at_ms) = expected.at_ms() {
                now = Moment { wall_ms: at_ms, steady_ms: at_ms - begin_ms };
            }
            let place = format!("{}, call {number}", set.about);
            let call = expected.call();
            let answer = native.decide(&call);
            assert_eq!(kept.decide(&call).as_ref(), Ok(&answer), "{place}");
            assert_eq!(fresh.decide(&call).as_ref(), Ok(&answer), "{place}");
            let settled_natively = settled(&call, expected.refused, answer, &mut counters, now);
            let answer = kept.decide(&call).unwrap();
            let settled = settled(&call, expected.refused, answer, &mut component_counters, now);
            assert_eq!(settled, settled_natively, "{place}");
            let told = told(&settled);
            assert!(expected.holds(&told), "{place}: {told:?}");
            decided += 1;
        }
        assert_eq!(counters, component_counters, "{}", set.about);
    }
    assert_eq!((sets.len(), decided), (SETS, CALLS), "the table is not the one that was agreed on");
}

/// How much the table holds: a case that is not read is not tested.
const SETS: usize = 32;
const CALLS: usize = 177;

#[test]
fn as_many_budgets_as_there_may_be_load_within_the_limits() {
    let plugin = shipped("budget");
    let settings = |count: usize| {
        let budgets: Vec<Value> =
            (0..count).map(|index| json!({"limit": 1, "tool": format!("tool_{index}_*")})).collect();
        json!({ "budgets": budgets }).to_string()
    };
    let most = plugin.configure("budget", &settings(BUDGETS_MAX), Life::Kept { instances: 1 }).unwrap();
    let charges = most.decide(&call("tool_999_x")).unwrap().charges;
    assert_eq!(charges.iter().map(|charge| charge.rule.path.as_str()).collect::<Vec<_>>(), ["/budgets/999"]);

    let over = plugin.configure("budget", &settings(BUDGETS_MAX + 1), Life::Kept { instances: 1 }).unwrap_err();
    assert_eq!(over.to_string(), "/budgets: 1001 budgets, where 1000 is the most");
}

#[test]
fn a_time_zone_that_does_not_exist_is_found_at_the_first_call_it_counts() {
    // The plugin has no list of zones; the host has, and refuses the answer that names another.
    let budget = json!({"limit": 1, "all_tools": true, "window": {"calendar": "day", "zone": "Mars/Olympus"}});
    let settings = json!({ "budgets": [budget] }).to_string();
    let plugin = shipped("budget").configure("budget", &settings, Life::Kept { instances: 1 }).unwrap();
    let failure = plugin.decide(&call("x")).unwrap_err();
    assert_eq!(failure.to_string(), "its answer breaks the contract: no time zone is named \"Mars/Olympus\"");
}

#[test]
fn settings_that_do_not_load_are_told_with_a_place() {
    let plugin = shipped("budget");
    let refused = |settings: &str| match plugin.configure("budget", settings, Life::Kept { instances: 1 }).unwrap_err()
    {
        ConfigureError::Refused(refused) => refused.errors()[0].path.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(r#"{"budgets": [{"limit": 1}]}"#), "/budgets/0");
    assert_eq!(refused(r#"{"budgets": [{"limit": -1, "all_tools": true}]}"#), "/budgets/0/limit");
    assert_eq!(refused(r#"{"loops": {"times": 3}}"#), "/loops");
}
