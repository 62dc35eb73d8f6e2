//! Traps 6, 26 and 29: which answer belongs to which request.

use callgate_tests::frame::{call, line};
use callgate_tests::session::Session;
use serde_json::{Value, json};

use super::{anomalies_are, are_refused, refusal_of_frame, refused, without_messages};

#[test]
fn trap_06_an_id_is_a_string_or_a_whole_number_and_is_echoed_as_it_came() {
    are_refused(
        ["null", "true", "1.5", "{}", "[1]", "1e-1", "-0.5", "9007199254740993.5"]
            .map(|id| refused(call(id, "echo", "{}"), "bad-id", None)),
    );

    let mut session = Session::denying_drop();
    let ids = [
        "1",
        "-1",
        "1.0",
        "1e0",
        "100e-2",
        "9007199254740993",
        "18446744073709551615",
        "123456789012345678901234567890",
        r#""""#,
        r#""a\u0062\/\n""#,
        r#""1 ""#,
        r#""𝄞""#,
    ];
    for id in ids {
        session.send_line(call(id, "drop", "{}"));
        let answer = session.next_line().unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(&format!("\"id\":{id},")), "{id} in {answer}");
    }
    assert_eq!(session.received(), b"");
    session.end();
}

#[test]
fn trap_06_an_id_in_flight_is_not_used_by_a_second_call() {
    let mut session = Session::new();
    let first = call("7", "never", "{}");
    session.exchange([&first]);
    // What clients match with 7: `Number("7")`, 7.0 and so on.
    let aliases = ["7", "7.0", "7e0", "70e-1", r#""7""#, r#""\u0037""#];
    for id in aliases {
        let answers = without_messages(session.exchange([call(id, "echo", "{}")]));
        assert_eq!(answers, [refusal_of_frame(&serde_json::from_str(id).unwrap(), "id-in-flight")]);
    }
    assert_eq!(session.received_besides_barriers(), line(&first));
    anomalies_are(&session, &["id-in-flight"; 6]);
    session.end();
}

#[test]
fn trap_06_an_id_that_was_answered_may_be_used_again() {
    let mut session = Session::new();
    for _ in 0..3 {
        assert_eq!(session.call("7", "echo", r#"{"message":"m"}"#)["result"]["content"][0]["text"], "m");
        assert_eq!(session.call("\"7\"", "raise", "{}")["result"]["isError"], true);
    }
    anomalies_are(&session, &[]);
    session.end();
}

#[test]
fn trap_26_the_ids_of_the_two_sides_are_two_spaces() {
    let mut session = Session::new();
    // The client's 0 is in flight, and the server asks something with its own 0.
    let waiting = call("0", "late", "{}");
    let asking = call("1", "ask", r#"{"id":0,"method":"sampling/createMessage"}"#);
    let answers = session.exchange([&waiting, &asking]);
    let request = json!({ "jsonrpc": "2.0", "id": 0, "method": "sampling/createMessage", "params": {} });
    assert_eq!(answers[0], request);
    let response =
        r#"{"jsonrpc":"2.0","id":0,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"t"}}}"#;
    let cancelled = callgate_tests::frame::cancelled("5");
    session.send_line(response);
    session.send_line(&cancelled);
    assert_eq!(session.answer(&json!(0))["result"]["content"][0]["text"], "late");
    let expected: Vec<u8> = [waiting.as_str(), &asking, response, &cancelled].iter().flat_map(line).collect();
    assert_eq!(session.received_besides_barriers(), expected);
    let home = session.end();
    assert_eq!(outcomes(&home), ["ok"; 3], "the server's own request counted as an answer");
}

#[test]
fn trap_29_odd_answers_pass_and_are_journaled() {
    let mut session = Session::new();
    session.send_line(call("1", "twice", "{}"));
    session.send_line(call("2", "stranger", "{}"));
    session.send_line(call("3", "alias", "{}"));
    let lines: Vec<Value> = session.settled().iter().map(|line| callgate_tests::relay::json(line)).collect();
    let seen: Vec<_> =
        lines.iter().map(|line| (line["id"].clone(), line["result"]["content"][0]["text"].clone())).collect();
    let expected = [
        (json!(1), json!("once")),
        (json!(1), json!("once")),
        (json!(999_999), json!("stranger")),
        (json!(2), json!("own")),
        (json!("3"), json!("alias")),
    ];
    assert_eq!(seen, expected);
    let home = session.end();
    // One outcome a call, whatever the server adds; the answer to "3" is the one to 3. The fourth is the barrier's.
    assert_eq!(outcomes(&home), ["ok"; 4]);
    let odd = home.entries().into_iter().filter(|entry| entry.kind == "anomaly");
    let odd: Vec<_> = odd.map(|entry| (entry.body["from"].clone(), entry.body["code"].clone())).collect();
    let unexpected = (json!("server"), json!("unexpected-answer"));
    assert_eq!(odd, [unexpected.clone(), unexpected], "the second answer and the stranger's");
}

fn outcomes(home: &callgate_tests::home::Home) -> Vec<String> {
    // Outcomes ride with later commits; the session's end comes after all of its own.
    home.entry("the session's end", |entry| entry.kind == "session.end");
    let outcomes = home.entries().into_iter().filter(|entry| entry.kind == "call.outcome");
    outcomes.map(|entry| entry.body["outcome"].as_str().unwrap_or_default().to_owned()).collect()
}
