//! The command line: what it prints, what it changes, and how it exits.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use callgate_tests::frame::call;
use callgate_tests::home::Home;
use callgate_tests::relay;
use callgate_tests::session::Session;
use callgate_tests::wait;
use serde_json::{Value, json};

use crate::kill::is_sound;

/// Whether a call passes, and the code of its refusal if not.
fn outcome(session: &mut Session, id: u64, tool: &str) -> Result<(), String> {
    let answer = session.call(&id.to_string(), tool, r#"{"message":"m"}"#);
    let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str();
    code.map_or(Ok(()), |code| Err(code.to_owned()))
}

#[test]
fn a_rule_holds_from_the_next_call_on() {
    let mut session = Session::new();
    assert_eq!(outcome(&mut session, 1, "echo"), Ok(()));
    let added = session.home.ok(&["policy", "deny", "echo"]);
    assert!(added.stdout.starts_with("added: deny echo"), "{added:?}");
    assert_eq!(outcome(&mut session, 2, "echo"), Err("rules/deny".to_owned()));
    let removed = session.home.ok(&["policy", "remove", "echo"]);
    assert!(removed.stdout.starts_with("removed: deny echo"), "{removed:?}");
    assert_eq!(outcome(&mut session, 3, "echo"), Ok(()));
    let _ = session.home.ok(&["policy", "ask", "ec*"]);
    assert_eq!(outcome(&mut session, 4, "echo"), Err("ask-unavailable".to_owned()));
    let asked = session.call("\"ask\"", "echo", r#"{"message":"m"}"#);
    assert_eq!(
        asked["result"]["content"][0]["text"],
        "Callgate refused this call (rules): the rule `ask ec*` wants a person to decide; calls cannot be held for an answer \
         yet, so it is refused. Do not try it again: the same call will be refused again."
    );
    let _ = session.home.ok(&["policy", "allow", "echo", "--server", "fs"]);
    assert_eq!(outcome(&mut session, 5, "echo"), Ok(()));
    let kinds: Vec<_> =
        session.home.entries().into_iter().map(|entry| entry.kind).filter(|kind| kind.starts_with("rule.")).collect();
    assert_eq!(kinds, ["rule.add", "rule.remove", "rule.add", "rule.add"], "every change is an entry");
    session.end();
}

#[test]
fn a_default_counts_for_what_no_rule_names() {
    let mut session = Session::new();
    let _ = session.home.ok(&["policy", "default", "deny"]);
    let _ = session.home.ok(&["policy", "allow", "ec?o"]);
    assert_eq!(
        (outcome(&mut session, 1, "drop"), outcome(&mut session, 2, "echo")),
        (Err("rules/deny".to_owned()), Ok(()))
    );
    let _ = session.home.ok(&["policy", "remove", "--default"]);
    let _ = session.home.ok(&["policy", "default", "ask", "--server", "fs"]);
    assert_eq!(outcome(&mut session, 3, "drop"), Err("ask-unavailable".to_owned()));
    let _ = session.home.ok(&["policy", "remove", "--default", "--server", "fs"]);
    assert_eq!(outcome(&mut session, 4, "drop"), Ok(()));
    // This session's agent is not known: it meets no rule that names one.
    let _ = session.home.ok(&["policy", "default", "deny", "--agent", "a"]);
    assert_eq!(outcome(&mut session, 5, "drop"), Ok(()));
    let _ = session.home.run(&["policy", "explain", "drop", "--agent", "a"]).exits(1);
    let _ = session.home.ok(&["policy", "explain", "drop", "--agent", "b"]);
    let _ = session.home.ok(&["policy", "remove", "--default", "--agent", "a"]);
    let _ = session.home.ok(&["policy", "explain", "drop", "--agent", "a"]);
    session.end();
}

#[test]
fn one_rule_a_tool_and_scope() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "x"]);
    let second = home.run(&["policy", "allow", "x"]).exits(2);
    assert!(second.stderr.contains("hint: ") && second.stdout.is_empty(), "{second:?}");
    let _ = home.ok(&["policy", "allow", "x", "--server", "fs"]);
    let _ = home.ok(&["policy", "allow", "x", "--agent", "a", "--server", "fs"]);
    let missing = home.run(&["policy", "remove", "y"]).exits(2);
    assert!(missing.stderr.starts_with("error: "), "{missing:?}");
    assert_eq!(home.ok(&["policy", "list"]).stdout, "deny x\nallow x (server fs)\nallow x (agent a, server fs)\n");
    let listed = home.ok(&["policy", "list", "--json"]).json();
    assert_eq!(listed["schema"], 1);
    assert_eq!(listed["rules"][2], json!({ "effect": "allow", "tool": "x", "agent": "a", "server": "fs" }));
    // Rules outlive the daemon, and can be read without one.
    home.stop_daemon();
    assert_eq!(home.ok(&["policy", "list", "--json"]).json(), listed);
    assert!(home.daemons().is_empty());
    // A rule is removed by its own scope and no other.
    let _ = home.run(&["policy", "remove", "x", "--agent", "a"]).exits(2);
    let _ = home.ok(&["policy", "remove", "x", "--server", "fs"]);
    assert_eq!(home.ok(&["policy", "list"]).stdout, "deny x\nallow x (agent a, server fs)\n");
    let _ = home.ok(&["policy", "remove", "x", "--agent", "a", "--server", "fs"]);
    assert_eq!(home.ok(&["policy", "list"]).stdout, "deny x\n");
    let refused = home.run(&["policy", "deny", ""]).exits(2);
    assert!(refused.stderr.contains("does not take this rule"), "{refused:?}");
}

#[test]
fn what_is_wrong_with_a_command_is_said_and_exits_2() {
    let home = Home::new();
    let wrong: [&[&str]; 12] = [
        &[],
        &["no-such-command"],
        &["policy", "deny"],
        &["policy", "deny", "x", "--server", "not a name"],
        &["policy", "deny", "x", "--agent", "*"],
        &["policy", "default", "perhaps"],
        &["policy", "remove"],
        &["policy", "remove", "x", "--default"],
        &["policy", "explain", "x", "--args", "not json"],
        &["verify", "--expect-head", "zz"],
        &["log", "--decision", "maybe"],
        &["run", "--server", "fs"],
    ];
    for arguments in wrong {
        let told = home.run(arguments).exits(2);
        assert!(told.stdout.is_empty() && !told.stderr.is_empty(), "{arguments:?}: {told:?}");
    }
    home.stop_daemon();
    home.configure("defualt: deny");
    // The daemon tells of it through its log.
    for command in [&["run", "--server", "fs", "--", "true"][..], &["policy", "deny", "x"], &["daemon", "start"]] {
        let told = home.run(command).exits(2);
        assert!(told.stderr.contains("defualt") && told.stderr.contains("hint: did you mean default?"), "{told:?}");
    }
}

#[test]
fn a_daemon_that_does_not_start_is_not_blamed_for_an_earlier_failure() {
    let home = Home::configured("defualt: deny");
    let _ = home.run(&["daemon", "start"]).exits(2);
    home.configure("default: maybe");
    let told = callgate_tests::command::Finished::of(home.prepare(&["daemon", "start"]).env("CALLGATE_LOG", "off"));
    assert!(told.stderr.starts_with("error: the daemon did not start\nhint: see "), "{told:?}");
}

#[test]
fn explain_says_what_the_daemon_would_decide_and_exits_1_for_a_refusal() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "write_*"]);
    let _ = home.ok(&["policy", "allow", "write_file", "--server", "fs"]);
    let _ = home.ok(&["policy", "ask", "drop"]);
    let _ = home.ok(&["policy", "allow", "drop", "--agent", "boss"]);
    let explain = |code: i32, arguments: &[&str]| {
        let explained = home.run(&[&["policy", "explain", "--json"], arguments].concat()).exits(code).json();
        assert_eq!(explained["schema"], 1);
        (explained["verdict"].clone(), explained["rule"]["text"].clone())
    };
    assert_eq!(explain(1, &["write_file"]), (json!("deny"), json!("deny write_*")));
    assert_eq!(explain(0, &["write_file", "--server", "fs"]).0, "allow");
    assert_eq!(explain(1, &["drop", "--args", r#"{"path":"/x"}"#]), (json!("ask"), json!("ask drop")));
    assert_eq!(explain(0, &["drop", "--agent", "boss"]).0, "allow");
    assert_eq!(explain(0, &["unnamed"]).0, "allow");
    let text = home.run(&["policy", "explain", "write_file"]).exits(1).stdout;
    assert!(text.contains("deny") && text.contains("write_*"), "{text}");
    assert!(home.decisions().is_empty(), "nobody called anything");

    // The same decision as a real call's, of what no real call can be as well.
    let mut session = Session::within(home);
    assert_eq!(outcome(&mut session, 1, "drop"), Err("ask-unavailable".to_owned()));
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(128), "]".repeat(128));
    for (arguments, code) in [(r#"{"a":1,"a":2}"#, "repeated-key"), (&*deep, "too-deep")] {
        let told = session.home.run(&["policy", "explain", "echo", "--args", arguments]).exits(2);
        assert!(told.stderr.contains("is refused before any policy sees it") && told.stdout.is_empty(), "{told:?}");
        assert!(told.stderr.contains(&format!("({code})")), "{told:?}");
        session.send_line(call("2", "echo", arguments));
        assert_eq!(session.answer(&json!(2))["error"]["data"]["code"], code);
    }
    session.end();
}

#[test]
fn the_log_shows_what_is_asked_for() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "drop"]);
    let mut one = home.relay("one").start(relay::fixture(&home.path().join("received-one")));
    let mut two = home.relay("two").start(relay::fixture(&home.path().join("received-two")));
    for id in 0..3 {
        one.call(&id.to_string(), "echo", r#"{"message":"m"}"#);
        two.call(&id.to_string(), "drop", r#"{"table":"users"}"#);
    }
    let large = format!(r#"{{"message":"{}"}}"#, "x".repeat(4 << 20));
    let refused = one.call("\"large\"", "echo", &large);
    assert_eq!(refused["result"]["_meta"]["dev.callgate/decision"]["code"], "call-too-large");
    assert_eq!((one.close().code(), two.close().code()), (0, 0));
    wait::until_true("both ends", || home.entries().iter().filter(|entry| entry.kind == "session.end").count() == 2);

    let log = |arguments: &[&str]| home.ok(&[&["log", "--json"], arguments].concat()).json_lines();
    let all = log(&["-n", "0"]);
    let numbers: Vec<u64> = all.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=u64::try_from(all.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(all.len(), home.entries().len());
    assert!(all.iter().all(|entry| entry["schema"] == 1));
    assert_eq!(log(&["-n", "2"]), all[all.len() - 2..]);
    assert_eq!(log(&["--after", &numbers[numbers.len() - 3].to_string()]), all[all.len() - 2..]);
    let tools = |entries: Vec<Value>| -> Vec<Value> {
        entries
            .iter()
            .filter(|entry| entry["kind"] == "call.decision")
            .map(|entry| entry["body"]["tool"].clone())
            .collect()
    };
    assert_eq!(
        tools(log(&["-n", "0", "--server", "one"])),
        [json!("echo"), json!("echo"), json!("echo"), json!("echo")]
    );
    assert_eq!(tools(log(&["-n", "0", "--tool", "drop"])).len(), 3);
    assert_eq!(tools(log(&["-n", "0", "--decision", "denied"])).len(), 3);
    assert_eq!(tools(log(&["-n", "0", "--decision", "allowed"])).len(), 3);
    let errors = log(&["-n", "0", "--decision", "error"]);
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((&error["body"]["decision"], &error["body"]["code"]), (&json!("error"), &json!("call-too-large")));

    let text = home.ok(&["log", "--tool", "drop"]).stdout;
    assert!(text.lines().count() >= 3 && text.contains("denied") && text.contains("drop"), "{text}");
}

#[test]
fn the_log_shows_the_newest_50_unless_told_otherwise() {
    let mut session = Session::new();
    for id in 0..60 {
        assert_eq!(outcome(&mut session, id, "echo"), Ok(()));
    }
    let home = session.end();
    home.stop_daemon();
    let all = home.ok(&["log", "-n", "0"]).stdout;
    let newest: Vec<_> = all.lines().skip(all.lines().count() - 50).collect();
    assert_eq!(home.ok(&["log"]).stdout.lines().collect::<Vec<_>>(), newest);
}

#[test]
fn the_log_goes_on_as_entries_are_written_and_survives_the_daemon() {
    let mut session = Session::new();
    assert_eq!(outcome(&mut session, 1, "echo"), Ok(()));
    let last = session.home.entries().last().unwrap().seq;
    let mut following = session
        .home
        .prepare(&["log", "--follow", "--json", "--tool", "echo", "--after", &last.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    // A tool's outcomes are its entries as well.
    let mut next = || -> Value {
        let mut entries = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        entries.find(|entry| entry["kind"] == "call.decision").unwrap()
    };
    for id in 2..5 {
        assert_eq!(outcome(&mut session, id, "echo"), Ok(()));
        assert_eq!(next()["body"]["request_id"], id.to_string());
    }
    session.home.stop_daemon();
    wait::until_true("the next daemon", || outcome(&mut session, 9, "echo").is_ok());
    assert_eq!(next()["body"]["request_id"], "9");
    following.kill().unwrap();
    following.wait().unwrap();
    session.end();
}

#[test]
fn verify_proves_the_chain_and_finds_a_head_in_it() {
    let home = Home::new();
    let empty = home.run(&["verify"]);
    assert_eq!(empty.code, Some(3), "there is nothing to verify: {empty:?}");
    let mut session = Session::within(home);
    assert_eq!(outcome(&mut session, 1, "echo"), Ok(()));
    let proved = session.home.ok(&["verify", "--json"]).json();
    assert_eq!(proved["schema"], 1);
    let head = proved["head"].as_str().unwrap().to_owned();
    assert_eq!(head.len(), 64);
    assert_eq!(outcome(&mut session, 2, "echo"), Ok(()));
    // A journal that has grown is no accusation.
    let _ = session.home.ok(&["verify", "--expect-head", &head]);
    is_sound(&session.home);
    let foreign = session.home.run(&["verify", "--expect-head", &"0".repeat(64)]).exits(1);
    assert!(!format!("{}{}", foreign.stdout, foreign.stderr).is_empty());
    let text = session.home.ok(&["verify"]).stdout;
    assert!(!text.to_lowercase().contains("tamper"), "{text}");
    session.end();
}

#[test]
fn verify_finds_a_changed_byte() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "a-tool-that-is-easy-to-find"]);
    home.stop_daemon();
    let mut database = std::fs::read(home.database()).unwrap();
    let needle = br#""deny","tool":"a-tool-that-is-easy-to-find""#;
    let at: Vec<usize> = (0..database.len() - needle.len()).filter(|&at| database[at..].starts_with(needle)).collect();
    assert!(!at.is_empty(), "the rule's entry is not in the file");
    for at in at {
        database[at + 17] ^= 1;
    }
    std::fs::write(home.database(), database).unwrap();
    let broken = home.run(&["verify"]).exits(1);
    assert!(format!("{}{}", broken.stdout, broken.stderr).contains("entry"), "{broken:?}");
}

#[test]
fn the_daemon_starts_stops_and_says_how_it_is() {
    let home = Home::new();
    let absent = home.run(&["daemon", "status"]).exits(3);
    assert!(!format!("{}{}", absent.stdout, absent.stderr).is_empty());
    let first = home.start_daemon();
    let _ = home.ok(&["daemon", "start"]);
    assert_eq!(home.daemon_pid(), Some(first), "one that runs is left alone");
    let status = home.ok(&["daemon", "status", "--json"]).json();
    assert_eq!(
        (&status["schema"], &status["build"], &status["sessions"]),
        (&json!(1), &json!(callgate::BUILD), &json!(0))
    );
    let mut session = Session::within(home);
    assert_eq!(outcome(&mut session, 1, "echo"), Ok(()));
    let status = session.home.ok(&["status", "--json"]).json();
    let open = &status["open_sessions"][0];
    assert_eq!((&status["sessions"], &open["server"], &open["agent"]), (&json!(1), &json!("fs"), &Value::Null));
    let text = session.home.ok(&["status"]).stdout;
    let line = format!("; pid {}, for ", open["pid"]);
    assert!(text.contains("sessions: 1\n  fs: agent not known: ") && text.contains(&line), "{text}");
    let _ = session.home.ok(&["daemon", "restart"]);
    let second = session.home.daemon_pid().unwrap();
    assert_ne!(first, second);
    let home = session.end();
    home.stop_daemon();
    let _ = home.run(&["daemon", "status"]).exits(3);
    let again = home.run(&["daemon", "stop"]);
    assert!(matches!(again.code, Some(0 | 3)), "{again:?}");
    is_sound(&home);
}

#[test]
fn version_tells_the_build() {
    let home = Home::new();
    let version = home.ok(&["version", "--json"]).json();
    assert_eq!((&version["schema"], &version["build"]), (&json!(1), &json!(callgate::BUILD)));
    assert!(home.ok(&["version"]).stdout.contains(callgate::BUILD));
    assert!(home.ok(&["--version"]).stdout.contains(callgate::BUILD));
}

#[test]
fn the_demo_shows_the_main_job_and_leaves_nothing() {
    let home = Home::new();
    let shown = home.ok(&["demo"]);
    for word in ["allowed", "denied", "policy", "verif"] {
        assert!(shown.stdout.contains(word), "{word} is not in {}", shown.stdout);
    }
    assert!(home.processes().is_empty(), "{:?}", home.processes());
    assert!(!home.database().exists(), "the demo wrote into a home that is not its own");
}

#[test]
fn the_demo_says_when_something_is_off() {
    let home = Home::new();
    // No socket's path fits in there, so the demo's own daemon cannot be reached.
    let deep = home.path().join("x".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    let told = callgate_tests::command::Finished::of(home.prepare(&["demo"]).env("TMPDIR", &deep)).exits(1);
    assert!(told.stderr.contains("error: the demo is off: expected that "), "{told:?}");
    assert!(home.processes().is_empty(), "{:?}", home.processes());
    assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 0, "the demo left something behind");
}

#[test]
fn help_is_there_for_every_command() {
    let home = Home::new();
    for command in [
        &["--help"][..],
        &["run", "--help"],
        &["policy", "--help"],
        &["policy", "explain", "--help"],
        &["log", "--help"],
        &["verify", "--help"],
        &["daemon", "--help"],
    ] {
        let help = home.ok(command);
        assert!(help.stdout.contains("Usage: callgate"), "{help:?}");
    }
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::cold();
    home.start_daemon();
    let mut session = Session::within(home);
    assert_eq!(outcome(&mut session, 1, "echo"), Ok(()));
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let home = session.home.path().to_owned();
    for file in ["journal.db", "daemon.lock", "daemon.log", "install"] {
        assert_eq!(mode(home.join(file)), 0o600, "{file}");
    }
    for folder in ["run", "cache"] {
        assert_eq!(mode(home.join(folder)), 0o700, "{folder}");
    }
    session.end();
}

#[test]
fn a_broken_pipe_is_no_crash() {
    let mut session = Session::new();
    for id in 0..200 {
        assert_eq!(outcome(&mut session, id, "echo"), Ok(()));
    }
    let mut log = session
        .home
        .prepare(&["log", "-n", "0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(log.stdout.take());
    let mut stderr = String::new();
    log.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    log.wait().unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    session.send_line(call("\"last\"", "never", "{}"));
    session.settled();
    session.end();
}
