//! Registered servers: what is started for them, with which secrets, and what happens when those cannot be had.

use std::path::Path;
use std::process::{Command, Stdio};

use callgate_tests::command::Finished;
use callgate_tests::frame::call;
use callgate_tests::home::Home;
use callgate_tests::program;
use callgate_tests::relay::{Relay, fixture};
use serde_json::{Value, json};

mod secrets;
pub(crate) mod stores;

/// Runs a `callgate` command with something on stdin.
#[track_caller]
pub(crate) fn given(home: &Home, arguments: &[&str], input: &str) -> Finished {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), input).unwrap();
    let mut command = home.prepare(arguments);
    command.stdin(Stdio::from(file.reopen().unwrap()));
    Finished::of(&mut command)
}

/// Registers the fixture server, which dumps its surroundings to a file of the home.
#[track_caller]
fn register(home: &Home, name: &str, env: &[&str], input: &str) -> Finished {
    let dump = dump(home, name);
    let fixture = program::fixture();
    let mut arguments = vec!["server", "add", name];
    arguments.extend(env.iter().flat_map(|variable| ["--env", variable]));
    arguments.extend(["--", fixture.to_str().unwrap(), "--dump", dump.to_str().unwrap()]);
    given(home, &arguments, input)
}

fn dump(home: &Home, name: &str) -> std::path::PathBuf {
    home.path().join(format!("dump-{name}"))
}

/// What a variable was in the server's environment.
fn variable(home: &Home, server: &str, name: &str) -> Option<String> {
    let dumped = std::fs::read(dump(home, server)).unwrap();
    let parts = dumped.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    parts.filter_map(|part| part.strip_prefix(&format!("{name}=")).map(str::to_owned)).next_back()
}

/// Starts `callgate run --server NAME` without a command.
#[track_caller]
fn run(home: &Home, name: &str) -> Relay {
    Relay::of(&mut home.prepare(&["run", "--server", name]))
}

/// The answer of a relay whose server was not started.
#[track_caller]
fn declined(mut relay: Relay) -> (Value, String) {
    relay.send_line(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
    let answer = relay.answer(&json!(1));
    // Whatever else is asked is answered as well.
    relay.send_line(call("2", "echo", "{}"));
    assert_eq!(relay.answer(&json!(2))["error"]["code"], -31_002);
    let ended = relay.close();
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(answer["error"]["code"], -31_002, "{answer} {stderr}");
    (answer["error"].clone(), format!("{} {stderr}", ended.code()))
}

#[test]
fn a_registered_server_needs_no_command() {
    let home = Home::new();
    let added = register(&home, "fs", &[], "").exits(0);
    assert_eq!(added.stdout, "registered: fs (entry 2)\n");
    let mut relay = run(&home, "fs");
    assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
    assert_eq!(relay.close().code(), 0);
    let id = home.ok(&["server", "show", "fs", "--json"]).json()["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("srv_") && id.len() == 36, "{id}");
    assert_eq!(home.decisions()[0]["server"], json!({ "id": id, "name": "fs" }));
}

#[test]
fn the_clients_command_is_ignored_for_a_registered_server_and_said_so() {
    let home = Home::new();
    let _ = register(&home, "fs", &[], "").exits(0);
    let record = home.path().join("received");
    let mut relay = home.relay("fs").start(fixture(&record));
    let _ = relay.call("1", "echo", "{}");
    let ended = relay.close();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("notice: fs is a registered server"), "{stderr}");
    assert!(dump(&home, "fs").exists() && !record.exists(), "the client's own command was started");

    // The same command is no news.
    let (fixture, dump) = (program::fixture(), dump(&home, "fs"));
    let same = [fixture.as_os_str(), "--dump".as_ref(), dump.as_os_str()];
    let ended = home.relay("fs").start(same).close();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

#[test]
fn a_server_that_nobody_registered_keeps_its_command_and_waits_for_nothing() {
    let home = Home::new();
    let _ = register(&home, "other", &[], "").exits(0);
    let record = home.path().join("received");
    let mut relay = home.relay("fs").start(fixture(&record));
    let _ = relay.call("1", "echo", "{}");
    assert_eq!(relay.close().code(), 0);
    assert_eq!(home.decisions()[0]["server"], json!({ "id": "", "name": "fs" }));

    let (error, rest) = declined(run(&home, "nobody"));
    assert_eq!(error["data"]["code"], "server-unregistered");
    assert!(rest.starts_with("2 error: the server nobody is not started"), "{rest}");
}

#[test]
fn a_name_is_free_again_and_its_id_another() {
    let home = Home::new();
    let id = |home: &Home| home.ok(&["server", "show", "fs", "--json"]).json()["id"].clone();
    let _ = register(&home, "fs", &[], "").exits(0);
    let first = id(&home);
    let again = register(&home, "fs", &[], "").exits(2);
    assert!(again.stderr.contains("hint: remove it first: callgate server remove fs"), "{again:?}");
    assert_eq!(home.ok(&["server", "remove", "fs"]).stdout, "removed: fs (entry 3)\n");
    let missing = home.run(&["server", "remove", "fs"]).exits(2);
    assert!(missing.stderr.contains("no server named fs"), "{missing:?}");
    assert_eq!(home.ok(&["server", "list"]).stdout, "no servers are registered\n");
    let _ = register(&home, "fs", &[], "").exits(0);
    assert_ne!(id(&home), first);
    home.stop_daemon();
    let _ = home.ok(&["verify"]);
    let kinds: Vec<String> = home.entries().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, ["daemon.start", "server.add", "server.remove", "server.add", "daemon.stop"]);
}

#[test]
fn a_session_of_another_command_than_the_registered_one_gets_no_decision() {
    let home = Home::new();
    let record = home.path().join("received");
    let mut relay = home.relay("fs").start(fixture(&record));
    let _ = relay.call("1", "echo", "{}");
    let _ = register(&home, "fs", &[], "").exits(0);
    // It goes on as what it was when it began, until it has to be opened anew.
    assert_eq!(relay.call("2", "echo", "{}")["result"]["isError"], Value::Null);
    home.stop_daemon();
    home.start_daemon();
    let refused = loop {
        let answer = relay.call("3", "echo", "{}");
        let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].clone();
        if code != "daemon-lost" && code != "daemon-unreachable" {
            break code;
        }
    };
    assert_eq!(refused, "server-changed");
    let _ = relay.close();
}

#[test]
fn what_a_server_needs_is_not_asked_on_the_command_line() {
    let home = Home::new();
    let fixture = program::fixture();
    let program = fixture.to_str().unwrap();
    let value = home.run(&["server", "add", "fs", "--env", "TOKEN=hunter2", "--", program]).exits(2);
    assert!(
        value.stderr.contains("stdin") && !value.stderr.replace("'TOKEN=hunter2'", "").contains("hunter2"),
        "{value:?}"
    );
    let few = given(&home, &["server", "add", "fs", "--env", "A", "--env", "B", "--", program], "one\n").exits(2);
    assert!(few.stderr.contains("stdin has 1 lines, where 2 values are needed"), "{few:?}");
    let empty = given(&home, &["server", "add", "fs", "--env", "A", "--", program], "\n").exits(2);
    assert!(empty.stderr.contains("the value is empty"), "{empty:?}");
    assert_eq!(home.ok(&["server", "list"]).stdout, "no servers are registered\n");
}

/// A command of this machine, if it is there.
fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Whether a file holds these bytes.
fn holds(file: &Path, bytes: &[u8]) -> bool {
    std::fs::read(file).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes))
}
