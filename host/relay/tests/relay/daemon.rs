//! The daemon comes, goes, is slow, is not there.

use std::time::Duration;

use callgate_core::code::Code;
use callgate_core::entry::Outcome;
use callgate_ipc::message::{Anomaly, CallOutcome, FromRelay};
use rustix::process::Uid;
use serde_json::json;

use crate::fake_daemon::{Answer, FakeDaemon, by_name};
use crate::process::{Setup, read_when_there, shell, until};
use crate::{call, ping};

fn opened(told: &FromRelay) -> bool {
    matches!(told, FromRelay::Open(_))
}

#[test]
fn an_allowed_call_is_asked_about_forwarded_and_its_outcome_told() {
    let setup = Setup::new();
    let daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    let mut relay = setup.serving();
    relay.write(&call(1, "allowed"));
    assert_eq!(relay.message()["result"]["method"], json!("tools/call"));
    let told = daemon.hear_until(|told| matches!(told, FromRelay::Outcome(_)));
    assert!(matches!(&told[..], [FromRelay::Open(open), FromRelay::Decide(_), FromRelay::Outcome(_)] if !open.resumed));
    assert!(matches!(told.last(), Some(FromRelay::Outcome(CallOutcome { outcome: Outcome::Ok, .. }))));
}

#[test]
fn without_a_daemon_the_server_serves_and_calls_are_refused() {
    let mut setup = Setup::new();
    setup.deadline = Duration::from_millis(50);
    let mut relay = setup.serving();
    relay.write(&(ping(1) + &call(2, "allowed")));
    let mut messages = [relay.line(), relay.line()];
    messages.sort_by_key(|message| message.contains("daemon-unreachable"));
    assert!(messages[0].contains(r#"{"method":"ping"}"#) && messages[1].contains("daemon-unreachable"), "{messages:?}");
    relay.finish();
    assert_eq!(setup.log(), ping(1));
}

#[test]
fn a_daemon_of_another_user_is_not_asked() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can listen as another user");
        return;
    }
    let mut setup = Setup::new();
    setup.deadline = Duration::from_millis(50);
    setup.start_script("exec true");
    let daemon = FakeDaemon::start_as(Uid::from_raw(65534), setup.folder.path(), "one", by_name);
    let mut relay = setup.serving();
    relay.write(&call(1, "allowed"));
    let refusal = relay.line();
    assert!(refusal.contains("daemon-unreachable"), "{refusal}");
    assert!(refusal.contains("user 65534 answers there, and this is user 0"), "{refusal}");
    relay.finish();
    assert_eq!(setup.log(), "");
    assert!(!daemon.has_heard());
}

#[test]
fn a_server_that_ends_before_a_call_is_decided_and_not_the_daemon_is_why_the_call_is_refused() {
    let setup = Setup::new();
    let _daemon = FakeDaemon::start(setup.folder.path(), "one", |_| Answer::Nothing);
    let mut relay = setup.relay(&shell("read -r ping"));
    relay.write(&(call(1, "undecided") + &ping(2)));
    assert_eq!(relay.refusal(), "server-write");
    assert_eq!(relay.exit_code(), Some(0));
}

#[test]
fn a_daemon_is_started_on_demand_and_reaped_when_it_ends() {
    let setup = Setup::new();
    setup.start_script(&format!("echo $$ > {}; exec sleep 1000", setup.path("started").display()));
    let mut relay = setup.serving();
    relay.write(&call(1, "allowed"));
    let started = crate::process::pid_of(&read_when_there(&setup.path("started")));
    let daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    assert_eq!(relay.message()["id"], json!(1));
    drop(daemon);
    rustix::process::kill_process(started, rustix::process::Signal::KILL).unwrap();
    let proc = format!("/proc/{}", started.as_raw_nonzero());
    until("no zombie is left", || !std::path::Path::new(&proc).exists());
}

#[test]
fn a_daemon_that_gives_no_decision_in_time_is_left_and_a_later_call_may_pass() {
    let mut setup = Setup::new();
    setup.deadline = Duration::from_millis(200);
    let silent_at_first = |decide: &callgate_ipc::message::Decide| {
        if decide.tool == "slow" { Answer::Nothing } else { Answer::Allow }
    };
    let daemon = FakeDaemon::start(setup.folder.path(), "one", silent_at_first);
    let mut relay = setup.serving();
    relay.write(&call(1, "slow"));
    assert_eq!(relay.refusal(), "daemon-slow");
    let told = daemon.hear_until(|told| matches!(told, FromRelay::Anomaly(_)));
    assert!(matches!(told.last(), Some(FromRelay::Anomaly(Anomaly { code: Code::DaemonSlow, .. }))));
    assert_eq!(told.iter().filter(|told| opened(told)).count(), 2, "on a new connection");
    relay.write(&call(2, "quick"));
    assert_eq!(relay.message()["id"], json!(2));
    relay.finish();
    assert_eq!(setup.log(), call(2, "quick"));
}

#[test]
fn a_daemon_that_goes_in_the_middle_of_a_call_refuses_it_and_another_one_elsewhere_takes_the_session_over() {
    let setup = Setup::new();
    let first = FakeDaemon::start(setup.folder.path(), "one", |_| Answer::HangUp);
    let mut relay = setup.serving();
    relay.write(&call(1, "a"));
    assert_eq!(relay.refusal(), "daemon-lost");
    drop(first);
    let second = FakeDaemon::start(setup.folder.path(), "two", by_name);
    relay.write(&call(2, "a"));
    assert_eq!(relay.message()["id"], json!(2));
    let told = second.hear_until(|told| matches!(told, FromRelay::Decide(_)));
    let resumed = told.iter().find_map(|told| match told {
        FromRelay::Open(open) => Some(open.resumed),
        _ => None,
    });
    assert_eq!(resumed, Some(true));
    relay.finish();
    assert_eq!(setup.log(), call(2, "a"), "what was refused was not sent later");
}

#[test]
fn many_daemons_leave_no_descriptor_behind() {
    let setup = Setup::new();
    setup.start_script("exec true");
    let mut relay = setup.serving();
    let mut counts = Vec::new();
    for at in 0..20 {
        let daemon = FakeDaemon::start(setup.folder.path(), &format!("daemon-{at}"), by_name);
        relay.write(&call(at, "a"));
        assert_eq!(relay.message()["id"], json!(at));
        daemon.hear_until(opened);
        counts.push(relay.descriptors());
    }
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}
