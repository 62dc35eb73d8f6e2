//! The daemon is not there, does not answer, dies, or is another build's.

use std::fs;
use std::io::{Read, Write};

use callgate_tests::frame::line;
use callgate_tests::home::Home;
use callgate_tests::interposer::{Fate, Interposer, Message};
use callgate_tests::journal;
use callgate_tests::process;
use callgate_tests::relay;
use callgate_tests::session::Session;
use callgate_tests::wait;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{passes, reached, recovers, refused_with};

#[test]
fn without_a_daemon_the_server_starts_and_lists_and_every_call_is_refused() {
    let home = Home::new();
    // Somebody holds the lock and listens nowhere: no daemon can be started.
    let lock = fs::File::create(home.path().join("daemon.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    home.configure("relay: { decision_deadline: 3s }");
    let mut session = Session::within(home);
    session.send_line(r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}"#);
    assert_eq!(session.answer(&json!("i"))["result"]["serverInfo"]["name"], "fixture");
    session.send_line(r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#);
    assert_eq!(session.answer(&json!("l"))["result"]["tools"].as_array().unwrap().len(), 3);
    let answer = refused_with(&mut session, 1, "daemon-unreachable");
    let decision = &answer["result"]["_meta"]["dev.callgate/decision"];
    assert_eq!(
        (&decision["entry"], &decision["retry"]),
        (&json!(null), &json!("later")),
        "nobody could write an entry"
    );
    assert!(!callgate_tests::session::contains(&session.received(), b"tools/call"));

    drop(lock);
    recovers(&mut session, 2);
    session.home.anomaly("daemon-unreachable");
    let (home, ended) = session.close();
    assert_eq!(ended.code(), 0);
    home.wait_until_quiet();
}

#[test]
fn a_socket_path_that_is_too_long_is_told_and_refuses_every_call() {
    let home = Home::new();
    let deep = home.path().join("x".repeat(120));
    fs::create_dir(&deep).unwrap();
    fs::set_permissions(&deep, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let deep = Home::at(&deep);
    for command in [&["daemon", "start"][..], &["policy", "deny", "x"]] {
        let told = deep.run(command).exits(3);
        assert!(told.stderr.contains("socket") && told.stderr.contains("hint: ") && told.stdout.is_empty(), "{told:?}");
    }
    deep.configure("relay: { decision_deadline: 3s }");
    let mut session = Session::within(deep);
    refused_with(&mut session, 1, "daemon-unreachable");
    let deep = session.end();

    // The same home by a shorter name.
    let short = home.path().join("short");
    std::os::unix::fs::symlink(deep.path(), &short).unwrap();
    let short = Home::at(&short);
    short.start_daemon();
    let mut session = Session::within(short);
    passes(&mut session, 1);
    session.end();
    drop(deep);
    drop(home);
}

#[test]
fn a_slow_daemon_is_not_waited_for_and_its_late_answer_releases_nothing() {
    let mut session = Session::within(Home::configured("relay: { decision_deadline: 3s }"));
    session.settled();
    let daemon = session.home.daemon_pid().unwrap();
    process::signal(daemon, Signal::STOP);
    let answer = refused_with(&mut session, 1, "daemon-slow");
    assert_eq!(answer["result"]["_meta"]["dev.callgate/decision"]["retry"], "later");
    process::signal(daemon, Signal::CONT);
    recovers(&mut session, 2);
    assert!(!reached(&session.received(), 1), "the late permit released the call");
    session.home.anomaly("daemon-slow");
    session.end();
}

#[test]
fn a_daemon_that_dies_refuses_what_it_had_not_decided_and_the_next_one_takes_over() {
    let mut session = Session::within(Home::configured("relay: { decision_deadline: 50s }"));
    passes(&mut session, 1);
    let daemon = session.home.daemon_pid().unwrap();
    process::signal(daemon, Signal::STOP);
    session.send_line(callgate_tests::frame::call("2", "echo", r#"{"message":"m"}"#));
    session.all_read();
    session.home.kill_daemon(daemon);
    let answer = session.answer(&json!(2));
    assert_eq!(answer["result"]["_meta"]["dev.callgate/decision"]["code"], "daemon-lost", "{answer}");
    recovers(&mut session, 3);
    assert!(!reached(&session.received(), 2));

    let entries = session.home.entries();
    let sessions: Vec<_> = entries.iter().filter(|entry| entry.kind == "session.start").collect();
    assert_eq!(sessions.len(), 2, "one session, opened with two daemons");
    assert_eq!(sessions[0].body["session"], sessions[1].body["session"], "a session keeps its id over a restart");
    assert_eq!((&sessions[0].body["resumed"], &sessions[1].body["resumed"]), (&json!(false), &json!(true)));
    assert_ne!(session.home.daemon_pid(), Some(daemon));
    session.home.anomaly("daemon-lost");
    let _ = session.home.ok(&["verify"]);
    session.end();
}

#[test]
fn a_daemon_that_stops_in_good_order_is_started_again_when_it_is_needed() {
    let mut session = Session::new();
    passes(&mut session, 1);
    session.home.stop_daemon();
    let id = recovers(&mut session, 2).to_string();
    let decisions = session.home.decisions();
    assert!(decisions.iter().any(|decision| decision["request_id"] == id.as_str()));
    let kinds: Vec<_> = session.home.entries().into_iter().map(|entry| entry.kind).collect();
    assert!(kinds.iter().any(|kind| kind == "daemon.stop"), "{kinds:?}");
    session.end();
}

#[test]
fn a_second_daemon_is_refused_and_disturbs_nothing() {
    let mut session = Session::new();
    passes(&mut session, 1);
    let daemon = session.home.daemon_pid().unwrap();
    let told = session.home.run(&["daemon", "serve"]).exits(3);
    assert!(told.stderr.contains(&daemon.to_string()), "{told:?}");
    assert_eq!(told.stderr.matches("another daemon").count(), 1, "{told:?}");
    let _ = session.home.ok(&["daemon", "start"]);
    assert_eq!(session.home.daemon_pid(), Some(daemon));
    passes(&mut session, 2);
    session.end();
}

#[test]
fn racing_relays_start_one_daemon() {
    let home = Home::new();
    let mut relays: Vec<_> = (0..8)
        .map(|number| home.relay("fs").start(relay::fixture(&home.path().join(format!("received-{number}")))))
        .collect();
    for relay in &mut relays {
        passes(relay, 1);
    }
    assert_eq!(home.daemons().len(), 1, "{:?}", home.processes());
    assert_eq!(home.entries().iter().filter(|entry| entry.kind == "daemon.start").count(), 1);
    for relay in relays {
        assert_eq!(relay.close().code(), 0);
    }
}

#[test]
fn a_daemon_whose_socket_is_gone_stops_and_the_next_one_takes_over() {
    let mut session = Session::new();
    passes(&mut session, 1);
    let first = session.home.daemon_pid().unwrap();
    // As when the folder of a user's login is removed with everything in it.
    fs::remove_dir_all(session.home.socket().parent().unwrap()).unwrap();
    wait::until_true("the daemon's end", || !process::lives(first));
    session.home.entry("its end in good order", |entry| entry.kind == "daemon.stop" && entry.body["pid"] == first);
    recovers(&mut session, 2);
    let mut late = session.home.relay("fs").start(relay::fixture(&session.home.path().join("late")));
    passes(&mut late, 1);
    assert_eq!(late.close().code(), 0);

    // A command does not even notice.
    fs::remove_file(session.home.socket()).unwrap();
    let _ = session.home.ok(&["policy", "deny", "x"]);
    // Another's socket in the place is not the daemon's, and stays.
    fs::remove_file(session.home.socket()).unwrap();
    let another = std::os::unix::net::UnixListener::bind(session.home.socket()).unwrap();
    let daemon = session.home.daemons()[0].pid;
    wait::until_true("the daemon's end", || !process::lives(daemon));
    assert!(session.home.socket().exists());
    drop(another);
    recovers(&mut session, 100);
    session.end();
}

#[test]
fn a_daemon_that_runs_and_cannot_be_reached_is_told_and_can_be_restarted() {
    let home = Home::new();
    let daemon = home.start_daemon();
    process::signal(daemon, Signal::STOP);
    fs::remove_file(home.socket()).unwrap();
    let status = home.run(&["daemon", "status"]).exits(3);
    assert!(status.stdout.starts_with("running, but it cannot be reached: "), "{status:?}");
    assert!(status.stderr.contains("hint: callgate daemon restart"), "{status:?}");
    let status = home.run(&["daemon", "status", "--json"]).exits(3).json();
    assert_eq!(status["running"], true);
    assert!(status["unreachable"].as_str().is_some_and(|why| why.contains("daemon.sock")), "{status}");
    for command in [&["daemon", "start"][..], &["policy", "deny", "x"]] {
        let told = home.run(command).exits(3);
        let expected = format!("the daemon (pid {daemon}) runs but cannot be reached: ");
        assert!(told.stderr.contains(&expected) && told.stderr.contains("hint: callgate daemon restart"), "{told:?}");
    }
    process::signal(daemon, Signal::CONT);
    let _ = home.ok(&["daemon", "restart"]);
    assert!(home.daemon_pid().is_some_and(|next| next != daemon));
}

#[test]
fn a_lock_file_that_names_a_stranger_harms_nobody() {
    let home = Home::new();
    let daemon = home.start_daemon();
    let lock = home.path().join("daemon.lock");
    let announced: Value = serde_json::from_slice(&fs::read(&lock).unwrap()).unwrap();
    home.kill_daemon(daemon);
    // The id of the daemon that crashed is somebody else's by now.
    let mut stranger = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mut stale = announced;
    stale["pid"] = json!(stranger.id());
    fs::write(&lock, stale.to_string()).unwrap();
    assert_eq!(home.ok(&["daemon", "stop"]).stdout, "no daemon runs\n");
    let _ = home.ok(&["daemon", "restart"]);
    home.stop_daemon();
    assert!(process::lives(stranger.id()));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_peer_that_never_reads_does_not_keep_the_daemon_from_stopping() {
    let home = Home::new();
    home.start_daemon();
    let mut peer = std::os::unix::net::UnixStream::connect(home.socket()).unwrap();
    let message = |head: Value| {
        let head = head.to_string();
        let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
        [&length(4 + head.len())[..], &length(head.len()), head.as_bytes()].concat()
    };
    peer.write_all(&message(json!({ "build": callgate::BUILD, "purpose": "command" }))).unwrap();
    let mut greeting = Vec::new();
    while !callgate_tests::session::contains(&greeting, b"welcome") {
        let mut part = [0; 256];
        let read = peer.read(&mut part).unwrap();
        greeting.extend_from_slice(&part[..read]);
    }
    // Answers fill the way to us until the daemon can write no more, and then questions the way to the daemon.
    peer.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    while peer.write_all(&message(json!("status"))).is_ok() {}
    home.stop_daemon();
}

#[test]
fn nothing_is_said_to_another_user_at_the_daemons_socket() {
    if !rustix::process::geteuid().is_root() {
        crate::skipped("users", "only root may listen as another user");
        return;
    }
    let home = Home::new();
    let folder = tempfile::Builder::new().prefix("cg-").tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let socket = folder.path().join("another.sock");
    let listener = {
        let socket = socket.clone();
        // The kernel tells the user of the thread that began to listen.
        let another = std::thread::spawn(move || {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            std::os::unix::net::UnixListener::bind(socket).unwrap()
        });
        another.join().unwrap()
    };
    let lock = fs::File::create(home.path().join("daemon.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let announced = json!({ "pid": 1, "build": callgate::BUILD, "socket": socket });
    (&lock).write_all(announced.to_string().as_bytes()).unwrap();
    let told = home.run(&["policy", "deny", "x"]).exits(3);
    assert!(told.stderr.contains("user 65534 answers there"), "{told:?}");
    let (mut connection, _) = listener.accept().unwrap();
    let mut said = Vec::new();
    connection.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"");
}

#[test]
fn a_daemon_of_another_build_decides_nothing() {
    let home = Home::configured("relay: { decision_deadline: 3s }");
    home.start_daemon();
    // The relay says it is another build than it is: to the daemon that is the same.
    let interposer = Interposer::of_questions(&home, |message| {
        let mut message = message.clone();
        if message.head.get("build").is_some() {
            message.head["build"] = json!("0.0.0+another");
        }
        Fate::Pass(vec![message])
    });
    let mut session = Session::within(home);
    let answer = refused_with(&mut session, 1, "older-build");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("callgate daemon restart"), "the way out is not named: {text}");
    let told = session.home.run(&["policy", "deny", "x"]).exits(3);
    assert!(told.stderr.contains("build") && told.stderr.contains("hint: callgate daemon restart"), "{told:?}");
    assert!(session.home.decisions().is_empty());
    drop(interposer);
    let _ = session.home.ok(&["daemon", "restart"]);
    recovers(&mut session, 2);
    assert!(!reached(&session.received(), 1));
    session.home.anomaly("older-build");
    session.end();
}

#[test]
fn a_daemon_that_says_nothing_at_all_is_not_waited_for_forever() {
    let home = Home::configured("relay: { decision_deadline: 3s }");
    home.start_daemon();
    let interposer = Interposer::of_answers(&home, |_: &Message| Fate::Pass(Vec::new()));
    let mut session = Session::within(home);
    let answer = session.call("1", "echo", r#"{"message":"m"}"#);
    let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str().unwrap_or_default();
    assert!(["daemon-slow", "daemon-unreachable"].contains(&code), "{answer}");
    drop(interposer);
    session.end();
}

#[test]
fn an_unreadable_frame_is_answered_without_any_daemon() {
    let home = Home::new();
    let lock = fs::File::create(home.path().join("daemon.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    home.configure("relay: { decision_deadline: 3s }");
    let mut session = Session::within(home);
    session.send(line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping"}"#));
    assert_eq!(session.answer(&json!(1))["error"]["data"]["code"], "repeated-key");
    session.send(line("{"));
    session.send_line(callgate_tests::frame::ping("2"));
    assert_eq!(session.answer(&json!(2))["result"], json!({}));
    drop(lock);
    let (home, _) = session.close();
    // What could not be told is counted, where it can be told later.
    let told = journal::entries(&home.database()).into_iter().filter(|entry| entry.kind == "anomaly").count();
    assert!(told == 0 || told == 2, "{told}");
}
