//! Every way in which settings are refused: where, what, and what to write instead.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_plugin_rules::{RULES_MAX, Rules};
use callgate_sdk::testing::Harness;
use serde_json::{Value, json};

fn refused(rules: &Value) -> Vec<(String, String, Option<String>)> {
    refused_document(&json!({ "rules": rules }).to_string())
}

fn refused_document(settings: &str) -> Vec<(String, String, Option<String>)> {
    let errors = Harness::<Rules>::new(settings).unwrap_err();
    errors.into_iter().map(|error| (error.path, error.message, error.hint)).collect()
}

fn error(path: &str, message: &str, hint: &str) -> (String, String, Option<String>) {
    (path.to_owned(), message.to_owned(), Some(hint.to_owned()).filter(|hint| !hint.is_empty()))
}

#[test]
fn an_empty_tool_is_refused() {
    let expected = error("/rules/0/tool", "an empty pattern", "write * to match everything");
    assert_eq!(refused(&json!([{"effect": "deny", "tool": ""}])), [expected]);
}

#[test]
fn a_tool_too_long_is_refused() {
    let tool = "x".repeat(1025);
    let expected = error("/rules/0/tool", "a pattern of 1025 bytes, where 1024 is the most", "");
    assert_eq!(refused(&json!([{"effect": "deny", "tool": tool}])), [expected]);
}

#[test]
fn a_rule_that_names_a_tool_and_is_the_default_is_refused() {
    let expected = error("/rules/0", "a rule names a `tool` or is the `default`, not both", "write two rules");
    assert_eq!(refused(&json!([{"effect": "deny", "tool": "a", "default": true}])), [expected]);
}

#[test]
fn a_rule_about_nothing_is_refused() {
    let hint = "add `tool`, or `default`: true for every tool that no other rule names";
    assert_eq!(
        refused(&json!([{"effect": "deny"}])),
        [error("/rules/0", "a rule names a `tool` or is the `default`", hint)]
    );
    let hint = "write `default`: true, or name a `tool`";
    let expected = error("/rules/0/default", "`default` is true or left out", hint);
    assert_eq!(refused(&json!([{"effect": "deny", "default": false}])), [expected]);
}

#[test]
fn unknown_keys_and_effects_are_refused() {
    assert_eq!(
        refused(&json!([{"effect": "deny", "tol": "a"}])),
        [error("/rules/0/tol", "the key `tol` is not known here", "did you mean `tool`?")]
    );
    assert_eq!(
        refused(&json!([{"effect": "denied", "tool": "a"}])),
        [error("/rules/0/effect", "`denied` is none of the values here", "the values here are `allow`, `ask`, `deny`")]
    );
    assert_eq!(refused(&json!([{"tool": "a"}])), [error("/rules/0", "the key `effect` is missing", "")]);
    assert_eq!(
        refused_document(r#"{"rule": []}"#),
        [error("/rule", "the key `rule` is not known here", "did you mean `rules`?")]
    );
}

#[test]
fn a_name_that_nobody_can_have_is_refused() {
    let hint = "a name is 1 to 64 letters, digits, `-`, `_` or `.`, with a letter or digit first and last";
    for name in ["", "a b", "cursor-", "*", "é", &"x".repeat(65)] {
        for key in ["agent", "server"] {
            let message = format!("{name:?} is no name that {key}s have, so the rule could never fire");
            let expected = error(&format!("/rules/1/{key}"), &message, hint);
            assert_eq!(
                refused(&json!([{"effect": "ask", "default": true}, {"effect": "deny", "tool": "a", key: name}])),
                [expected]
            );
        }
    }
}

#[test]
fn a_second_rule_of_a_kind_is_refused() {
    let rules = json!([
        {"effect": "deny", "tool": "a", "agent": "x"},
        {"effect": "deny", "tool": "a"},
        {"effect": "allow", "tool": "a", "agent": "x"},
        {"effect": "deny", "default": true},
        {"effect": "deny", "default": true},
        {"effect": "deny", "tool": "a", "agent": "x"},
    ]);
    let message = |rule| format!("there is a rule for the same tool, agent and server already: `{rule}`");
    assert_eq!(
        refused(&rules),
        [
            error("/rules/2", &message("deny a (agent x)"), "remove /rules/0 or this one"),
            error("/rules/4", &message("deny every other tool"), "remove /rules/3 or this one"),
            error("/rules/5", &message("allow a (agent x)"), "remove /rules/2 or this one"),
        ]
    );
}

#[test]
fn everything_wrong_is_told_at_once() {
    let rules = json!([{"effect": "deny"}, {"effect": "deny", "tool": "a"}, {"effect": "deny", "tool": ""}]);
    let paths: Vec<String> = refused(&rules).into_iter().map(|(path, _, _)| path).collect();
    assert_eq!(paths, ["/rules/0", "/rules/2/tool"]);
}

#[test]
fn too_many_rules_are_refused() {
    let rules =
        |count: usize| (0..count).map(|index| json!({"effect": "deny", "tool": index.to_string()})).collect::<Value>();
    assert_eq!(refused(&rules(RULES_MAX + 1)), [error("/rules", "50001 rules, where 50000 is the most", "")]);
    assert!(Harness::<Rules>::new(&json!({ "rules": rules(RULES_MAX) }).to_string()).is_ok());
}

#[test]
fn the_schema_names_the_keys_that_are_read() {
    let schema: Value = serde_json::from_str(include_str!("../settings.schema.json")).unwrap();
    let known = |object: &Value| object["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let rule = &schema["properties"]["rules"]["items"];
    assert_eq!([&schema["additionalProperties"], &rule["additionalProperties"]], [false, false]);
    assert_eq!(schema["properties"]["rules"]["maxItems"], RULES_MAX);
    for (settings, keys) in [(r#"{"-": 0}"#, known(&schema)), (r#"{"rules": [{"-": 0}]}"#, known(rule))] {
        let [(_, _, Some(hint))] = &refused_document(settings)[..] else { panic!("an unknown key has a hint") };
        let mut read: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
        read.sort_unstable();
        assert_eq!(read, keys);
    }
}
