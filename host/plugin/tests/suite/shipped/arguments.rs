//! The shipped `arguments` component: the case table, call by call, natively and on this engine.

use callgate_core::call::Call;
use callgate_core::verdict::{Answer, Verdict};
use callgate_plugin::{ConfigureError, Life};
use callgate_plugin_arguments::{GRANTS_MAX, Grants};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::native::Native;
use super::{asked_of, shipped, table};
use crate::fixture::call;

/// One set of grants with its calls, as `tests/cases/README.md` describes it.
#[derive(Deserialize)]
struct Case {
    grants: Box<RawValue>,
    calls: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    agent: String,
    server: String,
    tool: String,
    arguments: Box<RawValue>,
    expect: String,
    because: Option<String>,
}

impl Case {
    /// In the table every agent is under the plugin, those without a grant too.
    fn settings(&self) -> String {
        let agents: Vec<&str> = self.calls.iter().map(|call| call.agent.as_str()).collect();
        format!(r#"{{"grants": {}, "agents": {}}}"#, self.grants, json!(agents))
    }
}

impl Expected {
    fn call(&self) -> Call {
        asked_of(Some(&self.agent), &self.server, &self.tool, self.arguments.get())
    }
}

/// An answer in the table's words.
fn told(answer: &Answer) -> (&'static str, Option<&'static str>) {
    match &answer.verdict {
        Verdict::Allow => ("allow", None),
        Verdict::Deny(denial) if denial.code == "no-grant" => ("deny", Some("tool")),
        Verdict::Deny(denial) if denial.code == "argument" => ("deny", Some("argument")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_component_decides_every_case_as_the_table_says_and_as_it_does_natively() {
    let plugin = shipped("arguments");
    let cases: Vec<Case> = serde_json::from_str(&table("arguments")).unwrap();
    let mut decided = 0;
    for (index, case) in cases.iter().enumerate() {
        let settings = case.settings();
        let native = Native::<Grants>::configure(&settings).unwrap();
        let kept = plugin.configure("arguments", &settings, Life::Kept { instances: 1 }).unwrap();
        let fresh = plugin.configure("arguments", &settings, Life::Fresh { ready: 1 }).unwrap();
        assert_eq!(kept.warnings(), native.warnings(), "set {index}");
        for (number, expected) in case.calls.iter().enumerate() {
            let call = expected.call();
            let answer = kept.decide(&call).unwrap();
            assert_eq!(told(&answer), (&*expected.expect, expected.because.as_deref()), "set {index}, call {number}");
            assert_eq!(fresh.decide(&call).as_ref(), Ok(&answer), "set {index}, call {number}");
            assert_eq!(native.decide(&call), answer, "set {index}, call {number}");
            decided += 1;
        }
    }
    assert_eq!(decided, 773, "the table is not the one that was agreed on");
}

#[test]
fn who_has_no_grant_and_is_not_named_is_not_answered_for() {
    let grants = json!({"grants": [{"agent": "cursor", "server": "fs", "tool": "*"}]}).to_string();
    let plugin = shipped("arguments").configure("arguments", &grants, Life::Kept { instances: 1 }).unwrap();
    let verdict = |agent| plugin.decide(&asked_of(agent, "fs", "read_file", "{}")).unwrap().verdict;
    assert_eq!(verdict(Some("cursor")), Verdict::Allow);
    assert_eq!((verdict(Some("zed")), verdict(None)), (Verdict::Abstain, Verdict::Abstain));
}

#[test]
fn as_many_grants_as_there_may_be_load_within_the_limits() {
    let plugin = shipped("arguments");
    let settings = |count: usize| {
        let grant = |index: usize| {
            json!({
                "agent": "cursor", "server": "fs", "tool": format!("tool_{index}_*"),
                "args": {"path": format!("/home/user/{index}/**"), "mode": "re:^(read|write)$"},
            })
        };
        json!({ "grants": (0..count).map(grant).collect::<Vec<_>>() }).to_string()
    };
    let most = plugin.configure("arguments", &settings(GRANTS_MAX), Life::Kept { instances: 1 }).unwrap();
    let arguments = r#"{"path": "/home/user/4999/notes/x", "mode": "read"}"#;
    let answer = most.decide(&asked_of(Some("cursor"), "fs", "tool_4999_x", arguments)).unwrap();
    assert_eq!(answer.rule.map(|rule| rule.path), Some("/grants/4999".to_owned()));
    assert_eq!(most.decide(&call("tool_4999_x")).unwrap().verdict, Verdict::Abstain);

    let over = plugin.configure("arguments", &settings(GRANTS_MAX + 1), Life::Kept { instances: 1 }).unwrap_err();
    assert_eq!(over.to_string(), "/grants: 5001 grants, where 5000 is the most");
}

#[test]
fn a_malformed_pattern_is_refused_with_its_place() {
    let plugin = shipped("arguments");
    let refused = |pattern: &str| {
        let grant = json!({"agent": "cursor", "server": "fs", "args": {"a/b": pattern}});
        let settings = json!({ "grants": [grant] }).to_string();
        match plugin.configure("arguments", &settings, Life::Kept { instances: 1 }).unwrap_err() {
            ConfigureError::Refused(refused) => refused.errors()[0].path.clone(),
            other => panic!("{other:?}"),
        }
    };
    for pattern in ["re:(", "[a", "[a/b]", "/srv/../*"] {
        assert_eq!(refused(pattern), "/grants/0/args/a~1b", "{pattern}");
    }
}
