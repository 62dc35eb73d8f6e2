//! What the plugin answers, whole, and that its index decides what a plain scan decides.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_plugin_rules::Rules;
use callgate_sdk::matching::ToolPattern;
use callgate_sdk::testing::Harness;
use callgate_sdk::{Call, Decision, Pointer, Rule, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

fn rules(rules: &Value) -> Harness<Rules> {
    Harness::new(&json!({ "rules": rules }).to_string()).unwrap()
}

fn rule(index: usize, text: &str) -> Rule {
    Rule::new(Pointer::root().key("rules").index(index), text)
}

#[test]
fn a_denial_names_its_rule_and_is_final() {
    let harness = rules(&json!([
        {"effect": "allow", "default": true},
        {"effect": "deny", "tool": "write_file", "agent": "cursor", "server": "fs"},
    ]));
    let text = "deny write_file (agent cursor, server fs)";
    let expected = Decision::deny("deny", format!("the rule `{text}` refuses it")).rule(rule(1, text));
    assert_eq!(harness.decide(&Call::new("fs", "write_file").agent("cursor")), expected);
}

#[test]
fn a_question_names_its_rule_and_needs_no_presence() {
    let harness = rules(&json!([{"effect": "ask", "default": true, "server": "fs"}]));
    let text = "ask every other tool (server fs)";
    let expected = Decision::ask("ask", format!("the rule `{text}` wants a person to decide")).rule(rule(0, text));
    assert_eq!(harness.decide(&Call::new("fs", "write_file")), expected);
}

#[test]
fn a_permission_names_its_rule() {
    let harness = rules(&json!([{"effect": "allow", "tool": "read_*", "agent": "cursor"}]));
    let expected = Decision::allow().rule(rule(0, "allow read_* (agent cursor)"));
    assert_eq!(harness.decide(&Call::new("fs", "read_file").agent("cursor")), expected);
}

#[test]
fn what_no_rule_names_is_allowed() {
    for settings in
        ["{}", r#"{"rules": []}"#, r#"{"rules": [{"effect": "deny", "tool": "write_file", "agent": "cursor"}]}"#]
    {
        let harness = Harness::<Rules>::new(settings).unwrap();
        assert_eq!(harness.decide(&Call::new("fs", "write_file")), Decision::allow(), "{settings}");
    }
}

#[test]
fn a_caller_that_is_not_established_meets_only_rules_that_name_no_agent() {
    let harness = rules(&json!([
        {"effect": "deny", "default": true},
        {"effect": "allow", "tool": "read_file", "agent": "cursor"},
    ]));
    assert!(matches!(harness.decide(&Call::new("fs", "read_file")).verdict, Verdict::Deny(_)));
    assert_eq!(harness.decide(&Call::new("fs", "read_file").agent("cursor")).verdict, Verdict::Allow);
    assert!(matches!(harness.decide(&Call::new("fs", "read_file").agent("zed")).verdict, Verdict::Deny(_)));
}

#[test]
fn odd_tool_names_are_decided_like_any_other() {
    let harness = rules(&json!([{"effect": "deny", "tool": "?\n*"}, {"effect": "ask", "tool": "ünïcödé \u{202e}"}]));
    assert!(matches!(harness.decide(&Call::new("fs", "é\nx")).verdict, Verdict::Deny(_)));
    assert!(matches!(harness.decide(&Call::new("fs", "ünïcödé \u{202e}")).verdict, Verdict::Ask(_)));
    assert_eq!(harness.decide(&Call::new("fs", "")).verdict, Verdict::Allow);
}

#[test]
fn a_long_rule_is_told_within_the_contract() {
    let tool = "é".repeat(512);
    let harness = rules(&json!([{"effect": "deny", "tool": tool}]));
    let decision = harness.decide(&Call::new("fs", &tool));
    assert_eq!(decision.rule.unwrap().text.len(), 512);
}

const TOOLS: [&str; 10] =
    ["read_file", "write_file", "read_*", "*_file", "*", "?ead_file", "write_????", "*_*", "list", "r*d*f*e"];
const NAMES: [&str; 3] = ["a", "b", "c"];

fn entry() -> impl Strategy<Value = Value> {
    let scope = || proptest::option::of(select(&NAMES[..2]));
    (select(&["deny", "ask", "allow"][..]), proptest::option::of(select(&TOOLS[..])), scope(), scope()).prop_map(
        |(effect, tool, agent, server)| {
            let mut entry = json!({"effect": effect});
            match tool {
                Some(tool) => entry["tool"] = json!(tool),
                None => entry["default"] = json!(true),
            }
            for (key, name) in [("agent", agent), ("server", server)] {
                if let Some(name) = name {
                    entry[key] = json!(name);
                }
            }
            entry
        },
    )
}

/// The winner by the rules' own words: every rule looked at.
fn scan(rules: &[Value], call: &Call) -> Option<usize> {
    let agent = call.caller.agent.as_ref().map(|agent| agent.name.as_str());
    let fits = |rule: &Value| {
        let tool = rule
            .get("tool")
            .is_none_or(|tool| ToolPattern::parse(tool.as_str().unwrap()).unwrap().matches(&call.tool.name));
        tool && rule.get("agent").is_none_or(|name| name.as_str() == agent)
            && rule.get("server").is_none_or(|name| *name == call.caller.server.name)
    };
    let rank = |rule: &Value| {
        let tool = match rule.get("tool").and_then(Value::as_str) {
            Some(tool) if tool.contains(['*', '?']) => 1,
            Some(_) => 2,
            None => 0,
        };
        let scope = ["agent", "server"].iter().filter(|key| rule.get(**key).is_some()).count();
        let strictness = ["allow", "ask", "deny"].iter().position(|effect| rule["effect"] == *effect);
        (tool + scope, strictness)
    };
    let fitting = rules.iter().enumerate().filter(|(_, rule)| fits(rule));
    fitting.max_by_key(|(index, rule)| (rank(rule), std::cmp::Reverse(*index))).map(|(index, _)| index)
}

#[test]
fn no_rule_rests_on_arguments() {
    let harness = rules(
        &json!([{"effect": "deny", "tool": "write_*"}, {"effect": "ask", "tool": "read_file", "agent": "cursor"}]),
    );
    for tool in ["write_file", "read_file", "list"] {
        assert!(!harness.rests_on_arguments(&Call::new("fs", tool).agent("cursor")), "{tool}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_index_decides_what_a_scan_decides(
        entries in vec(entry(), 0..40),
        tool in select(&["read_file", "write_file", "list", "x_y", "", "écrire_file"][..]),
        agent in proptest::option::of(select(&NAMES[..])),
        server in select(&NAMES[..]),
    ) {
        let mut kept: Vec<Value> = Vec::new();
        for entry in entries {
            let key = |rule: &Value| ["tool", "agent", "server"].map(|key| rule.get(key).cloned());
            if !kept.iter().any(|other| key(other) == key(&entry)) {
                kept.push(entry);
            }
        }
        let call = Call::new(server, tool);
        let call = match agent { Some(agent) => call.agent(agent), None => call };
        let decision = rules(&json!(kept)).decide(&call);
        let winner = scan(&kept, &call);
        prop_assert_eq!(decision.rule.map(|rule| rule.path), winner.map(|index| format!("/rules/{index}")));
        let effect = match decision.verdict {
            Verdict::Deny(_) => "deny",
            Verdict::Ask(_) => "ask",
            Verdict::Allow | Verdict::Abstain => "allow",
        };
        prop_assert_eq!(effect, winner.map_or("allow", |index| kept[index]["effect"].as_str().unwrap()));
    }
}
