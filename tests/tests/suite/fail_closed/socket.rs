//! Messages of the daemon that are lost, late or belong elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};

use callgate_core::digest::Digest;
use callgate_tests::home::Home;
use callgate_tests::interposer::{Fate, Interposer, Message};
use callgate_tests::session::Session;
use serde_json::{Value, json};

use super::{passes, reached, recovers, refused_with};

fn is_permit(message: &Message) -> bool {
    message.head.get("permitted").is_some()
}

/// A session whose first permit meets `fate`, and what becomes of it: the call is refused with `code` and never reaches the
/// server, and the session comes back.
#[track_caller]
fn first_permit(code: &str, fate: impl Fn(&Message) -> Fate + Send + Sync + 'static) {
    let home = Home::configured("relay: { decision_deadline: 3s }");
    home.start_daemon();
    let seen = AtomicU64::new(0);
    let interposer = Interposer::of_answers(&home, move |message| {
        let first = is_permit(message) && seen.fetch_add(1, Ordering::Relaxed) == 0;
        if first { fate(message) } else { Fate::as_it_is(message) }
    });
    let mut session = Session::within(home);
    refused_with(&mut session, 1, code);
    recovers(&mut session, 2);
    assert!(!reached(&session.received(), 1), "the call reached the server");
    session.home.anomaly(code);
    drop(interposer);
    let (home, ended) = session.close();
    assert_eq!(ended.code(), 0);
    // It was allowed and never forwarded. Whoever reads the journal sees that nothing is known to have come of it.
    let given_up =
        home.entries().into_iter().find(|entry| entry.kind == "call.decision").expect("the call was decided");
    assert_eq!(given_up.body["decision"], "allowed");
    home.stop_daemon();
    home.start_daemon();
    home.entry("the end of the call that was given up", |entry| {
        let unknown = entry.kind == "outcome.unknown" || entry.body["outcome"] == "error";
        unknown && entry.body["decision"] == given_up.seq
    });
}

/// The binding inside a permit, however deep it lies.
fn binding(head: &mut Value) -> &mut Value {
    let permit = &mut head["permitted"];
    if permit.get("binding").is_some() { &mut permit["binding"] } else { permit }
}

#[test]
fn a_closed_socket_refuses_what_was_waiting() {
    first_permit("daemon-lost", |_| Fate::Close);
}

#[test]
fn an_answer_that_is_lost_refuses_the_call() {
    first_permit("daemon-slow", |_| Fate::Pass(Vec::new()));
}

#[test]
fn a_permit_for_another_call_releases_nothing() {
    first_permit("reply-mismatch", |message| altered(message, |binding| binding["sequence"] = json!(77)));
}

#[test]
fn a_permit_for_another_connection_releases_nothing() {
    first_permit("reply-mismatch", |message| altered(message, |binding| binding["connection"] = json!(77)));
}

#[test]
fn a_permit_for_another_frame_releases_nothing() {
    first_permit("reply-mismatch", |message| {
        altered(message, |binding| binding["frame"] = json!(Digest::of(b"another frame").to_string()))
    });
}

#[test]
fn a_message_that_cannot_be_read_releases_nothing() {
    let unreadable = |bytes: &'static [u8]| move |_: &Message| Fate::Raw(bytes.to_vec());
    first_permit("reply-mismatch", unreadable(b"\0\0\0\x08\0\0\0\x04nope"));
    first_permit("reply-mismatch", unreadable(b"\xff\xff\xff\xff\0\0\0\x02{}"));
    first_permit("reply-mismatch", unreadable(b"\0\0\0\x06\0\0\0\xff{}"));
}

fn altered(message: &Message, alter: impl Fn(&mut Value)) -> Fate {
    let mut message = message.clone();
    alter(binding(&mut message.head));
    Fate::Pass(vec![message])
}

#[test]
fn a_permit_is_good_for_one_frame_once() {
    let home = Home::configured("relay: { decision_deadline: 3s }");
    home.start_daemon();
    let interposer = Interposer::of_answers(&home, |message| {
        if is_permit(message) { Fate::Pass(vec![message.clone(), message.clone()]) } else { Fate::as_it_is(message) }
    });
    let mut session = Session::within(home);
    // The first permit releases the first call, its copy nothing: neither that call again nor the next.
    passes(&mut session, 1);
    let second = session.call("2", "echo", r#"{"message":"m"}"#);
    let received = session.received();
    let times = |id: &str| {
        received
            .split(|&byte| byte == b'\n')
            .filter(|line| callgate_tests::session::contains(line, format!("\"id\":{id},").as_bytes()))
            .count()
    };
    assert_eq!(times("1"), 1);
    assert_eq!(times("2"), usize::from(second["result"]["isError"] != true), "{second}");
    drop(interposer);
    session.end();
}

#[test]
fn a_refusal_of_another_call_refuses_no_other() {
    let home = Home::configured("relay: { decision_deadline: 3s }");
    let _ = home.ok(&["policy", "deny", "drop"]);
    let interposer = Interposer::of_answers(&home, |message| {
        let mut message = message.clone();
        if let Some(refused) = message.head.get_mut("refused") {
            refused["sequence"] = json!(4_000_000);
        }
        Fate::Pass(vec![message])
    });
    let mut session = Session::within(home);
    let answer = session.call("1", "drop", "{}");
    let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str().unwrap_or_default();
    assert!(["reply-mismatch", "daemon-slow", "daemon-lost"].contains(&code), "{answer}");
    assert_eq!(session.received(), b"");
    drop(interposer);
    recovers(&mut session, 2);
    session.end();
}
