//! Clients come and go; nothing is left of them.

use std::process::{Child, Command, Stdio};

use callgate_tests::frame::{call, line};
use callgate_tests::home::Home;
use callgate_tests::relay::{self, Relay};
use callgate_tests::session::Session;
use callgate_tests::{process, program, wait};
use rustix::process::Signal;

/// As many clients as are killed in one test.
const CLIENTS: usize = 100;
/// As many of them as live at one time.
const AT_ONCE: usize = 10;

/// A client process of its own, which holds the only other ends of its relay's pipes, as real clients do.
fn client(home: &Home, server: &[&str], calls: &[u8]) -> Child {
    let mut command = Command::new(program::tap());
    command.arg(home.path().join("tap")).args(home.relay("fs").command_line(server));
    command.env("CALLGATE_HOME", home.path()).env("FIXTURE", program::fixture());
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(client.stdin.as_mut().unwrap(), calls).unwrap();
    client
}

#[test]
fn a_hundred_killed_clients_leave_no_process_and_no_descriptor() {
    let home = Home::new();
    let daemon = home.start_daemon();
    // One session that stays, so that what the daemon keeps for one is there before and after.
    let mut staying = home.relay("fs").start(relay::fixture(&home.path().join("received")));
    staying.settled();
    let before = process::descriptors(daemon);
    let servers: [&[&str]; 4] = [
        &["sh", "-c", "exec \"$FIXTURE\""],
        &["sh", "-c", "\"$FIXTURE\"; exit"],
        &["sh", "-c", "exec \"$FIXTURE\" --ignore-eof"],
        &["sh", "-c", "trap '' TERM HUP; \"$FIXTURE\" --ignore-eof; exit"],
    ];
    let calls: Vec<u8> = ["never", "echo", "grandchild"]
        .iter()
        .enumerate()
        .flat_map(|(id, tool)| line(call(&id.to_string(), tool, "{}")))
        .collect();
    for round in 0..CLIENTS / AT_ONCE {
        let mut clients: Vec<Child> =
            (0..AT_ONCE).map(|number| client(&home, servers[(round + number) % servers.len()], &calls)).collect();
        // Some are killed in the middle of a call, some before their relay was up.
        if round % 2 == 0 {
            wait::until_true("every client's call in the journal", || {
                home.entries().iter().filter(|entry| entry.kind == "call.decision").count()
                    > round / 2 * 3 * AT_ONCE + 3 * AT_ONCE
            });
        }
        for client in &mut clients {
            client.kill().unwrap();
            client.wait().unwrap();
        }
    }
    wait::until("the end of everything but the daemon and the session that stays", || {
        let left = home.processes();
        left.iter().all(|process| process.pid == daemon || is_of(&staying, process.pid)).then_some(())
    });
    wait::until_true("the daemon's descriptors to be what they were", || process::descriptors(daemon) == before);
    assert_eq!(home.daemon_pid(), Some(daemon));
    staying.settled();
    assert_eq!(staying.close().code(), 0);
    wait::until("the end of every session in the journal", || {
        let entries = home.entries();
        let count = |kind: &str| entries.iter().filter(|entry| entry.kind == kind).count();
        (count("session.start") == count("session.end")).then_some(())
    });
}

fn is_of(relay: &Relay, pid: u32) -> bool {
    if pid == relay.pid() {
        return true;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok()) == Some(relay.pid())
}

#[test]
fn a_session_costs_the_daemon_nothing_once_it_is_over() {
    let home = Home::new();
    let daemon = home.start_daemon();
    let one = |number: u32| {
        let mut relay = home.relay("fs").start(relay::fixture(&home.path().join("received")));
        relay.call(&number.to_string(), "echo", "{}");
        assert_eq!(relay.close().code(), 0);
    };
    one(0);
    wait::until_true("the first session's end", || home.entries().iter().any(|entry| entry.kind == "session.end"));
    let descriptors = process::descriptors(daemon);
    (1..30).for_each(one);
    wait::until_true("the daemon's descriptors to be what they were", || process::descriptors(daemon) <= descriptors);
}

#[test]
fn wrappers_around_the_relay_are_looked_through() {
    let home = Home::new();
    let gate = home.relay("fs").command_line(relay::fixture(&home.path().join("received")));
    let quoted: Vec<String> = gate.iter().map(|part| format!("'{}'", part.to_str().unwrap())).collect();
    for script in [
        format!("exec {}", quoted.join(" ")),
        format!("{}; exit $?", quoted.join(" ")),
        format!("env X=1 sh -c \"{}\"", quoted.join(" ")),
    ] {
        let mut client = Relay::of(Command::new("sh").args(["-c", &script]).env("CALLGATE_HOME", home.path()));
        client.settled();
        client.send_line(call("1", "exit", r#"{"code":7}"#));
        assert_eq!(client.wait().code(), 7, "{script}");
    }
    // Killed wrappers leave nothing either.
    let script = format!("{}; exit", quoted.join(" "));
    let mut client = Relay::of(Command::new("sh").args(["-c", &script]).env("CALLGATE_HOME", home.path()));
    client.settled();
    client.signal(Signal::KILL);
    drop(client);
    home.wait_until_quiet();
}

#[test]
fn sessions_of_several_servers_are_told_apart() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "drop", "--server", "one"]);
    let record = |name: &str| home.path().join(format!("received-{name}"));
    let mut one = home.relay("one").start(relay::fixture(&record("one")));
    let mut two = home.relay("two").start(relay::fixture(&record("two")));
    assert_eq!(one.call("1", "drop", "{}")["result"]["isError"], true);
    assert_eq!(two.call("1", "drop", "{}")["result"]["content"][0]["text"], "dropped");
    assert_eq!((one.close().code(), two.close().code()), (0, 0));
    let decided: Vec<_> = home
        .decisions()
        .iter()
        .map(|decision| (decision["server"]["name"].clone(), decision["decision"].clone()))
        .collect();
    assert_eq!(decided, [("one".into(), "denied".into()), ("two".into(), "allowed".into())]);
}

#[test]
fn a_claimed_agent_is_recorded_and_believed_by_no_rule() {
    let home = Home::new();
    let _ = home.ok(&["policy", "default", "deny"]);
    let _ = home.ok(&["policy", "allow", "echo", "--agent", "claude"]);
    let mut relay =
        home.relay("fs").option("--agent").option("claude").start(relay::fixture(&home.path().join("received")));
    assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], true, "a claim is no evidence");
    assert_eq!(relay.close().code(), 0);
    let start = home.entry("the session's start", |entry| entry.kind == "session.start");
    assert_eq!(start.body["claim"], "claude");
    assert!(home.decisions().iter().all(|decision| decision.get("agent").is_none()));
}

#[test]
fn an_idle_relay_and_daemon_do_nothing() {
    let mut session = Session::new();
    session.settled();
    let (daemon, relay) = (session.home.daemon_pid().unwrap(), session.pid());
    // A process that waits for events is in state S, whenever one looks.
    let state = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().rsplit_once(") ").unwrap().1.chars().next()
    };
    for pid in [daemon, relay] {
        wait::until_true("the process to sleep", || state(pid) == Some('S'));
    }
    session.end();
}
