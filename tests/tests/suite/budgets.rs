//! Budgets: how many calls go through, for whom, and what is said when no more do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callgate_tests::frame::call;
use callgate_tests::home::Home;
use callgate_tests::relay::{self, Relay};
use callgate_tests::session::Session;
use callgate_tests::wait;
use serde_json::{Value, json};

use crate::kill::is_sound;

/// Whether a call passes, and the code of its refusal if not.
fn outcome(relay: &mut Relay, id: u64, tool: &str) -> Result<(), String> {
    let answer = relay.call(&id.to_string(), tool, r#"{"message":"m"}"#);
    let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str();
    code.map_or(Ok(()), |code| Err(code.to_owned()))
}

fn spent() -> Result<(), String> {
    Err("budget/budget".to_owned())
}

fn relay(home: &Home, server: &str) -> Relay {
    home.relay(server).start(relay::fixture(&home.path().join(format!("received-{server}"))))
}

#[test]
fn a_budget_of_three_lets_three_calls_of_a_session_through() {
    let home = Home::new();
    let added = home.ok(&["policy", "budget", "3", "--tool", "echo"]);
    assert!(added.stdout.starts_with("added: at most 3 calls of echo a session (entry "), "{added:?}");
    let mut session = Session::within(home);
    for id in 1..=3 {
        assert_eq!(outcome(&mut session, id, "echo"), Ok(()));
    }
    let refused = session.call("4", "echo", r#"{"message":"m"}"#);
    assert_eq!(
        refused["result"]["content"][0]["text"],
        "Callgate refused this call (budget): the budget of 3 calls of echo a session is spent; 0 of 3 left. Do not try it \
         again: the same call will be refused again."
    );
    let told = &refused["result"]["_meta"]["dev.callgate/decision"];
    assert_eq!(
        (&told["code"], &told["reason"], &told["rule"]["text"], &told["retry"]),
        (
            &json!("budget/budget"),
            &json!("the budget of 3 calls of echo a session is spent; 0 of 3 left"),
            &json!("at most 3 calls of echo a session"),
            &json!("never")
        )
    );
    assert_eq!(outcome(&mut session, 5, "drop"), Ok(()), "another tool is not counted");
    let received = session.received();
    assert_eq!(received.split_inclusive(|&byte| byte == b'\n').count(), 4, "the fourth never got there");

    let mut fresh = relay(&session.home, "fs2");
    assert_eq!(outcome(&mut fresh, 1, "echo"), Ok(()), "a new session is a fresh count");
    assert_eq!(fresh.close().code(), 0);

    let removed = session.home.ok(&["policy", "budget", "remove", "--tool", "echo"]);
    assert!(removed.stdout.starts_with("removed: at most 3 calls of echo a session (entry "), "{removed:?}");
    assert_eq!(outcome(&mut session, 6, "echo"), Ok(()));
    // A budget for the same calls goes on where the first one stood: what is spent stays spent.
    let _ = session.home.ok(&["policy", "budget", "4", "--tool", "echo"]);
    assert_eq!((outcome(&mut session, 7, "echo"), outcome(&mut session, 8, "echo")), (Ok(()), spent()));
    let home = session.end();
    is_sound(&home);
}

#[test]
fn a_refused_call_never_spends() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "drop"]);
    let _ = home.ok(&["policy", "budget", "2", "--all-tools"]);
    let _ = home.ok(&["policy", "budget", "1", "--tool", "echo"]);
    let mut session = Session::within(home);
    for id in 1..=5 {
        assert_eq!(outcome(&mut session, id, "drop"), Err("rules/deny".to_owned()));
    }
    assert_eq!(outcome(&mut session, 6, "echo"), Ok(()));
    // Refused by the one budget, it spends nothing of the other.
    assert_eq!(outcome(&mut session, 7, "echo"), spent());
    let usage = session.home.ok(&["policy", "usage", "--json"]).json();
    let spent_of = |budget: usize| usage["budgets"][budget]["spent"][0]["spent"].clone();
    assert_eq!((spent_of(0), spent_of(1)), (json!(1), json!(1)));
    assert_eq!(outcome(&mut session, 8, "sleep"), Ok(()));
    assert_eq!(outcome(&mut session, 9, "sleep"), spent());
    session.end();
}

#[test]
fn a_budget_counts_what_its_scope_says() {
    let home = Home::new();
    let _ = home.ok(&["policy", "budget", "1", "--tool", "ec*", "--server", "one"]);
    let _ = home.ok(&["policy", "budget", "1", "--all-tools", "--agent", "somebody"]);
    let (mut one, mut two) = (relay(&home, "one"), relay(&home, "two"));
    assert_eq!((outcome(&mut one, 1, "echo"), outcome(&mut one, 2, "echo")), (Ok(()), spent()));
    assert_eq!(outcome(&mut one, 3, "drop"), Ok(()));
    // Nobody knows the agent of these sessions, so that no budget of an agent counts.
    assert_eq!((outcome(&mut two, 1, "echo"), outcome(&mut two, 2, "echo")), (Ok(()), Ok(())));
    assert_eq!((one.close().code(), two.close().code()), (0, 0));
}

#[test]
fn a_shared_budget_is_spent_by_all_sessions_and_stays_spent() {
    let home = Home::new();
    let _ = home.ok(&["policy", "budget", "3", "--tool", "echo", "--shared-by", "everyone"]);
    // All whose agent is not known share one agent's.
    let _ = home.ok(&["policy", "budget", "2", "--tool", "drop", "--shared-by", "agent"]);
    let (mut one, mut two) = (relay(&home, "one"), relay(&home, "two"));
    assert_eq!((outcome(&mut one, 1, "echo"), outcome(&mut two, 1, "echo")), (Ok(()), Ok(())));
    assert_eq!((outcome(&mut one, 2, "drop"), outcome(&mut two, 2, "drop")), (Ok(()), Ok(())));
    assert_eq!(outcome(&mut one, 3, "drop"), spent());
    let _ = home.ok(&["daemon", "restart"]);
    wait::until_true("the next daemon", || outcome(&mut one, 4, "sleep").is_ok());
    assert_eq!((outcome(&mut two, 3, "echo"), outcome(&mut one, 5, "echo")), (Ok(()), spent()));
    assert_eq!(outcome(&mut two, 4, "drop"), spent());
    assert_eq!(
        home.ok(&["policy", "usage"]).stdout,
        "SPENT  LEFT  BY                BUDGET\n    3     0  everyone          at most 3 calls of echo for everyone\n    \
         2     0  agents not known  at most 2 calls of drop an agent\n"
    );
    assert_eq!((one.close().code(), two.close().code()), (0, 0));
    is_sound(&home);
}

#[test]
fn usage_tells_what_is_spent_of_what_and_by_whom() {
    let home = Home::new();
    assert_eq!(home.ok(&["policy", "usage"]).stdout, "no budgets\n");
    assert_eq!(home.ok(&["policy", "usage", "--json"]).json(), json!({ "schema": 1, "budgets": [] }));
    let _ = home.ok(&["policy", "budget", "20", "--tool", "echo", "--server", "fs"]);
    let _ = home.ok(&["policy", "budget", "5", "--tool", "*"]);
    assert_eq!(
        home.ok(&["policy", "usage"]).stdout,
        "SPENT  LEFT  BY          BUDGET\n    0    20  nobody yet  at most 20 calls of echo a session (server fs)\n    0     \
         5  nobody yet  at most 5 calls of * a session\n"
    );
    let mut session = Session::within(home);
    assert_eq!((outcome(&mut session, 1, "echo"), outcome(&mut session, 2, "drop")), (Ok(()), Ok(())));
    let start = session.home.entries().into_iter().find(|entry| entry.kind == "session.start").unwrap();
    let by = json!({ "session": start.body["session"] });
    assert_eq!(
        session.home.ok(&["policy", "usage", "--json"]).json()["budgets"],
        json!([
            {
                "budget": { "limit": 20, "tool": "echo", "server": "fs" },
                "spent": [{ "by": by, "spent": 1, "left": 19 }],
                "more": 0,
            },
            { "budget": { "limit": 5, "tool": "*" }, "spent": [{ "by": by, "spent": 2, "left": 3 }], "more": 0 },
        ])
    );
    let text = session.home.ok(&["policy", "usage"]).stdout;
    let id = start.body["session"].as_str().unwrap();
    assert!(text.contains(&format!("\n    2     3  session {id}  at most 5 calls of * a session\n")), "{text}");
    let home = session.end();
    // The end of a session is the end of its count.
    wait::until_true("the session's end", || home.ok(&["policy", "usage"]).stdout.contains("nobody yet  at most 5"));
}

#[test]
fn the_list_shows_budgets_beside_rules() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "x"]);
    let _ = home.ok(&["policy", "budget", "20", "--tool", "echo", "--agent", "a", "--server", "fs"]);
    let _ = home.ok(&["policy", "budget", "1", "--all-tools", "--shared-by", "agent"]);
    let listed = "deny x\nat most 20 calls of echo a session (agent a, server fs)\nat most 1 call an agent\n";
    assert_eq!(home.ok(&["policy", "list"]).stdout, listed);
    let json = home.ok(&["policy", "list", "--json"]).json();
    assert_eq!(json["rules"], json!([{ "effect": "deny", "tool": "x" }]));
    assert_eq!(
        json["budgets"],
        json!([
            { "limit": 20, "tool": "echo", "agent": "a", "server": "fs" },
            { "limit": 1, "all_tools": true, "per": "agent" },
        ])
    );
    home.stop_daemon();
    assert_eq!(home.ok(&["policy", "list"]).stdout, listed);
    let log = home.ok(&["log"]).stdout;
    assert!(log.contains("budget added: at most 1 call an agent"), "{log}");
}

#[test]
fn what_is_wrong_with_a_budget_is_said_with_a_way_out() {
    let home = Home::new();
    let _ = home.ok(&["policy", "budget", "3", "--tool", "echo"]);
    let wrong: &[(&[&str], &str, &str)] = &[
        (&["0", "--tool", "x y"], "a budget of 0 lets no call through", "callgate policy deny 'x y'"),
        (&["0", "--all-tools"], "a budget of 0 lets no call through", "callgate policy default deny"),
        (&["-3", "--tool", "x"], "\"-3\" is no limit", "for example 20"),
        (&["1.5", "--tool", "x"], "\"1.5\" is no limit", "for example 20"),
        (&["many", "--tool", "x"], "\"many\" is no limit", "for example 20"),
        (&["9007199254740993", "--tool", "x"], "is no limit", "9007199254740992 is the most"),
        (&["3", "--tool", ""], "the budget plugin does not take this budget: tool: ", ""),
        (
            &["9", "--tool", "echo"],
            "there is a budget for that already: at most 3 calls of echo a session",
            "callgate policy budget remove --tool 'echo'",
        ),
        (&["remove", "--tool", "drop"], "there is no budget for calls of drop a session", "callgate policy list"),
        (
            &["remove", "--tool", "echo", "--server", "fs"],
            "there is no budget for calls of echo",
            "callgate policy list",
        ),
        (&["remove", "--all-tools"], "there is no budget for calls a session", "callgate policy list"),
        (&["3"], "--tool", ""),
        (&["remove"], "--tool", ""),
        (&["--tool", "x"], "LIMIT", ""),
        (&["3", "--tool", "x", "--all-tools"], "cannot be used with", ""),
        (&["3", "--tool", "x", "--agent", "*"], "agent name", ""),
        (&["3", "--tool", "x", "--shared-by", "nobody"], "possible values: agent, everyone", ""),
    ];
    for (arguments, message, hint) in wrong {
        let told = home.run(&[&["policy", "budget"], *arguments].concat()).exits(2);
        assert!(told.stdout.is_empty() && told.stderr.contains(message), "{arguments:?}: {told:?}");
        assert!(
            hint.is_empty() || told.stderr.contains("\nhint: ") && told.stderr.contains(hint),
            "{arguments:?}: {told:?}"
        );
    }
    assert_eq!(home.ok(&["policy", "list", "--json"]).json()["budgets"], json!([{ "limit": 3, "tool": "echo" }]));
}

#[test]
fn explain_says_where_a_budget_would_refuse_and_spends_nothing() {
    let home = Home::new();
    let _ = home.ok(&["policy", "budget", "1", "--tool", "echo"]);
    let _ = home.ok(&["policy", "budget", "2", "--all-tools", "--shared-by", "everyone"]);
    let mut session = Session::within(home);
    let explain = |session: &Session, code: i32, arguments: &[&str]| {
        let arguments = [&["policy", "explain", "echo", "--server", "fs"], arguments].concat();
        session.home.run(&arguments).exits(code).stdout
    };
    for _ in 0..3 {
        let said = explain(&session, 0, &[]);
        assert!(said.starts_with("allow: echo (rules: no rule names it)\n"), "{said}");
        assert!(
            said.contains("\n  budget: abstain\n    counts 1 against at most 1 call of echo a session: 0 of 1 spent\n")
        );
    }
    assert_eq!(outcome(&mut session, 1, "echo"), Ok(()));
    let _ = explain(&session, 0, &[]);
    let start = session.home.entries().into_iter().find(|entry| entry.kind == "session.start").unwrap();
    let id = start.body["session"].as_str().unwrap();
    let said = explain(&session, 1, &["--session", id]);
    assert!(
        said.starts_with("deny: echo (budget: at most 1 call of echo a session)\n  reason: the budget of 1 call"),
        "{said}"
    );
    assert!(said.contains("1 of 1 spent, no room for this call\n"), "{said}");
    assert_eq!(outcome(&mut session, 2, "drop"), Ok(()));
    // By now everyone's is spent.
    let explained = session.home.run(&["policy", "explain", "drop", "--json"]).exits(1).json();
    assert_eq!((&explained["verdict"], &explained["refusal"]["code"]), (&json!("deny"), &json!("policy")));
    assert_eq!(
        explained["charges"],
        json!([{
            "plugin": "budget",
            "rule": { "path": "/budgets/1", "text": "at most 2 calls for everyone" },
            "subject": "everyone",
            "amount": 1,
            "spent": 2,
            "limit": 2,
        }])
    );
    assert_eq!(session.home.decisions().len(), 2, "nobody called anything else");
    let home = session.end();
    is_sound(&home);
}

#[test]
fn verify_shows_the_counters_counted_anew() {
    let home = Home::new();
    let _ = home.ok(&["policy", "budget", "9", "--all-tools", "--shared-by", "everyone"]);
    let _ = home.ok(&["policy", "budget", "9", "--tool", "echo"]);
    let mut session = Session::within(home);
    for id in 0..3 {
        assert_eq!(outcome(&mut session, id, "echo"), Ok(()));
    }
    let plain = session.home.ok(&["verify"]).stdout;
    assert!(!plain.contains("counter"), "{plain}");
    assert!(session.home.ok(&["verify", "--json"]).json().get("counted").is_none());
    let text = session.home.ok(&["verify", "--counters"]).stdout;
    let expected =
        "charges counted anew: 6, each comes to what its entry says; none were written down yet\ncounters: 2\n";
    assert!(text.contains(expected) && text.contains("\n  3 by everyone of budget all-tools per=everyone\n"), "{text}");
    let counted = session.home.ok(&["verify", "--counters", "--json"]).json()["counted"].clone();
    assert_eq!((&counted["charges"], &counted["written_after"]), (&json!(6), &json!(0)));
    assert_eq!(
        counted["counters"][0],
        json!({ "plugin": "budget", "key": "all-tools per=everyone", "window": "lifetime", "by": "everyone", "spent": 3 })
    );
    session.end();
}

const RELAYS: usize = 64;
const CALLS_IN_FLIGHT: usize = 8;
const SHARED: usize = 100;

fn record(home: &Home, number: usize) -> PathBuf {
    home.path().join(format!("received-{number}"))
}

/// How many calls reached a server.
fn reached(record: &Path) -> usize {
    let received = relay::recorded(record);
    received.split_inclusive(|&byte| byte == b'\n').filter(|line| relay::json(line)["method"] == "tools/call").count()
}

/// Starts all relays with one shared budget.
fn relays(home: &Home) -> Vec<Relay> {
    let _ = home.ok(&["policy", "budget", &SHARED.to_string(), "--tool", "echo", "--shared-by", "everyone"]);
    (0..RELAYS).map(|number| home.relay(&format!("s{number}")).start(relay::fixture(&record(home, number)))).collect()
}

/// The ids of a round of calls.
fn ids(round: usize) -> impl Iterator<Item = usize> {
    round * CALLS_IN_FLIGHT..(round + 1) * CALLS_IN_FLIGHT
}

/// Sends a round of calls without waiting for any.
fn send(relay: &mut Relay, round: usize) {
    relay.send(ids(round).map(|id| call(&id.to_string(), "echo", r#"{"message":"m"}"#) + "\n").collect::<String>());
}

/// Takes all answers of a round: how many there are of each code, an allowed one under "".
fn answers(relay: &mut Relay, round: usize) -> BTreeMap<String, usize> {
    let mut codes = BTreeMap::new();
    for id in ids(round) {
        let answer = relay.answer(&json!(id));
        let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str().unwrap_or_default();
        *codes.entry(code.to_owned()).or_default() += 1;
    }
    codes
}

fn allowed_decisions(home: &Home) -> usize {
    let is_counted = |body: &&Value| body["tool"] == "echo" && body["decision"] == "allowed";
    home.decisions().iter().filter(is_counted).count()
}

#[test]
fn of_64_relays_with_8_calls_in_flight_exactly_as_many_as_the_budget_reach_a_server() {
    let home = Home::configured("relay: { decision_deadline: 20s }");
    let mut relays = relays(&home);
    for relay in &mut relays {
        send(relay, 0);
    }
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for mut relay in relays {
        for (code, count) in answers(&mut relay, 0) {
            *codes.entry(code).or_default() += count;
        }
        assert_eq!(relay.close().code(), 0);
    }
    let expected = [(String::new(), SHARED), ("budget/budget".to_owned(), RELAYS * CALLS_IN_FLIGHT - SHARED)];
    assert_eq!(codes, BTreeMap::from(expected));
    assert_eq!((0..RELAYS).map(|number| reached(&record(&home, number))).sum::<usize>(), SHARED);
    assert_eq!(allowed_decisions(&home), SHARED);
    is_sound(&home);
}

#[test]
fn a_daemon_that_is_killed_half_way_lets_no_more_through_than_the_budget() {
    let home = Home::configured("relay: { decision_deadline: 20s }");
    let mut relays = relays(&home);
    // Some of the budget is spent, most calls wait for their decision.
    send(&mut relays[0], 0);
    assert!(relays[0].answer(&json!(0))["result"]["isError"] != true);
    for relay in &mut relays[1..] {
        send(relay, 0);
    }
    home.kill_daemon(home.daemons()[0].pid);
    for id in ids(0).skip(1) {
        relays[0].answer(&json!(id));
    }
    for relay in &mut relays[1..] {
        answers(relay, 0);
    }

    // The next daemon goes on where the journal ends: everybody calls until the budget is spent.
    home.start_daemon();
    for mut relay in relays {
        let mut round = 0;
        wait::until_true("the budget's end", || {
            round += 1;
            send(&mut relay, round);
            answers(&mut relay, round).contains_key("budget/budget")
        });
        assert_eq!(relay.close().code(), 0);
    }
    let reached: usize = (0..RELAYS).map(|number| reached(&record(&home, number))).sum();
    // What a crash met between its commit and its server has spent, and never got there.
    assert!(reached <= SHARED, "{reached} calls got through a budget of {SHARED}");
    assert_eq!(allowed_decisions(&home), SHARED);
    let starts = home.entries().iter().filter(|entry| entry.kind == "daemon.start").count();
    assert!(starts >= 2, "the daemon was killed");
    is_sound(&home);
}
