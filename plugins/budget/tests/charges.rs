//! What each field of a budget makes of a call, whole.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_plugin_budget::Budgets;
use callgate_sdk::matching::ToolPattern;
use callgate_sdk::testing::Harness;
use callgate_sdk::{
    Calendar, CalendarUnit, Call, Charge, Decision, Occasion, Pointer, Retry, Rule, Subject, Verdict, Window,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

fn budgets(budgets: &Value) -> Harness<Budgets> {
    Harness::new(&json!({ "budgets": budgets }).to_string()).unwrap()
}

fn rule(index: usize, text: &str) -> Rule {
    Rule::new(Pointer::root().key("budgets").index(index), text)
}

fn call() -> Call {
    Call::new("github", "list_repos").agent("cursor")
}

/// The one charge that a budget makes of the usual call.
fn charge(budget: &Value) -> Charge {
    let mut decision = budgets(&json!([budget])).decide(&call());
    assert_eq!((&decision.verdict, &decision.rule, decision.charges.len()), (&Verdict::Abstain, &None, 1));
    decision.charges.remove(0)
}

fn keys(decision: &Decision) -> Vec<&str> {
    decision.charges.iter().map(|charge| charge.key.as_str()).collect()
}

#[test]
fn a_budget_is_a_charge() {
    let expected = Charge {
        key: "tool=list_repos server=github".to_owned(),
        subject: Subject::Session,
        window: Window::Lifetime,
        occasion: Occasion::Forwarded,
        amount: 1.0,
        limit: 20.0,
        rule: rule(0, "at most 20 calls of list_repos a session (server github)"),
        code: "budget".to_owned(),
        message: "the budget of 20 calls of list_repos a session is spent".to_owned(),
    };
    assert_eq!(charge(&json!({"limit": 20, "tool": "list_repos", "server": "github"})), expected);
}

#[test]
fn every_field_is_in_the_charge() {
    let told = |budget: Value| {
        let Charge { key, subject, window, occasion, rule, code, message, .. } = charge(&budget);
        (key, subject, window, occasion, rule.text, code, message)
    };
    let expected = |key: &str, subject, window, occasion, text: &str, code: &str, message: &str| {
        (key.to_owned(), subject, window, occasion, text.to_owned(), code.to_owned(), message.to_owned())
    };
    let calendar = |unit, zone: &str| Window::Calendar(Calendar { unit, zone: zone.to_owned() });
    assert_eq!(
        told(json!({"limit": 1, "all_tools": true})),
        expected(
            "all-tools",
            Subject::Session,
            Window::Lifetime,
            Occasion::Forwarded,
            "at most 1 call a session",
            "budget",
            "the budget of 1 call a session is spent"
        )
    );
    assert_eq!(
        told(json!({
            "limit": 5, "tool": "list_*", "agent": "cursor", "per": "agent", "window": {"sliding_seconds": 60}, "count": "attempted"
        })),
        expected(
            "tool=list_* agent=cursor per=agent window=60s count=attempted",
            Subject::Agent,
            Window::Sliding(60_000),
            Occasion::Attempted,
            "at most 5 attempted calls of list_* an agent within 60 seconds (agent cursor)",
            "rate",
            "the rate of 5 attempted calls of list_* an agent within 60 seconds is reached"
        )
    );
    assert_eq!(
        told(json!({
            "limit": 0, "all_tools": true, "agent": "cursor", "server": "github", "per": "everyone",
            "window": {"calendar": "day", "zone": "Europe/Berlin"}
        })),
        expected(
            "all-tools agent=cursor server=github per=everyone window=day:Europe/Berlin",
            Subject::Everyone,
            calendar(CalendarUnit::Day, "Europe/Berlin"),
            Occasion::Forwarded,
            "at most 0 calls for everyone each day in Europe/Berlin (agent cursor, server github)",
            "rate",
            "the rate of 0 calls for everyone each day in Europe/Berlin is reached"
        )
    );
    for (word, unit) in [("hour", CalendarUnit::Hour), ("week", CalendarUnit::Week), ("month", CalendarUnit::Month)] {
        let window = json!({"calendar": word, "zone": "UTC"});
        let charge =
            charge(&json!({"limit": 1, "all_tools": true, "window": window, "per": "session", "count": "forwarded"}));
        assert_eq!((charge.window, charge.key), (calendar(unit, "UTC"), format!("all-tools window={word}:UTC")));
    }
    assert_eq!(charge(&json!({"limit": 1, "all_tools": true, "window": "lifetime"})).window, Window::Lifetime);
    let limit = charge(&json!({"limit": 1_u64 << 53, "all_tools": true})).limit;
    assert_eq!(limit.to_string(), (1_u64 << 53).to_string());
}

#[test]
fn a_call_that_no_budget_fits_is_not_charged() {
    let harness = budgets(&json!([
        {"limit": 1, "tool": "list_*", "agent": "cursor"},
        {"limit": 1, "all_tools": true, "server": "git"},
    ]));
    for call in [Call::new("github", "list_repos"), Call::new("github", "list_repos").agent("zed"), Call::new("", "")] {
        assert_eq!(harness.decide(&call), Decision::abstain());
    }
    assert_eq!(Harness::<Budgets>::new("{}").unwrap().decide(&call()), Decision::abstain());
}

#[test]
fn every_budget_that_fits_is_charged_in_order() {
    let harness = budgets(&json!([
        {"limit": 9, "tool": "list_repos", "server": "github"},
        {"limit": 9, "tool": "create_repo"},
        {"limit": 9, "all_tools": true},
        {"limit": 9, "tool": "list_*", "agent": "cursor", "server": "github"},
        {"limit": 9, "tool": "list_repos", "window": {"sliding_seconds": 1}},
        {"limit": 9, "tool": "list_repos"},
        {"limit": 9, "tool": "list_repos", "agent": "zed"},
        {"limit": 9, "all_tools": true, "agent": "cursor"},
    ]));
    let paths =
        |call: &Call| harness.decide(call).charges.into_iter().map(|charge| charge.rule.path).collect::<Vec<_>>();
    assert_eq!(paths(&call()), ["/budgets/0", "/budgets/2", "/budgets/3", "/budgets/4", "/budgets/5", "/budgets/7"]);
    assert_eq!(paths(&Call::new("git", "list_repos")), ["/budgets/2", "/budgets/4", "/budgets/5"]);
}

#[test]
fn a_key_says_what_is_counted_and_not_how_much_or_where_it_stands() {
    let key = |limit: u64, before: usize| {
        let mut entries = vec![json!({"limit": 1, "tool": "other", "per": "agent"}); usize::from(before > 0)];
        entries.push(json!({"limit": limit, "tool": "list_repos", "per": "agent"}));
        let decision = budgets(&json!(entries)).decide(&call());
        decision.charges[0].key.clone()
    };
    assert_eq!(key(20, 0), "tool=list_repos per=agent");
    assert_eq!(key(20, 0), key(7, 1));
}

#[test]
fn whatever_is_counted_has_a_key_of_its_own() {
    let long = "x".repeat(200);
    let entries = [
        json!({"tool": "a"}),
        json!({"tool": "a*"}),
        json!({"tool": "*"}),
        json!({"all_tools": true}),
        json!({"tool": "a", "agent": "b"}),
        json!({"tool": "a", "server": "b"}),
        json!({"tool": "a agent=b"}),
        json!({"tool": "a%20agent=b"}),
        json!({"tool": "all-tools"}),
        json!({"tool": "a", "per": "agent"}),
        json!({"tool": "a", "per": "everyone"}),
        json!({"tool": "a", "count": "attempted"}),
        json!({"tool": "a", "amount": {"argument": "n"}}),
        json!({"tool": "a", "amount": {"argument": "n.m"}}),
        json!({"tool": "a", "window": {"sliding_seconds": 60}}),
        json!({"tool": "a", "window": {"sliding_seconds": 61}}),
        json!({"tool": "a", "window": {"calendar": "day", "zone": "UTC"}}),
        json!({"tool": "a", "window": {"calendar": "week", "zone": "UTC"}}),
        json!({"tool": "a", "window": {"calendar": "day", "zone": "Europe/Berlin"}}),
        json!({"tool": long}),
        json!({"tool": format!("{long}y")}),
        json!({"tool": long, "per": "agent"}),
    ];
    let entries: Vec<Value> = entries
        .into_iter()
        .map(|mut entry| {
            entry["limit"] = json!(1);
            entry
        })
        .collect();
    // Two of one key would be an error.
    budgets(&json!(entries));
}

#[test]
fn a_key_too_long_becomes_its_beginning_and_a_digest() {
    let tool = "é".repeat(100);
    let harness = budgets(&json!([{"limit": 1, "tool": tool, "per": "agent"}]));
    let decision = harness.decide(&Call::new("github", &tool));
    assert_eq!(keys(&decision), [format!("tool={}#4a1ff2f0394cd755", "é".repeat(53))]);
}

/// The answer to a call of a capped tool with these arguments.
fn spent(required: bool, arguments: &str) -> Decision {
    let amount = json!({"argument": "payment.cents", "required": required});
    budgets(&json!([{"limit": 5000, "tool": "list_repos", "per": "agent", "amount": amount}]))
        .decide(&call().arguments(arguments))
}

#[test]
fn a_spending_cap_charges_what_an_argument_says() {
    let decision = spent(false, r#"{"payment": {"cents": 250}}"#);
    let expected = Charge {
        key: "tool=list_repos per=agent amount=payment.cents".to_owned(),
        subject: Subject::Agent,
        window: Window::Lifetime,
        occasion: Occasion::Forwarded,
        amount: 250.0,
        limit: 5000.0,
        rule: rule(0, "at most 5000 of payment.cents in calls of list_repos an agent"),
        code: "cap".to_owned(),
        message: "the cap of 5000 of payment.cents in calls of list_repos an agent has no room for this call"
            .to_owned(),
    };
    assert_eq!(decision, Decision::abstain().charge(expected));
}

#[test]
fn an_amount_is_read_exactly() {
    for (arguments, amount) in [
        (r#"{"payment": {"cents": 0}}"#, 0.0),
        (r#"{"payment": {"cents": -0.0}}"#, 0.0),
        (r#"{"payment": {"cents": 0e999999999999999999999}}"#, 0.0),
        (r#"{"payment": {"cents": 100.00}}"#, 100.0),
        (r#"{"payment": {"cents": 1.5E+1}}"#, 15.0),
        (r#"{"payment": {"cents": 1200e-2}}"#, 12.0),
        (r#"{"payment": {"cents": 9007199254740992}}"#, 9_007_199_254_740_992.0),
        (r#"{"payment.cents": 7}"#, 7.0),
        (r#"{"payment.cents": 7, "payment": {"cents": 8}}"#, 8.0),
        (r#"{"payment.cents": 9, "payment": {"cents": 8}}"#, 9.0),
    ] {
        let decision = spent(true, arguments);
        let amounts: Vec<f64> = decision.charges.iter().map(|charge| charge.amount).collect();
        assert_eq!((decision.verdict, amounts), (Verdict::Abstain, vec![amount]), "{arguments}");
    }
}

#[test]
fn an_amount_that_is_none_is_refused() {
    for (cents, fault) in [
        ("-1", "is negative"),
        ("-0.5", "is negative"),
        ("0.5", "has a fraction"),
        ("1e-999999999999999999999", "has a fraction"),
        ("1.00000000000000000000000000001", "has a fraction"),
        ("9007199254740993", "is above 2^53"),
        ("9007199254740992.5", "has a fraction"),
        ("1e999999999999999999999", "is above 2^53"),
        ("123456789012345678901234567890", "is above 2^53"),
        (r#""5""#, "is not a number"),
        ("null", "is not a number"),
        ("true", "is not a number"),
        ("[5]", "is not a number"),
        ("{}", "is not a number"),
    ] {
        let message =
            format!("the argument `payment.cents` {fault}, where a spending cap needs a whole number from 0 to 2^53");
        let text = "at most 5000 of payment.cents in calls of list_repos an agent";
        let expected = Decision::deny("amount", message).retry(Retry::Changed).rule(rule(0, text));
        assert_eq!(spent(false, &format!(r#"{{"payment": {{"cents": {cents}}}}}"#)), expected, "{cents}");
        assert_eq!(spent(false, &format!(r#"{{"payment": {{"cents": 5}}, "payment.cents": {cents}}}"#)), expected);
    }
}

#[test]
fn an_amount_that_is_missing_spends_nothing_unless_it_is_required() {
    for arguments in ["{}", r#"{"payment": {}}"#, r#"{"payment": 5}"#, r#"{"payment": [{"cents": 5}]}"#] {
        assert_eq!(spent(false, arguments), Decision::abstain(), "{arguments}");
        let Verdict::Deny(denial) = spent(true, arguments).verdict else { panic!("required") };
        let message =
            "the argument `payment.cents` is missing, where a spending cap needs a whole number from 0 to 2^53";
        assert_eq!((denial.code.as_str(), denial.message.as_str(), denial.retry), ("amount", message, Retry::Changed));
    }
}

#[test]
fn arguments_that_cannot_be_read_are_refused_where_an_amount_is_in_them() {
    let broken = call().arguments_unread("[]");
    let capped = budgets(&json!([{"limit": 1, "all_tools": true, "amount": {"argument": "n"}}]));
    assert!(matches!(capped.decide(&broken).verdict, Verdict::Deny(denial) if denial.code == "amount"));
    assert_eq!(budgets(&json!([{"limit": 1, "all_tools": true}])).decide(&broken).charges.len(), 1);
}

#[test]
fn a_refused_amount_leaves_the_other_charges() {
    let settings = json!({
        "budgets": [
            {"limit": 1, "all_tools": true, "amount": {"argument": "n"}},
            {"limit": 1, "all_tools": true, "count": "attempted"},
            {"limit": 1, "all_tools": true, "amount": {"argument": "m", "required": true}},
        ],
        "loops": {"times": 3, "seconds": 10},
    });
    let decision = Harness::<Budgets>::new(&settings.to_string()).unwrap().decide(&call().arguments(r#"{"n": -1}"#));
    assert_eq!(decision.rule.unwrap().path, "/budgets/0");
    let paths: Vec<&str> = decision.charges.iter().map(|charge| charge.rule.path.as_str()).collect();
    assert_eq!(paths, ["/budgets/1", "/loops"]);
}

fn looped(call: &Call) -> Charge {
    let harness = Harness::<Budgets>::new(r#"{"loops": {"times": 3, "seconds": 10}}"#).unwrap();
    let mut decision = harness.decide(call);
    assert_eq!((&decision.verdict, decision.charges.len()), (&Verdict::Abstain, 1));
    decision.charges.remove(0)
}

#[test]
fn a_loop_is_an_attempted_charge_of_the_agent() {
    let digest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let expected = Charge {
        key: format!("loop={digest} window=10s server=git tool=git_log"),
        subject: Subject::Agent,
        window: Window::Sliding(10_000),
        occasion: Occasion::Attempted,
        amount: 1.0,
        limit: 3.0,
        rule: Rule::new(Pointer::root().key("loops"), "the same call at most 3 times within 10 seconds"),
        code: "loop".to_owned(),
        message: "the same tool was called with the same arguments more than 3 times within 10 seconds".to_owned(),
    };
    assert_eq!(looped(&Call::new("git", "git_log")), expected);
}

#[test]
fn a_loop_is_the_same_tool_of_the_same_server_with_the_same_arguments() {
    let key = |server: &str, tool: &str, arguments: &str| looped(&Call::new(server, tool).arguments(arguments)).key;
    let (long, longer) = ("x".repeat(500), "x".repeat(501));
    for tool in ["git_log", "", "ünïcödé\n", &long] {
        let same = key("git", tool, r#"{"a": 1, "b": "é"}"#);
        assert_eq!(key("git", tool, r#"{ "b":"\u00e9","a":1 }"#), same);
        assert_ne!(key("git", tool, r#"{"a": 1.0, "b": "é"}"#), same);
        assert_ne!(key("gi", tool, r#"{"a": 1, "b": "é"}"#), same);
    }
    assert_ne!(key("git", &long, "{}"), key("git", &longer, "{}"));
    assert_ne!(key("a", "b c", "{}"), key("a", "b%20c", "{}"));
    assert_eq!(key("git", &long, "{}").len(), 128);
}

const TOOLS: [&str; 8] = ["read_file", "write_file", "read_*", "*_file", "*", "?ead_file", "*_*", "list"];
const NAMES: [&str; 3] = ["a", "b", "c"];

fn entry() -> impl Strategy<Value = Value> {
    let scope = || proptest::option::of(select(&NAMES[..2]));
    (proptest::option::of(select(&TOOLS[..])), scope(), scope(), select(&["session", "agent"][..])).prop_map(
        |(tool, agent, server, per)| {
            let mut entry = json!({"limit": 1, "per": per});
            match tool {
                Some(tool) => entry["tool"] = json!(tool),
                None => entry["all_tools"] = json!(true),
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

/// The entries without those that count the same as an earlier one.
fn distinct(entries: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for entry in entries {
        if !kept.contains(&entry) {
            kept.push(entry);
        }
    }
    kept
}

/// Whether a budget fits by its own words.
fn fits(budget: &Value, call: &Call) -> bool {
    let agent = call.caller.agent.as_ref().map(|agent| agent.name.as_str());
    let tool = budget.get("tool").and_then(Value::as_str);
    tool.is_none_or(|tool| ToolPattern::parse(tool).unwrap().matches(&call.tool.name))
        && budget.get("agent").is_none_or(|name| name.as_str() == agent)
        && budget.get("server").is_none_or(|name| *name == call.caller.server.name)
}

fn any_call() -> impl Strategy<Value = Call> {
    let tool = select(&["read_file", "write_file", "list", "x_y", "", "écrire_file"][..]);
    (tool, proptest::option::of(select(&NAMES[..])), select(&NAMES[..])).prop_map(|(tool, agent, server)| {
        let call = Call::new(server, tool);
        match agent {
            Some(agent) => call.agent(agent),
            None => call,
        }
    })
}

#[test]
fn arguments_are_looked_at_only_for_amounts_and_loops() {
    let amount = json!({"limit": 9, "tool": "list_*", "amount": {"argument": "n"}});
    let plain = json!({"limit": 9, "all_tools": true});
    assert!(!budgets(&json!([plain])).rests_on_arguments(&call()));
    assert!(budgets(&json!([plain, amount])).rests_on_arguments(&call()), "the amount is in them");
    assert!(!budgets(&json!([plain, amount])).rests_on_arguments(&Call::new("github", "other")), "no amount counts it");
    let loops = Harness::<Budgets>::new(r#"{"loops": {"times": 3, "seconds": 10}}"#).unwrap();
    assert!(loops.rests_on_arguments(&call()), "their digest is");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_index_finds_what_a_scan_finds(entries in vec(entry(), 0..40), call in any_call()) {
        let entries = distinct(entries);
        let decision = budgets(&json!(entries)).decide(&call);
        let found: Vec<String> = decision.charges.into_iter().map(|charge| charge.rule.path).collect();
        let fitting = entries.iter().enumerate().filter(|(_, entry)| fits(entry, &call));
        let scanned: Vec<String> = fitting.map(|(index, _)| format!("/budgets/{index}")).collect();
        prop_assert_eq!(found, scanned);
    }

    #[test]
    fn keys_are_stable_when_budgets_move_and_limits_change(
        (entries, kept) in vec(entry(), 1..20).prop_map(distinct).prop_flat_map(|entries| {
            let kept = subsequence(entries.clone(), 0..=entries.len()).prop_shuffle();
            (Just(entries), kept)
        }),
        limit in 0..1000_u64,
        call in any_call(),
    ) {
        let all = budgets(&json!(entries)).decide(&call);
        let changed: Vec<Value> = kept.iter().cloned().map(|mut entry| { entry["limit"] = json!(limit); entry }).collect();
        let fewer = budgets(&json!(changed)).decide(&call);
        let before = keys(&all);
        prop_assert!(keys(&fewer).iter().all(|key| before.contains(key)));
        prop_assert_eq!(fewer.charges.len(), kept.iter().filter(|entry| fits(entry, &call)).count());
    }

    #[test]
    fn no_arguments_make_it_fail(arguments in r#"\{?("[nm.\\u0"]{0,4}"|[:,\[\]{}\s0-9eE+.-]|null|.){0,12}\}?"#) {
        let amount = |name: &str| json!({"limit": 1, "all_tools": true, "amount": {"argument": name}});
        let harness = budgets(&json!([amount("n"), amount("n.m")]));
        let decision = harness.decide(&call().arguments_unread(&arguments));
        prop_assert!(!matches!(decision.verdict, Verdict::Allow | Verdict::Ask(_)));
    }

    #[test]
    fn a_number_is_read_as_its_digits_say(whole in 0..=1_u64 << 53, zeros in 0..12_u32, places in 0..12_usize) {
        // The same number with its point moved and zeros behind it.
        let text = format!("{whole}{}", "0".repeat(zeros as usize));
        let (before, after) = text.split_at(text.len().saturating_sub(places).max(1));
        let exponent = i64::try_from(after.len()).unwrap() - i64::from(zeros);
        let decision = spent(true, &format!(r#"{{"payment": {{"cents": {before}.{after}0e{exponent}}}}}"#));
        let amounts: Vec<String> = decision.charges.iter().map(|charge| charge.amount.to_string()).collect();
        prop_assert_eq!(amounts, [whole.to_string()], "{}.{}0e{}", before, after, exponent);
    }
}
