//! Traps 38 to 45: the server is a process, and so is the relay.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use callgate_tests::frame::{call, line, ping};
use callgate_tests::home::Home;
use callgate_tests::process;
use callgate_tests::program;
use callgate_tests::relay::{self, Relay};
use callgate_tests::session::Session;
use callgate_tests::wait;
use rustix::process::Signal;
use serde_json::json;

#[test]
fn trap_38_a_client_that_is_done_ends_the_server_after_its_last_words() {
    let home = Home::new();
    let record = home.path().join("received");
    let mut server = relay::fixture(&record);
    server.extend(["--farewell", r#"{"jsonrpc":"2.0","method":"notifications/farewell"}"#].map(Into::into));
    let mut relay = home.relay("fs").start(server);
    relay.settled();
    let ended = relay.close();
    assert_eq!(ended.code(), 0);
    let lines: Vec<_> = ended.lines.iter().map(|line| relay::json(line)["method"].clone()).collect();
    assert_eq!(lines, ["notifications/farewell"]);
    home.wait_until_quiet();
}

#[test]
fn trap_38_a_server_that_ignores_the_end_is_ended() {
    let home = Home::new();
    let record = home.path().join("received");
    let mut server = relay::fixture(&record);
    server.push("--ignore-eof".into());
    let mut relay = home.relay("fs").start(server);
    relay.settled();
    assert_eq!(relay.close().code(), 128 + 15, "the server's end by SIGTERM is told as it is");
    home.wait_until_quiet();
}

#[test]
fn trap_38_a_server_that_ignores_that_too_is_killed_with_all_it_started() {
    let home = Home::new();
    let record = home.path().join("received");
    let log = home.path().join("log");
    let script = r#"
        trap 'echo TERM >>"$LOG"' TERM
        "$FIXTURE" --record "$RECORD"
        echo EOF >>"$LOG"
        while :; do sleep 1 & wait $!; done
    "#;
    let mut relay = home
        .relay("fs")
        .env("LOG", &log)
        .env("FIXTURE", program::fixture())
        .env("RECORD", &record)
        .start(["sh", "-c", script]);
    relay.settled();
    assert_eq!(relay.close().code(), 128 + 9);
    assert_eq!(fs::read_to_string(&log).unwrap(), "EOF\nTERM\n", "first it was asked to go");
    home.wait_until_quiet();
}

#[test]
fn trap_39_the_servers_exit_status_is_the_relays() {
    for code in [0, 1, 7, 255] {
        let mut session = Session::new();
        session.settled();
        session.send_line(call("1", "exit", &format!(r#"{{"code":{code}}}"#)));
        let (home, relay) = session.split();
        let ended = relay.wait();
        assert_eq!((ended.code(), ended.lines.len()), (code, 0), "nobody answers for a server that is gone");
        let open = home
            .entry("the open call's outcome", |entry| entry.kind == "call.outcome" && entry.body["outcome"] == "error");
        assert!(open.seq > 0);
        home.entry("the session's end", |entry| entry.kind == "session.end" && entry.body["how"] == "server-exited");
    }
    for (name, number) in [("KILL", 9), ("TERM", 15), ("ABRT", 6)] {
        let mut session = Session::new();
        session.settled();
        session.send_line(call("1", "die", &format!(r#"{{"signal":"{name}"}}"#)));
        let (_home, relay) = session.split();
        assert_eq!(relay.wait().code(), 128 + number, "SIG{name}");
    }
}

#[test]
fn trap_39_a_server_that_cannot_be_started_is_told_like_a_shell_does() {
    let home = Home::new();
    let not_executable = home.path().join("not-executable");
    fs::write(&not_executable, "no program").unwrap();
    for (command, code) in [
        (OsStr::new("/no/such/program"), 127),
        (OsStr::new("no-such-program-at-all"), 127),
        (not_executable.as_os_str(), 126),
        (home.path().as_os_str(), 126),
    ] {
        let ended = home.relay("fs").start([command]).close();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.code(), code, "{command:?}: {stderr}");
        assert!(ended.lines.is_empty(), "stdout is MCP and nothing else");
        assert_eq!(stderr.lines().filter(|line| !line.starts_with("hint: ")).count(), 1, "{stderr}");
        assert!(stderr.contains(&*command.to_string_lossy()), "{stderr}");
    }
}

#[test]
fn trap_40_the_servers_stderr_passes_untouched_and_alone() {
    let home = Home::new();
    let text = OsString::from_vec(b"one line\nno \xff UTF-8, no line feed".to_vec());
    let mut server = relay::fixture(&home.path().join("received"));
    server.extend(["--stderr".into(), text.clone()]);
    let mut relay = home.relay("fs").start(server);
    relay.settled();
    let ended = relay.close();
    assert_eq!(ended.stderr, text.as_bytes());
}

#[test]
fn trap_41_signals_reach_the_server_and_all_it_started() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::HUP, 1)] {
        let mut session = Session::new();
        let grandchild = session.call("1", "grandchild", "{}")["result"]["content"][0]["text"].clone();
        let grandchild: u32 = grandchild.as_str().unwrap().parse().unwrap();
        assert!(process::lives(grandchild));
        session.signal(signal);
        let (home, relay) = session.split();
        assert_eq!(relay.wait().code(), 128 + number);
        wait::until_true("the grandchild's end", || !process::lives(grandchild));
        home.wait_until_quiet();
        home.entry("the session's end", |entry| entry.kind == "session.end" && entry.body["how"] == "signal");
    }
}

#[test]
fn trap_41_a_killed_relay_leaves_no_server() {
    let home = Home::new();
    // The server itself goes whatever it does; what it started goes because its input ends.
    for server in ["exec \"$FIXTURE\" --ignore-eof", "\"$FIXTURE\"; exit", "\"$FIXTURE\" | cat"] {
        let mut relay = home.relay("fs").env("FIXTURE", program::fixture()).start(["sh", "-c", server]);
        relay.settled();
        relay.kill();
        home.wait_until_quiet();
    }
}

#[test]
fn trap_41_a_relay_that_is_killed_before_its_server_runs_leaves_none() {
    let home = Home::new();
    home.start_daemon();
    for _ in 0..20 {
        let relay = home.relay("fs").start(["sh", "-c", "trap '' TERM; exec sleep 1000"]);
        relay.kill();
    }
    home.wait_until_quiet();
}

#[test]
fn trap_42_a_client_that_is_gone_ends_the_session() {
    let home = Home::new();
    let mut relay = home.relay("fs").unread().start(relay::fixture(&home.path().join("received")));
    relay.send_line(call("1", "flood", r#"{"frames":100000,"bytes":10000}"#));
    relay.close_stdout();
    // Its stdin stays open: only the broken pipe tells.
    let stdin = relay.take_stdin();
    let ended = relay.wait();
    assert!([0, 128 + 13, 128 + 15].contains(&ended.code()), "{ended:?}");
    drop(stdin);
    home.wait_until_quiet();
}

#[test]
fn trap_43_arguments_environment_and_folder_pass_unchanged() {
    let home = Home::new();
    let folder = home.path().join("a folder");
    fs::create_dir(&folder).unwrap();
    let dump = home.path().join("dump");
    let odd = ["", " ", "two words", "$HOME", "*", "a\nb", "'\"\\", "--server", "--", "-x", "é🦀"].map(OsString::from);
    let odd = odd.into_iter().chain([OsString::from_vec(b"\xff\xfe".to_vec())]);
    let server: Vec<OsString> =
        [program::fixture().into(), "--dump".into(), dump.clone().into()].into_iter().chain(odd).collect();
    let value = OsString::from_vec(b"v \xff\n".to_vec());
    let launch = |relay: callgate_tests::relay::Launch| relay.current_dir(&folder).env("ODD", &value).env("EMPTY", "");

    let relay = launch(home.relay("fs")).start(&server);
    assert_eq!(relay.close().code(), 0);
    let through_gate = fs::read(&dump).unwrap();
    fs::remove_file(&dump).unwrap();

    let mut direct = std::process::Command::new(&server[0]);
    direct
        .args(&server[1..])
        .current_dir(&folder)
        .env("ODD", &value)
        .env("EMPTY", "")
        .env("CALLGATE_HOME", home.path())
        .env_remove("CALLGATE_LOG");
    assert_eq!(Relay::of(&mut direct).close().code(), 0);
    assert_eq!(parts(&through_gate), parts(&fs::read(&dump).unwrap()));
}

/// A dump's parts as text, the environment sorted.
fn parts(dump: &[u8]) -> Vec<String> {
    let mut parts: Vec<String> = dump.split(|&byte| byte == 0).map(|part| part.escape_ascii().to_string()).collect();
    parts.sort();
    parts
}

#[test]
fn trap_43_a_command_is_found_like_the_client_would_find_it() {
    let home = Home::new();
    let folder = home.path().join("bin");
    fs::create_dir(&folder).unwrap();
    let script = folder.join("my-server");
    fs::write(&script, "#!/bin/sh\nexec \"$FIXTURE\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    for (name, directory) in
        [("my-server", Path::new("/")), ("./my-server", folder.as_path()), (script.to_str().unwrap(), Path::new("/"))]
    {
        let launch = home.relay("fs").env("PATH", &path).env("FIXTURE", program::fixture()).current_dir(directory);
        let mut relay = launch.start([name]);
        relay.settled();
        assert_eq!(relay.close().code(), 0);
    }
}

#[test]
fn trap_44_what_is_sent_before_the_server_is_up_is_not_lost() {
    // No daemon runs and nothing is compiled yet: the first calls of a new install are decided, not refused.
    let home = Home::cold();
    let record = home.path().join("received");
    let script = r#"sleep 0.5; exec "$FIXTURE" --record "$RECORD""#;
    let launch = home.relay("fs").env("FIXTURE", program::fixture()).env("RECORD", &record);
    let mut relay = launch.start(["sh", "-c", script]);
    let frames = [ping("1"), call("2", "echo", r#"{"message":"early"}"#), call("3", "echo", r#"{"message":"too"}"#)];
    relay.send(frames.iter().flat_map(line).collect::<Vec<u8>>());
    assert_eq!(relay.answer(&json!(3))["result"]["content"][0]["text"], "too");
    assert_eq!(relay::recorded(&record), frames.iter().flat_map(line).collect::<Vec<u8>>());
    assert_eq!(relay.close().code(), 0);
}

#[test]
fn trap_45_the_gate_says_nothing_of_its_own_to_the_server() {
    let session = Session::new();
    session.home.entry("the session's start", |entry| entry.kind == "session.start");
    let (home, ended) = session.close();
    assert!(ended.lines.is_empty() && ended.code() == 0);
    assert_eq!(relay::recorded(&home.path().join("received")), b"");

    // And what the server says to the client's own question about its era passes as it is.
    let mut session = Session::within(home);
    let question = r#"{"jsonrpc":"2.0","id":"era","method":"server/discover","params":{}}"#;
    session.send_line(question);
    session.send_line(r#"{"jsonrpc":"2.0","id":2,"method":"no/such","params":{}}"#);
    assert_eq!(session.message()["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(
        session.next_line().unwrap(),
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32601,\"message\":\"method not found\"}}\n"
    );
    session.end();
}
