//! Kept and fresh instances, native and WebAssembly, asked and given again: whatever the settings and the calls, all give the
//! same decision.

use std::cell::Cell;
use std::sync::Arc;

use callgate_core::call::{Annotations, Call, Listed};
use callgate_core::digest::Digest;
use callgate_plugin::{ConfigureError, Life, Plugin};
use callgate_plugin_arguments::Grants;
use callgate_plugin_budget::Budgets;
use callgate_plugin_rules::Rules;
use callgate_sdk::Policy;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde_json::{Value, json};

use super::native::Native;
use super::{asked_of, shipped};

/// Settings and calls a plugin: each makes instances anew, a few milliseconds where nothing is optimised.
const CASES: u32 = 64;
const CALLS_MAX: usize = 12;

const TOOLS: [&str; 7] = ["read_file", "write_file", "list", "x_y", "", "écrire_file", "?\n*"];
const TOOL_PATTERNS: [&str; 9] = ["read_file", "write_file", "read_*", "*_file", "*", "?ead_file", "*_*", "list", ""];
const NAMES: [&str; 3] = ["a", "b", "c"];
const ARGUMENT_NAMES: [&str; 6] = ["path", "url", "n", "a.b", "a", "ü"];
const PATTERNS: [&str; 16] = [
    "/home/user/**",
    "/srv/*/x.csv",
    "docs/*",
    "*",
    "**",
    "x",
    "null",
    "[!a-c]?",
    "https://*.example.com/**",
    "re:^(?i)select\\s.*$",
    "re:",
    "100",
    "1*",
    "{\"b\":*}",
    "[a",
    "re:(",
];
const VALUES: [&str; 22] = [
    r#""/home/user/x""#,
    r#""/home/user/../etc""#,
    r#""/srv/a/x.csv""#,
    r#""docs//./a""#,
    r#""https://a.example.com/x""#,
    r#""https://a@evil.com/x""#,
    r#""SELECT 1\n""#,
    r#""\u0078""#,
    r#""é\ud83d\ude00""#,
    r#""""#,
    "null",
    "true",
    "100",
    "100.0",
    "1e2",
    "-0.0",
    "-1",
    "0.5",
    "9007199254740993",
    "[1, {\"b\": 2}]",
    r#"{"b": 7}"#,
    r#"{ "b" : {"c": []}, "é": 1.50 }"#,
];

fn name() -> impl Strategy<Value = &'static str> {
    select(&NAMES[..])
}

/// Now and then one that does not load.
fn tool_pattern() -> impl Strategy<Value = &'static str> {
    select(&TOOL_PATTERNS[..])
}

/// The keys that are there.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    fields.into_iter().filter_map(|(key, value)| value.map(|value| (key.to_owned(), value))).collect()
}

fn any_call() -> impl Strategy<Value = Call> {
    let tool = select(&TOOLS[..]);
    let arguments = vec((select(&ARGUMENT_NAMES[..]), select(&VALUES[..])), 0..4);
    let listed = option::of(option::of((any::<Option<bool>>(), any::<Option<bool>>())));
    (option::of(name()), name(), tool, arguments, listed).prop_map(|(agent, server, tool, arguments, listed)| {
        // A name twice is for the reader to refuse, long before a plugin.
        let mut seen = Vec::new();
        let mut members = Vec::new();
        for (name, value) in arguments {
            if !seen.contains(&name) {
                seen.push(name);
                members.push(format!("{}: {value}", json!(name)));
            }
        }
        let listed = listed.map(|annotations| {
            let annotations = annotations.map(|(read_only, destructive)| Annotations {
                read_only,
                destructive,
                ..Annotations::default()
            });
            Arc::new(Listed { annotations, definition: Digest::of(b"definition") })
        });
        Call { listed, ..asked_of(agent, server, tool, &format!("{{{}}}", members.join(", "))) }
    })
}

fn rules() -> impl Strategy<Value = Value> {
    let rule =
        (select(&["deny", "ask", "allow"][..]), option::of(tool_pattern()), option::of(name()), option::of(name()))
            .prop_map(|(effect, tool, agent, server)| {
                object([
                    ("effect", Some(json!(effect))),
                    ("tool", tool.map(Value::from)),
                    ("default", tool.is_none().then_some(json!(true))),
                    ("agent", agent.map(Value::from)),
                    ("server", server.map(Value::from)),
                ])
            });
    vec(rule, 0..8).prop_map(|rules| json!({ "rules": rules }))
}

fn grants() -> impl Strategy<Value = Value> {
    // The last two patterns do not load: seldom, or no settings would.
    let pattern = prop_oneof![60 => select(&PATTERNS[..14]), 1 => select(&PATTERNS[14..])];
    let args = vec((select(&ARGUMENT_NAMES[..]), pattern), 0..3);
    let grant = (name(), name(), tool_pattern(), args).prop_map(|(agent, server, tool, args)| {
        let args: Value = args.into_iter().map(|(name, pattern)| (name.to_owned(), json!(pattern))).collect();
        json!({"agent": agent, "server": server, "tool": tool, "args": args})
    });
    (vec(grant, 0..8), vec(name(), 0..2)).prop_map(|(grants, agents)| json!({"grants": grants, "agents": agents}))
}

fn budgets() -> impl Strategy<Value = Value> {
    let window = prop_oneof![
        Just(json!("lifetime")),
        (0..3_u32).prop_map(|seconds| json!({"sliding_seconds": seconds * 30 + 1})),
        select(&["hour", "day", "week", "month"][..])
            .prop_map(|unit| json!({"calendar": unit, "zone": "Europe/Berlin"})),
    ];
    let amount = (select(&ARGUMENT_NAMES[..]), any::<bool>())
        .prop_map(|(argument, required)| json!({"argument": argument, "required": required}));
    let scope = (option::of(tool_pattern()), option::of(name()), option::of(name()));
    let per = select(&["session", "agent", "everyone"][..]);
    let count = select(&["forwarded", "attempted"][..]);
    let budget = (0..200_u32, scope, per, option::of(window), count, option::of(amount)).prop_map(
        |(limit, (tool, agent, server), per, window, count, amount)| {
            object([
                ("limit", Some(json!(limit))),
                ("all_tools", tool.is_none().then_some(json!(true))),
                ("tool", tool.map(Value::from)),
                ("agent", agent.map(Value::from)),
                ("server", server.map(Value::from)),
                ("per", Some(json!(per))),
                ("window", window),
                ("count", Some(json!(count))),
                ("amount", amount),
            ])
        },
    );
    let loops = option::of((0..4_u32).prop_map(|times| json!({"times": times, "seconds": 10})));
    (vec(budget, 0..8), loops)
        .prop_map(|(budgets, loops)| object([("budgets", Some(json!(budgets))), ("loops", loops)]))
}

fn with_arguments_of(other: &Call, call: &Call) -> Call {
    Call { arguments: other.arguments.clone(), ..call.clone() }
}

/// Asks a plugin in every way there is: a kept instance, which may give an answer again; that instance for certain; a fresh one;
/// and natively.
fn agrees<P: Policy>(plugin: &Plugin, settings: &str, calls: &[Call]) -> TestCaseResult {
    let kept = plugin.configure("same", settings, Life::Kept { instances: 1 });
    let native = match Native::<P>::configure(settings) {
        Ok(native) => native,
        Err(errors) => {
            let Err(ConfigureError::Refused(refused)) = kept else {
                return Err(TestCaseError::fail(format!("natively they are refused: {errors:?}, but: {kept:?}")));
            };
            prop_assert_eq!(refused.errors(), errors);
            return Ok(());
        }
    };
    let kept = kept.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let fresh = plugin.configure("same", settings, Life::Fresh { ready: 1 });
    let fresh = fresh.map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(kept.warnings(), native.warnings());
    // There and back, so that a kept instance that remembered anything would show it.
    for call in calls.iter().chain(calls.iter().rev()) {
        // With its own arguments and with those of all others, so that an answer is given again that ought not to be.
        for arguments in calls {
            let call = with_arguments_of(arguments, call);
            let answer = Ok(native.decide(&call));
            prop_assert_eq!(kept.decide(&call), answer.clone());
            prop_assert_eq!(kept.imagine(&call), answer.clone());
            prop_assert_eq!(fresh.decide(&call), answer);
        }
    }
    Ok(())
}

/// Runs the property, and sees to it that not all of the run is about refusals.
fn check<P: Policy>(name: &str, settings: impl Strategy<Value = Value>) {
    let plugin = shipped(name);
    let loaded = Cell::new(0);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() });
    let result = runner.run(&(settings, vec(any_call(), 1..CALLS_MAX)), |(settings, calls)| {
        let settings = settings.to_string();
        loaded.set(loaded.get() + u32::from(Native::<P>::configure(&settings).is_ok()));
        agrees::<P>(&plugin, &settings, &calls)
    });
    assert_eq!(result.map_err(|error| error.to_string()), Ok(()));
    let loaded = loaded.get();
    assert!(loaded > CASES / 4, "only {loaded} of {CASES} settings load");
}

#[test]
fn rules_decide_the_same_in_every_way() {
    check::<Rules>("rules", rules());
}

#[test]
fn grants_decide_the_same_in_every_way() {
    check::<Grants>("arguments", grants());
}

#[test]
fn budgets_decide_the_same_in_every_way() {
    check::<Budgets>("budget", budgets());
}
