//! Traps 14 to 17 and 22: calls that are not plain calls.

use callgate_tests::frame::{call, line, modern_meta, ping};
use callgate_tests::session::Session;
use serde_json::{Value, json};

use super::{anomalies_are, are_forwarded, are_refused, decision_code, refused, without_messages};

#[test]
fn trap_14_a_batch_with_a_call_is_refused_whole() {
    let batches = [
        (format!("[{}]", call("1", "echo", "{}")), vec![json!(1)]),
        (format!("[{},{}]", ping("1"), call("\"b\"", "echo", "{}")), vec![json!(1), json!("b")]),
        (
            format!("[{},{}]", call("2", "echo", "{}"), r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
            vec![json!(2)],
        ),
        // Escaped, it is a call all the same.
        (
            r#"[{"jsonrpc":"2.0","id":3,"m\u0065thod":"tools\/call","params":{"name":"echo"}}]"#.to_owned(),
            vec![json!(3)],
        ),
        // Nobody waits for an answer to these.
        (r#"[{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}]"#.to_owned(), vec![]),
    ];
    let mut session = Session::new();
    for (batch, ids) in &batches {
        let answers = without_messages(session.exchange([batch]));
        let answers: Vec<Value> =
            answers.iter().flat_map(|answer| answer.as_array().cloned().unwrap_or(vec![answer.clone()])).collect();
        let expected: Vec<Value> = ids
            .iter()
            .map(|id| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32_600, "data": { "code": "batch-call" } } }))
            .collect();
        assert_eq!(answers, expected, "{batch}");
        assert_eq!(session.received_besides_barriers(), b"", "{batch}");
    }
    anomalies_are(&session, &["batch-call"; 5]);
    session.end();
}

#[test]
fn trap_14_a_batch_without_a_call_passes() {
    are_forwarded([
        format!(
            "[{},{}]",
            ping("1"),
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"method":"tools/call"}}"#
        ),
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#.to_owned(),
    ]);
}

#[test]
fn trap_15_a_call_without_an_id_is_never_forwarded() {
    are_refused([
        refused(
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}}}"#,
            "notification-call",
            None,
        ),
        refused(r#"{"jsonrpc":"2.0","method":"tools/call"}"#, "notification-call", None),
        refused(r#"{"method":"tools\/call","jsonrpc":"2.0","params":[]}"#, "notification-call", None),
    ]);
}

#[test]
fn trap_16_a_call_has_the_form_of_a_call() {
    let with = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let params = [
        "[]",
        "null",
        "1",
        "\"echo\"",
        "{}",
        r#"{"name":null}"#,
        r#"{"name":1}"#,
        r#"{"name":["echo"]}"#,
        r#"{"arguments":{}}"#,
        r#"{"name":"echo","arguments":null}"#,
        r#"{"name":"echo","arguments":[]}"#,
        r#"{"name":"echo","arguments":"{}"}"#,
        r#"{"name":"echo","arguments":1}"#,
    ];
    let mut frames: Vec<_> = params.iter().map(|params| refused(with(params), "bad-call", json!(1))).collect();
    frames.push(refused(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, "bad-call", json!(1)));
    are_refused(frames);
    are_forwarded([with(r#"{"name":"never"}"#)]);
}

#[test]
fn trap_17_a_tool_is_named_byte_for_byte() {
    let mut session = Session::denying_drop();
    let others = [
        "drop ",
        " drop",
        "DROP",
        "Drop",
        "dr\u{43e}p",
        "drop\u{200b}",
        "drop\0",
        "ｄrop",
        "dro\u{301}p",
        "",
        "\u{202e}pord",
    ];
    for (id, name) in others.iter().enumerate() {
        // The server does not know them; the gate has decided about each as the name that it is.
        let answer = session.call(&id.to_string(), name, "{}");
        assert_eq!(answer["error"]["code"], -32_602, "{name:?}: {answer}");
    }
    assert_eq!(decision_code(&session.call("99", "drop", "{}")), "rules/deny");
    let decided: Vec<_> = session.home.decisions().iter().map(|decision| decision["tool"].clone()).collect();
    assert_eq!(decided, others.iter().copied().chain(["drop"]).map(|name| json!(name)).collect::<Vec<_>>());
    let received: Vec<u8> =
        others.iter().enumerate().flat_map(|(id, name)| line(call(&id.to_string(), name, "{}"))).collect();
    assert_eq!(session.received(), received);

    let shown = session.home.ok(&["log"]).stdout;
    assert!(
        !shown.contains(['\0', '\u{200b}', '\u{202e}']),
        "control or bidi characters reach the terminal: {shown:?}"
    );
    session.end();
}

#[test]
fn trap_17_a_method_that_is_not_exactly_the_call_is_none() {
    let mut session = Session::denying_drop();
    for method in ["TOOLS/CALL", "tools/call ", "Tools/call", "tools/call\\u0000", "tools//call"] {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"drop"}}}}"#);
        let answers = session.exchange([&frame]);
        assert_eq!(answers[0]["error"]["code"], -32_601, "{method}: {answers:?}");
    }
    let tools: Vec<_> = session.home.decisions().iter().map(|decision| decision["tool"].clone()).collect();
    assert!(tools.iter().all(|tool| tool == "echo"), "{tools:?}");
    session.end();
}

#[test]
fn trap_22_the_second_round_of_a_call_is_decided_again() {
    let round = |id: u32, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"confirm","arguments":{{}},"_meta":{}{more}}}}}"#,
            modern_meta()
        )
    };
    let more = r#","inputResponses":{"sure":{"action":"accept"}},"requestState":"s""#;
    let mut session = Session::new();
    session.send_line(round(1, ""));
    assert_eq!(session.answer(&json!(1))["result"]["resultType"], "input_required");
    session.send_line(round(2, more));
    assert_eq!(session.answer(&json!(2))["result"]["content"][0]["text"], "confirmed");

    // An answer in hand is no permission: the rule that came meanwhile holds.
    session.send_line(round(3, ""));
    session.answer(&json!(3));
    let _ = session.home.ok(&["policy", "deny", "confirm"]);
    session.send_line(round(4, more));
    let refusal = session.answer(&json!(4));
    assert_eq!(decision_code(&refusal), "rules/deny");
    assert_eq!(refusal["result"]["resultType"], "complete");
    let expected: Vec<u8> = [round(1, ""), round(2, more), round(3, "")].iter().flat_map(line).collect();
    assert_eq!(session.received(), expected);
    let decided: Vec<_> = session.home.decisions().iter().map(|decision| decision["decision"].clone()).collect();
    assert_eq!(decided, ["allowed", "allowed", "allowed", "denied"]);
    session.end();
}
