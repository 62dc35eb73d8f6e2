//! Whenever no decision can be had, the call is refused, with a reason of its own; nothing is lost, and it recovers.

mod daemon;
mod database;
mod mounts;
mod socket;

use callgate_tests::frame::call;
use callgate_tests::relay::Relay;
use callgate_tests::wait;
use serde_json::{Value, json};

/// Calls `echo` and demands a refusal by the machinery, with `code`. Returns the whole answer.
#[track_caller]
fn refused_with(relay: &mut Relay, id: u64, code: &str) -> Value {
    let answer = relay.call(&id.to_string(), "echo", r#"{"message":"m"}"#);
    let decision = &answer["result"]["_meta"]["dev.callgate/decision"];
    assert_eq!((&answer["result"]["isError"], &decision["code"]), (&json!(true), &json!(code)), "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("Callgate could not decide this call and refused it: "), "{text}");
    answer
}

/// Calls `echo` and demands that it passes.
#[track_caller]
fn passes(relay: &mut Relay, id: u64) {
    let answer = relay.call(&id.to_string(), "echo", r#"{"message":"m"}"#);
    assert_eq!(answer["result"]["content"][0]["text"], "m", "{answer}");
}

/// Whether a call with this id reached the server.
fn reached(received: &[u8], id: u64) -> bool {
    callgate_tests::session::contains(received, call(&id.to_string(), "echo", r#"{"message":"m"}"#).as_bytes())
}

/// Calls until one passes, as an agent that tries again would: how a session comes back after an outage. Every call before
/// that was refused, none hung and none vanished. Tells the id of the one that passed.
#[track_caller]
fn recovers(relay: &mut Relay, first_id: u64) -> u64 {
    let mut ids = first_id..;
    wait::until("the session to come back", || {
        let id = ids.next()?;
        let answer = relay.call(&id.to_string(), "echo", r#"{"message":"m"}"#);
        (answer["result"]["isError"] != true).then_some(id)
    })
}
