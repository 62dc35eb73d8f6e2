//! What the plugin answers, whole, and that its index decides what a plain scan decides.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_plugin_arguments::Grants;
use callgate_sdk::arguments::Arguments;
use callgate_sdk::matching::{ToolPattern, ValuePattern};
use callgate_sdk::testing::Harness;
use callgate_sdk::{Call, Decision, Pointer, Retry, Rule, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

fn grants(grants: &Value) -> Harness<Grants> {
    Harness::new(&json!({ "grants": grants }).to_string()).unwrap()
}

fn rule(index: usize, text: &str) -> Rule {
    Rule::new(Pointer::root().key("grants").index(index), text)
}

fn git_log(arguments: &str) -> Call {
    Call::new("git", "git_log").agent("my-agent").arguments(arguments)
}

const PROJECTS: &str = "/home/user/projects/**";

fn projects() -> Harness<Grants> {
    grants(&json!([{"agent": "my-agent", "server": "git", "tool": "git_log", "args": {"repo_path": PROJECTS}}]))
}

#[test]
fn a_permission_names_its_grant() {
    let text = "grant git_log on git (agent my-agent, repo_path=/home/user/projects/**)";
    let expected = Decision::allow().rule(rule(0, text));
    assert_eq!(projects().decide(&git_log(r#"{"repo_path": "/home/user/projects/a"}"#)), expected);
    assert_eq!(projects().decide(&git_log("{}")), expected);
}

#[test]
fn what_no_grant_names_is_refused_for_good() {
    let message = "no grant of the agent `my-agent` names the tool `git_push` of the server `git`";
    let expected = Decision::deny("no-grant", message);
    assert_eq!(projects().decide(&Call::new("git", "git_push").agent("my-agent")), expected);
    for call in [Call::new("files", "git_log"), Call::new("git", "Git_log"), Call::new("", "")] {
        let Verdict::Deny(denial) = projects().decide(&call.agent("my-agent")).verdict else { panic!("not granted") };
        assert_eq!((denial.code.as_str(), denial.retry), ("no-grant", Retry::Never));
    }
}

#[test]
fn an_argument_that_does_not_match_is_named_and_its_value_is_not() {
    let text = "grant git_log on git (agent my-agent, repo_path=/home/user/projects/**)";
    let message = "the argument `repo_path` has to match `/home/user/projects/**`";
    let expected = Decision::deny("argument", message).retry(Retry::Changed).rule(rule(0, text));
    for value in [r#""/etc/shadow""#, "null", "5", r#"["/home/user/projects/a"]"#, r#""/home/user/projects/../x""#] {
        assert_eq!(projects().decide(&git_log(&format!(r#"{{"repo_path": {value}}}"#))), expected, "{value}");
    }
}

#[test]
fn the_closest_grant_is_told() {
    let harness = grants(&json!([
        {"agent": "my-agent", "server": "git", "args": {"a": "1", "b": "1", "c": "1"}},
        {"agent": "my-agent", "server": "git", "tool": "git_*", "args": {"a": "2", "b": "2", "c": "3"}},
        {"agent": "my-agent", "server": "git", "tool": "git_log", "args": {"a": "2", "b": "3", "c": "2"}},
    ]));
    let text = "grant git_* on git (agent my-agent, a=2, b=2, c=3)";
    let message = "the argument `a` has to match `2` and the argument `b` has to match `2`";
    let expected = Decision::deny("argument", message).retry(Retry::Changed).rule(rule(1, text));
    assert_eq!(harness.decide(&git_log(r#"{"a": 9, "b": 9, "c": 3}"#)), expected);
    let message = "the argument `c` has to match `1`";
    let text = "grant * on git (agent my-agent, a=1, b=1, c=1)";
    let expected = Decision::deny("argument", message).retry(Retry::Changed).rule(rule(0, text));
    assert_eq!(harness.decide(&git_log(r#"{"a": 1, "b": 1, "c": 9}"#)), expected);
}

#[test]
fn only_agents_under_it_are_answered_for() {
    let settings = json!({
        "grants": [{"agent": "my-agent", "server": "git"}],
        "agents": ["keyed"],
    });
    let harness = Harness::<Grants>::new(&settings.to_string()).unwrap();
    let verdict = |call: &Call| harness.decide(call).verdict;
    assert_eq!(verdict(&Call::new("git", "git_log").agent("my-agent")), Verdict::Allow);
    assert!(matches!(verdict(&Call::new("git", "git_log").agent("keyed")), Verdict::Deny(_)));
    assert_eq!(harness.decide(&Call::new("git", "git_log").agent("other")), Decision::abstain());
    assert_eq!(harness.decide(&Call::new("git", "git_log")), Decision::abstain());
    let harness = Harness::<Grants>::new("{}").unwrap();
    assert_eq!(harness.decide(&Call::new("git", "git_log").agent("my-agent")), Decision::abstain());
}

#[test]
fn a_dotted_name_binds_both_that_it_means() {
    let harness = grants(&json!([{"agent": "my-agent", "server": "git", "args": {"o.force": "false"}}]));
    for (arguments, is_allowed) in [
        (r#"{"o": {"force": false}}"#, true),
        (r#"{"o.force": false}"#, true),
        (r#"{"o": {"force": true}}"#, false),
        (r#"{"o.force": true}"#, false),
        (r#"{"o.force": false, "o": {"force": true}}"#, false),
        (r#"{"o.force": true, "o": {"force": false}}"#, false),
        (r#"{"o": {"force": null}}"#, false),
        (r#"{"o": "force"}"#, true),
        (r#"{"\u006f": {"f\u006frce": true}}"#, false),
    ] {
        let verdict = harness.decide(&git_log(arguments)).verdict;
        assert_eq!(verdict == Verdict::Allow, is_allowed, "{arguments}");
    }
}

#[test]
fn numbers_are_what_is_written() {
    let harness = grants(&json!([{"agent": "my-agent", "server": "git", "args": {"n": "9007199254740993"}}]));
    for (number, is_allowed) in [
        ("9007199254740993", true),
        (r#""9007199254740993""#, true),
        ("9007199254740992", false),
        ("9007199254740993.0", false),
        ("9.007199254740993e15", false),
    ] {
        let verdict = harness.decide(&git_log(&format!(r#"{{"n": {number} }}"#))).verdict;
        assert_eq!(verdict == Verdict::Allow, is_allowed, "{number}");
    }
}

#[test]
fn arguments_that_cannot_be_read_meet_no_constraint() {
    let call = git_log("{}").arguments_unread("[]");
    let expected = Decision::deny("argument", "the arguments are no JSON object").retry(Retry::Changed);
    assert_eq!(projects().decide(&call), expected);
}

#[test]
fn a_long_grant_is_told_within_the_contract() {
    let args: Value =
        (0..64).map(|n| (format!("{n:0>40}"), json!("é".repeat(100)))).collect::<serde_json::Map<_, _>>().into();
    let call = git_log(&format!(r#"{{"{:0>40}": 1}}"#, 7));
    let decision = grants(&json!([{"agent": "my-agent", "server": "git", "args": args}])).decide(&call);
    assert!(matches!(decision.verdict, Verdict::Deny(denial) if denial.message.contains("`0000000")));
}

const TOOLS: [&str; 8] = ["read_file", "write_file", "read_*", "*_file", "*", "?ead_file", "*_*", "list"];
const NAMES: [&str; 3] = ["a", "b", "c"];
const PATTERNS: [&str; 6] = ["x", "*", "/srv/**", "re:^x", "[!x]*", "1"];
const VALUES: [&str; 7] = [r#""x""#, r#""/srv/x""#, r#""/srv/../x""#, "1", "1.0", "null", r#"{"b": "x"}"#];

fn entry() -> impl Strategy<Value = Value> {
    let args = vec((select(&["p", "q", "q.b"][..]), select(&PATTERNS[..])), 0..3);
    (select(&NAMES[..2]), select(&NAMES[..2]), select(&TOOLS[..]), args).prop_map(|(agent, server, tool, args)| {
        let args: serde_json::Map<_, _> = args.into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect();
        json!({"agent": agent, "server": server, "tool": tool, "args": args})
    })
}

/// The verdict by the grants' own words: every grant looked at.
fn scan(grants: &[Value], call: &Call) -> &'static str {
    let agent = &call.caller.agent.as_ref().unwrap().name;
    if !grants.iter().any(|grant| grant["agent"] == **agent) {
        return "abstain";
    }
    let arguments = Arguments::read(call.arguments_json()).unwrap();
    let names = |grant: &&Value| {
        grant["agent"] == **agent
            && grant["server"] == call.caller.server.name
            && ToolPattern::parse(grant["tool"].as_str().unwrap()).unwrap().matches(&call.tool.name)
    };
    let fits = |grant: &Value| {
        grant["args"].as_object().unwrap().iter().all(|(name, pattern)| {
            let pattern = ValuePattern::parse(pattern.as_str().unwrap()).unwrap();
            arguments.named(name).all(|argument| argument.matches(&pattern))
        })
    };
    let naming: Vec<&Value> = grants.iter().filter(names).collect();
    match (naming.is_empty(), naming.into_iter().any(fits)) {
        (true, _) => "no-grant",
        (false, true) => "allow",
        (false, false) => "argument",
    }
}

#[test]
fn arguments_are_looked_at_only_where_every_grant_of_the_tool_constrains_them() {
    let constrained = json!({"agent": "my-agent", "server": "git", "tool": "git_*", "args": {"repo_path": PROJECTS}});
    let free = json!({"agent": "my-agent", "server": "git", "tool": "git_log"});
    let call = Call::new("git", "git_log").agent("my-agent");
    let rests = |entries: &[&Value], call: &Call| grants(&json!(entries)).rests_on_arguments(call);
    assert!(rests(&[&constrained], &call));
    assert!(!rests(&[&constrained, &free], &call), "a free grant allows it whatever they are");
    assert!(!rests(&[&constrained], &Call::new("git", "push").agent("my-agent")), "no grant names the tool");
    assert!(!rests(&[&constrained], &Call::new("git", "git_log").agent("other")), "another agent");
    assert!(!rests(&[&constrained], &Call::new("git", "git_log")), "no agent");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_index_decides_what_a_scan_decides(
        entries in vec(entry(), 0..20),
        tool in select(&["read_file", "write_file", "list", "x_y", "", "écrire_file"][..]),
        agent in select(&NAMES[..]),
        server in select(&NAMES[..]),
        (p, q) in (proptest::option::of(select(&VALUES[..])), proptest::option::of(select(&VALUES[..]))),
    ) {
        let members: Vec<String> = [("p", p), ("q", q)].into_iter().filter_map(|(name, value)| Some(format!(r#""{name}": {}"#, value?))).collect();
        let call = Call::new(server, tool).agent(agent).arguments(&format!("{{{}}}", members.join(", ")));
        let harness = grants(&json!(entries));
        let decision = harness.decide(&call);
        let told = match &decision.verdict {
            Verdict::Allow => "allow",
            Verdict::Deny(denial) => &denial.code,
            Verdict::Ask(_) => "ask",
            Verdict::Abstain => "abstain",
        };
        prop_assert_eq!(told, scan(&entries, &call));
        // The grant that is told allows the call by itself, or is refused by itself.
        if let Some(rule) = decision.rule.as_ref() {
            let index: usize = rule.path.rsplit('/').next().unwrap().parse().unwrap();
            prop_assert_eq!(told, scan(&entries[index..=index], &call));
        }
    }

    #[test]
    fn no_arguments_make_it_fail(arguments in r#"\{?("[ab.\\u0"]{0,4}"|[:,\[\]{}\s0-9e.-]|null|.){0,12}\}?"#) {
        let args = json!({"a": "*", "a.b": "re:x", "b": "/x/**"});
        let harness = grants(&json!([{"agent": "my-agent", "server": "git", "args": args}]));
        let call = git_log("{}").arguments_unread(&arguments);
        prop_assert!(!matches!(harness.decide(&call).verdict, Verdict::Abstain | Verdict::Ask(_)));
    }

    #[test]
    fn no_message_holds_a_value(value in "[a-z]{12}") {
        let args = json!({"a": "x", "b.c": "re:^[0-9]+$", "d": "/srv/**"});
        let harness = grants(&json!([{"agent": "my-agent", "server": "git", "args": args}]));
        let call = git_log(&json!({"a": value, "b": {"c": value}, "d": [value]}).to_string());
        let told = format!("{:?}", harness.decide(&call));
        prop_assert!(!told.contains(&value), "{}", told);
    }
}
