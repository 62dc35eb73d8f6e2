//! Traps 25, 27, 28, 31, 33 and 35: what the client gets, and in which order.

use callgate_core::digest::Digest;
use callgate_tests::frame::{call, cancelled, line, modern_call, ping};
use callgate_tests::home::Home;
use callgate_tests::process;
use callgate_tests::relay;
use callgate_tests::session::{Session, lossy};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{by_kind, decision_code};

#[test]
fn trap_25_a_refusal_has_the_shape_of_its_dialect() {
    let mut session = Session::denying_drop();
    session.send_line(call("\"a\\u0062\"", "drop", r#"{"table":"users"}"#));
    session.send_line(modern_call("2", "drop", "{}"));
    session.send_line(
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"drop","arguments":{},"task":{"ttl":1}}}"#,
    );
    let lines: Vec<Vec<u8>> = (0..3).map(|_| session.next_line().unwrap()).collect();
    let answers: Vec<Value> = lines.iter().map(|line| relay::json(line)).collect();
    assert!(lines[0].starts_with(br#"{"jsonrpc":"2.0","id":"a\u0062","#), "the id is not echoed as it came");

    let entries: Vec<u64> =
        session.home.entries().iter().filter(|entry| entry.kind == "call.decision").map(|entry| entry.seq).collect();
    let decision = |entry: u64, answer: &Value| {
        let (reason, rule) = (&answer["reason"], &answer["rule"]);
        assert!(reason.as_str().is_some_and(|text| !text.is_empty()) && rule["text"] == "deny drop", "{answer}");
        json!({ "code": "rules/deny", "reason": reason, "plugin": "rules", "rule": rule, "retry": "never", "entry": entry })
    };
    let meta = |answer: &Value| answer["dev.callgate/decision"].clone();
    for (index, more) in [json!({}), json!({ "resultType": "complete" })].into_iter().enumerate() {
        let result = &answers[index]["result"];
        let mut expected = json!({
            "content": [{ "type": "text", "text": result["content"][0]["text"] }],
            "isError": true,
            "_meta": { "dev.callgate/decision": decision(entries[index], &meta(&result["_meta"])) },
        });
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(answers[index], json!({ "jsonrpc": "2.0", "id": answers[index]["id"], "result": expected }));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("rules") && text.contains("refused"), "{text}");
    }
    let error = &answers[2]["error"];
    let decided = decision(entries[2], &meta(&error["data"]["_meta"]));
    let expected = json!({ "code": -31_001, "message": error["message"], "data": { "_meta": { "dev.callgate/decision": decided } } });
    assert_eq!(answers[2], json!({ "jsonrpc": "2.0", "id": 3, "error": expected }));
    assert_eq!(session.received(), b"");
    session.end();
}

#[test]
fn trap_27_an_id_may_stand_behind_its_result() {
    let mut session = Session::new();
    session.send_line(call("1", "id_last", "{}"));
    let answer = session.next_line().unwrap();
    assert!(answer.starts_with(b"{\"result\":") && answer.ends_with(b"\"jsonrpc\":\"2.0\",\"id\":1}\n"));
    let home = session.end();
    home.entry("the outcome", |entry| entry.kind == "call.outcome" && entry.body["outcome"] == "ok");
}

#[test]
fn trap_28_an_answer_after_a_cancellation_passes() {
    let mut session = Session::new();
    let frames = [call("1", "late", "{}"), cancelled("1")];
    session.exchange([&frames[0]]);
    session.send_line(&frames[1]);
    assert_eq!(session.answer(&json!(1))["result"]["content"][0]["text"], "late");
    assert_eq!(session.received_besides_barriers(), frames.iter().flat_map(line).collect::<Vec<u8>>());
    let home = session.end();
    home.entry("the session's end", |entry| entry.kind == "session.end");
    assert_eq!(home.entries().iter().filter(|entry| entry.kind == "call.outcome").count(), 2);
}

#[test]
fn trap_31_changes_of_the_list_pass_in_any_number_and_before_any_answer() {
    let mut session = Session::new();
    session.send_line(call("1", "list_changed", r#"{"times":7}"#));
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    for _ in 0..7 {
        assert_eq!(session.message(), changed);
    }
    assert_eq!(session.message()["result"]["content"][0]["text"], "changed");
    session.end();
}

#[test]
fn trap_33_refusals_and_server_frames_never_mix() {
    let mut session = Session::denying_drop();
    let (frames, bytes) = (40, 300_000);
    session.send_line(call("0", "flood", &format!(r#"{{"frames":{frames},"bytes":{bytes}}}"#)));
    for id in 1..=200 {
        session.send_line(call(&id.to_string(), "drop", "{}"));
    }
    let (mut flooded, mut refused) = (0, Vec::new());
    while flooded < frames || refused.len() < 200 {
        let line = session.next_line().unwrap();
        // A line that holds parts of two would not be JSON, or not of either length.
        let message = relay::json(&line);
        if message["method"] == "notifications/message" {
            assert_eq!(message["params"]["data"].as_str().unwrap().len(), bytes);
            flooded += 1;
        } else if message["id"] != 0 {
            assert_eq!(decision_code(&message), "rules/deny");
            refused.push(message["id"].as_u64().unwrap());
        }
    }
    assert_eq!(refused, (1..=200).collect::<Vec<u64>>());
    session.end();
}

#[test]
fn trap_35_calls_keep_their_order_and_so_does_the_rest() {
    let mut session = Session::denying_drop();
    let mut expected = Vec::new();
    // Fewer than may wait for a decision at once.
    for number in 0..200 {
        let frame = match number % 5 {
            0 | 3 => call(&number.to_string(), "drop", "{}"),
            4 => format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"n":{number}}}}}"#),
            _ => call(&number.to_string(), "never", &format!(r#"{{"n":{number}}}"#)),
        };
        session.send_line(&frame);
        if !matches!(number % 5, 0 | 3) {
            expected.extend(line(frame));
        }
    }
    session.settled();
    let received = session.received_besides_barriers();
    assert_eq!(by_kind(&received), by_kind(&expected));
    session.end();
}

#[test]
fn trap_35_a_refused_call_overtakes_one_that_the_server_is_at() {
    let mut session = Session::denying_drop();
    session.send_line(call("1", "late", "{}"));
    assert_eq!(decision_code(&session.call("2", "drop", "{}")), "rules/deny");
    session.send_line(cancelled("1"));
    assert_eq!(session.answer(&json!(1))["result"]["content"][0]["text"], "late");
    session.end();
}

#[test]
fn trap_35_a_call_that_waits_for_its_decision_can_be_withdrawn() {
    let mut session = Session::within(Home::configured("relay: { decision_deadline: 50s }"));
    session.settled();
    let daemon = session.home.daemon_pid().unwrap();
    process::signal(daemon, Signal::STOP);
    let withdrawn = call("1", "echo", r#"{"message":"withdrawn"}"#);
    let waiting = call("2", "echo", r#"{"message":"waits"}"#);
    session.send_line(&withdrawn);
    session.send_line(&waiting);
    session.send_line(cancelled("1"));
    // Read and, where the relay can, answered, although nobody can decide anything now.
    session.all_read();
    assert_eq!(session.received_besides_barriers(), b"");
    process::signal(daemon, Signal::CONT);
    assert_eq!(session.answer(&json!(2))["result"]["content"][0]["text"], "waits");
    assert_eq!(lossy(&session.settled()), [""; 0], "a withdrawn call was answered");
    assert_eq!(session.received_besides_barriers(), line(&waiting), "a withdrawn call reached the server");
    let home = session.end();
    home.entry("the session's end", |entry| entry.kind == "session.end");
    let digest = Digest::of(&line(&withdrawn)).to_string();
    let told: Vec<_> = home.entries().into_iter().filter(|entry| entry.body["frame"] == digest.as_str()).collect();
    let withdrawals = told.iter().filter(|entry| entry.kind == "anomaly" && entry.body["code"] == "withdrawn");
    assert_eq!(withdrawals.count(), 1, "{told:?}");
    // The daemon was asked before and decided all the same; then it is told that nothing came of it.
    let decision = told.iter().find(|entry| entry.kind == "call.decision").unwrap();
    home.entry("the withdrawn call's outcome", |entry| {
        entry.body["decision"] == decision.seq && entry.body["outcome"] == "error"
    });
}

#[test]
fn trap_35_a_cancellation_and_a_ping_pass_a_call_that_waits_for_its_decision() {
    let mut session = Session::within(Home::configured("relay: { decision_deadline: 50s }"));
    let released = call("1", "late", "{}");
    session.exchange([&released]);
    let daemon = session.home.daemon_pid().unwrap();
    process::signal(daemon, Signal::STOP);
    let waiting = call("2", "echo", r#"{"message":"waits"}"#);
    session.send_line(&waiting);
    session.send_line(cancelled("1"));
    session.send_line(ping("3"));
    assert_eq!(session.answer(&json!(1))["result"]["content"][0]["text"], "late", "its cancellation ends it");
    assert_eq!(session.answer(&json!(3))["result"], json!({}));
    let passed = [&released, &cancelled("1"), &ping("3")].into_iter().flat_map(line).collect::<Vec<u8>>();
    assert_eq!(String::from_utf8_lossy(&session.received_besides_barriers()), String::from_utf8_lossy(&passed));
    process::signal(daemon, Signal::CONT);
    assert_eq!(session.answer(&json!(2))["result"]["content"][0]["text"], "waits");
    session.end();
}

#[test]
fn trap_37_the_journal_says_what_was_decided_about_which_call() {
    let mut session = Session::denying_drop();
    session.send_line(
        r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}"#,
    );
    session.answer(&json!("open"));
    let allowed = call("\"a\\u0062\"", "echo", r#"{ "message" : "\u001b[31m" }"#);
    session.send_line(&allowed);
    session.answer(&json!("ab"));
    let refused = session.call("1.0", "drop", r#"{"table":"users"}"#);
    let odd = "echo\u{1b}[31m\u{7}";
    session.call("3", odd, "{}");

    let entries = session.home.entries();
    let start = entries.iter().find(|entry| entry.kind == "session.start").unwrap();
    let decisions: Vec<_> = entries.iter().filter(|entry| entry.kind == "call.decision").collect();
    let body = &decisions[0].body;
    let expected = json!({
        "session": start.body["session"],
        "call": 1,
        "request_id": "\"a\\u0062\"",
        "frame": Digest::of(&line(&allowed)).to_string(),
        "client": "suite",
        "tool": "echo",
        "decision": "allowed",
        "verdict": "allow",
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&body[member], value, "{member} of {body}");
    }
    assert_eq!(body["server"]["name"], "fs");
    assert_eq!(decisions[0].arguments.as_deref(), Some(r#"{ "message" : "\u001b[31m" }"#));
    assert!(
        body["attributes"].as_array().unwrap().contains(&json!({ "name": "protocol.version", "value": "2025-11-25" }))
    );
    let digest = |member: &Value| member.as_str().is_some_and(|text| text.parse::<Digest>().is_ok());
    assert!(digest(&body["arguments"]["digest"]) && digest(&body["chain"][0]["component"]), "{body}");
    assert_eq!(refused["result"]["_meta"]["dev.callgate/decision"]["entry"], decisions[1].seq);
    let second = &decisions[1].body;
    assert_eq!(
        (&second["decision"], &second["code"], &second["request_id"]),
        (&json!("denied"), &json!("rules/deny"), &json!("1.0"))
    );
    assert_eq!(second["rule"]["text"], "deny drop");
    assert_eq!(decisions[2].body["tool"], odd);
    let outcome = session.home.entry("the outcome", |entry| entry.kind == "call.outcome");
    assert_eq!(outcome.body["decision"], decisions[0].seq);
    assert!(outcome.body["took_ms"].is_u64(), "{}", outcome.body);
    let shown = session.home.ok(&["log", "-n", "0"]).stdout;
    assert!(!shown.contains(['\u{1b}', '\u{7}']) && shown.contains("echo"), "{shown:?}");
    session.end();
}
