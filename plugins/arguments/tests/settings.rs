//! Every way in which settings are refused, and what is odd about those that are not.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_plugin_arguments::{AGENTS_MAX, ARGS_MAX, COMPARED_MAX, GRANTS_MAX, Grants};
use callgate_sdk::testing::Harness;
use serde_json::{Map, Value, json};

fn refused(grants: &Value) -> Vec<(String, String, Option<String>)> {
    refused_document(&json!({ "grants": grants }).to_string())
}

fn refused_document(settings: &str) -> Vec<(String, String, Option<String>)> {
    let errors = Harness::<Grants>::new(settings).unwrap_err();
    errors.into_iter().map(|error| (error.path, error.message, error.hint)).collect()
}

fn error(path: &str, message: &str, hint: &str) -> (String, String, Option<String>) {
    (path.to_owned(), message.to_owned(), Some(hint.to_owned()).filter(|hint| !hint.is_empty()))
}

/// A grant of the agent `a` on the server `s`.
fn grant(tool: &str, args: &Value) -> Value {
    json!({"agent": "a", "server": "s", "tool": tool, "args": args})
}

fn warnings(grants: &[Value]) -> Vec<(String, String)> {
    let harness = Harness::<Grants>::new(&json!({ "grants": grants }).to_string()).unwrap();
    harness.warnings().iter().map(|warning| (warning.path.clone(), warning.message.clone())).collect()
}

fn warning(path: &str, message: &str) -> (String, String) {
    (path.to_owned(), message.to_owned())
}

#[test]
fn a_malformed_pattern_is_refused_where_it_stands() {
    let grants = json!([
        grant("a", &json!({"sql": "re:^(SELECT"})),
        grant("b", &json!({"path": "/srv/*/../x", "u/r~l": "a[b", "ok": "*"})),
        grant("", &json!({"x": "[a/b]"})),
    ]);
    assert_eq!(
        refused(&grants),
        [
            error("/grants/0/args/sql", "not a regular expression: found open group without closing ')'", ""),
            error("/grants/1/args/path", "a .. segment at byte 7 beside a wildcard", "write the path that it leads to"),
            error(
                "/grants/1/args/u~1r~0l",
                "the [ at byte 1 is never closed",
                "close it with ], or write [[] for a literal ["
            ),
            error("/grants/2/tool", "an empty pattern", "write * to match everything"),
            error(
                "/grants/2/args/x",
                "the class at byte 0 holds a /, which no segment does",
                "write one pattern for each place where a / may stand"
            ),
        ]
    );
}

#[test]
fn a_name_that_nobody_can_have_is_refused() {
    let hint = "a name is 1 to 64 letters, digits, `-`, `_` or `.`, with a letter or digit first and last";
    for name in ["", "a b", "cursor-", "*", "é", &"x".repeat(65)] {
        let message = |what| format!("{name:?} is no name that {what}s have, so no call could be meant");
        let settings = json!({"grants": [{"agent": name, "server": name}], "agents": ["a", name]});
        let expected = [
            error("/grants/0/agent", &message("agent"), hint),
            error("/grants/0/server", &message("server"), hint),
            error("/agents/1", &message("agent"), hint),
        ];
        assert_eq!(refused_document(&settings.to_string()), expected);
    }
}

#[test]
fn keys_that_are_unknown_or_missing_are_refused() {
    assert_eq!(
        refused(&json!([{"agent": "a", "server": "s", "arg": {}}])),
        [error("/grants/0/arg", "the key `arg` is not known here", "did you mean `args`?")]
    );
    assert_eq!(refused(&json!([{"agent": "a"}])), [error("/grants/0", "the key `server` is missing", "")]);
    assert_eq!(
        refused(&json!([{"agent": "a", "server": "s", "args": {"n": 5}}])),
        [error("/grants/0/args/n", "5 stands here, where a string belongs", "")]
    );
    let repeated = r#"{"grants": [{"agent": "a", "server": "s", "args": {"n": "1", "n": "2"}}]}"#;
    assert_eq!(refused_document(repeated), [error("/grants/0/args/n", "the key `n` stands here twice", "")]);
}

#[test]
fn too_many_are_refused() {
    let grants: Value = (0..=GRANTS_MAX).map(|index| grant(&index.to_string(), &json!({}))).collect();
    assert_eq!(refused(&grants), [error("/grants", "5001 grants, where 5000 is the most", "")]);
    let agents = json!({"agents": vec!["a"; AGENTS_MAX + 1]});
    assert_eq!(refused_document(&agents.to_string()), [error("/agents", "10001 agents, where 10000 is the most", "")]);
    let args: Map<String, Value> = (0..=ARGS_MAX).map(|index| (index.to_string(), json!("x"))).collect();
    let expected = error("/grants/0/args", "65 arguments, where 64 is the most", "");
    assert_eq!(refused(&json!([grant("a", &args.into())])), [expected]);
}

#[test]
fn as_many_as_may_be_are_read() {
    let grants: Value =
        (0..GRANTS_MAX).map(|index| grant(&format!("tool_{index}*"), &json!({"p": "/srv/**"}))).collect();
    assert!(Harness::<Grants>::new(&json!({ "grants": grants }).to_string()).is_ok());
}

#[test]
fn a_grant_that_opens_what_an_older_one_constrains_is_told() {
    let projects = json!({"repo_path": "/home/user/projects/**", "branch": "main"});
    assert_eq!(
        warnings(&[grant("git_log", &projects), grant("git_log", &json!({"branch": "dev"}))]),
        [warning(
            "/grants/1",
            "opens `git_log` to calls that /grants/0 does not allow: `repo_path=/home/user/projects/**` no longer binds"
        )]
    );
    assert_eq!(
        warnings(&[grant("git_*", &projects), grant("git_log", &json!({}))]),
        [warning(
            "/grants/1",
            "opens `git_log` to calls that /grants/0 does not allow: `branch=main`, `repo_path=/home/user/projects/**` no longer binds"
        )]
    );
    assert_eq!(
        warnings(&[grant("git_*", &json!({"p": "1"})), grant("*_log", &json!({"q": "1"}))]),
        [warning(
            "/grants/1",
            "opens tools that match both `git_*` and `*_log` to calls that /grants/0 does not allow: `p=1` no longer binds"
        )]
    );
    assert_eq!(
        warnings(&[grant("git_log", &json!({"p": "1"})), grant("*", &json!({}))]),
        [warning("/grants/1", "opens `git_log` to calls that /grants/0 does not allow: `p=1` no longer binds")]
    );
}

#[test]
fn a_grant_that_another_covers_is_told() {
    let covered = |path, by, text| warning(path, &format!("decides nothing: {by} allows all that it does (`{text}`)"));
    let free = grant("git_log", &json!({}));
    assert_eq!(
        warnings(&[free.clone(), grant("git_log", &json!({"p": "1"}))]),
        [covered("/grants/1", "/grants/0", "grant git_log on s (agent a)")]
    );
    assert_eq!(
        warnings(&[grant("git_log", &json!({"p": "1"})), grant("git_*", &json!({"p": "1"}))]),
        [covered("/grants/0", "/grants/1", "grant git_* on s (agent a, p=1)")]
    );
    assert_eq!(
        warnings(&[grant("git_*", &json!({})), grant("git_**", &json!({}))]),
        [covered("/grants/1", "/grants/0", "grant git_* on s (agent a)")]
    );
    assert_eq!(
        warnings(&[free.clone(), grant("x", &json!({})), free]),
        [covered("/grants/2", "/grants/0", "grant git_log on s (agent a)")]
    );
}

#[test]
fn grants_that_only_stand_beside_each_other_are_not_told() {
    let other = |agent: &str, server: &str| json!({"agent": agent, "server": server, "args": {}});
    assert_eq!(
        warnings(&[
            grant("git_log", &json!({"p": "/a/**"})),
            grant("git_log", &json!({"p": "/b/**"})),
            grant("git_push", &json!({})),
            other("a", "t"),
            other("b", "s"),
        ]),
        []
    );
}

#[test]
fn the_newest_grants_are_told_first_and_always_compared() {
    let mut grants = vec![grant("a", &json!({"p": "1"}))];
    grants.extend((0..COMPARED_MAX + 10).map(|index| grant("a", &json!({"q": index.to_string()}))));
    let found = warnings(&grants);
    assert_eq!(found.len(), 64);
    assert_eq!(found[0].0, format!("/grants/{}", grants.len() - 1));
    assert_eq!(found[63].1, format!("and {} more warnings", COMPARED_MAX - 63));
}

#[test]
fn the_schema_names_the_keys_that_are_read() {
    let schema: Value = serde_json::from_str(include_str!("../settings.schema.json")).unwrap();
    let known = |object: &Value| object["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let entry = &schema["properties"]["grants"]["items"];
    assert_eq!([&schema["additionalProperties"], &entry["additionalProperties"]], [false, false]);
    assert_eq!(schema["properties"]["grants"]["maxItems"], GRANTS_MAX);
    assert_eq!(schema["properties"]["agents"]["maxItems"], AGENTS_MAX);
    assert_eq!(entry["properties"]["args"]["maxProperties"], ARGS_MAX);
    for (settings, keys) in [(r#"{"-": 0}"#, known(&schema)), (r#"{"grants": [{"-": 0}]}"#, known(entry))] {
        let [(_, _, Some(hint))] = &refused_document(settings)[..] else { panic!("an unknown key has a hint") };
        let mut read: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
        read.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(read, keys);
    }
}
