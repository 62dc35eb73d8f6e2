//! The shipped `rules` component on this engine: the case table, call by call, and the two lives of an instance.

use callgate_core::call::Call;
use callgate_core::digest::Digest;
use callgate_core::verdict::{Answer, Verdict};
use callgate_plugin::{ConfigureError, Life, Plugin};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{asked_of, component, shipped, table};
use crate::fixture::call;

/// One set of rules with its calls, as `tests/cases/README.md` describes it.
#[derive(Deserialize)]
struct Case {
    rules: Value,
    calls: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    server: String,
    tool: String,
    agent: Option<String>,
    expect: String,
    rule: Option<usize>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(&table("rules")).unwrap()
}

fn rules() -> Plugin {
    shipped("rules")
}

fn asked(Expected { server, tool, agent, .. }: &Expected) -> Call {
    asked_of(agent.as_deref(), server, tool, "{}")
}

/// An answer in the table's words.
fn told(answer: &Answer) -> (&'static str, Option<String>) {
    let verdict = match answer.verdict {
        Verdict::Deny(_) => "deny",
        Verdict::Ask(_) => "ask",
        Verdict::Allow => "allow",
        Verdict::Abstain => "abstain",
    };
    (verdict, answer.rule.as_ref().map(|rule| rule.path.clone()))
}

#[test]
fn the_component_decides_every_case_as_the_table_says() {
    let plugin = rules();
    let mut decided = 0;
    for (index, case) in cases().into_iter().enumerate() {
        let settings = json!({ "rules": case.rules }).to_string();
        let configured = plugin.configure("rules", &settings, Life::Kept { instances: 1 }).unwrap();
        for (number, expected) in case.calls.iter().enumerate() {
            let answer = configured.decide(&asked(expected)).unwrap();
            let rule = expected.rule.map(|rule| format!("/rules/{rule}"));
            assert_eq!(told(&answer), (&*expected.expect, rule), "case {index}, call {number}: {settings}");
            decided += 1;
        }
    }
    assert_eq!(decided, 540, "the table is not the one that was agreed on");
}

#[test]
fn a_fresh_instance_answers_as_a_kept_one_does() {
    let plugin = rules();
    for case in cases() {
        let settings = json!({ "rules": case.rules }).to_string();
        let kept = plugin.configure("rules", &settings, Life::Kept { instances: 1 }).unwrap();
        let fresh = plugin.configure("rules", &settings, Life::Fresh { ready: 1 }).unwrap();
        let calls: Vec<_> = case.calls.iter().map(asked).collect();
        // There and back, so that a kept instance that remembered anything would show it.
        for call in calls.iter().chain(calls.iter().rev()) {
            assert_eq!(kept.decide(call), fresh.decide(call));
        }
    }
}

#[test]
fn as_many_rules_as_there_may_be_load_within_the_limits() {
    let plugin = rules();
    let settings = |count: usize| {
        let rules: Vec<_> =
            (0..count).map(|index| json!({ "effect": "deny", "tool": format!("tool_{index}_*") })).collect();
        json!({ "rules": rules }).to_string()
    };
    let configured = plugin.configure("rules", &settings(50_000), Life::Kept { instances: 1 }).unwrap();
    let answer = configured.decide(&call("tool_49999_x")).unwrap();
    assert_eq!(told(&answer), ("deny", Some("/rules/49999".to_owned())));

    let refused = plugin.configure("rules", &settings(50_001), Life::Kept { instances: 1 }).unwrap_err();
    assert_eq!(refused.to_string(), "/rules: 50001 rules, where 50000 is the most");
}

#[test]
fn settings_that_do_not_load_are_told_with_a_place_and_a_hint() {
    let plugin = rules();
    let refusal = |settings: &str| match plugin.configure("rules", settings, Life::Kept { instances: 1 }).unwrap_err() {
        ConfigureError::Refused(refused) => refused.errors()[0].path.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal("not json"), "");
    assert_eq!(refusal(r#"{"rules":[{"effect":"permit","tool":"x"}]}"#), "/rules/0/effect");
    assert_eq!(
        refusal(r#"{"rules":[{"effect":"deny","tool":"x"},{"effect":"deny","default":false}]}"#),
        "/rules/1/default"
    );
}

#[test]
fn the_component_is_known_by_the_digest_of_its_bytes() {
    let bytes = component("rules");
    let plugin = rules();
    assert_eq!(plugin.digest(), Digest::of(&bytes));
    let manifest = plugin.manifest().unwrap();
    assert_eq!((&*manifest.id, &*manifest.hooks), ("rules", &["call-policy".to_owned()][..]));
}
