//! Traps 10 to 13 and 34: what lies between bytes and frames.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use callgate_tests::frame::{call, line, ping};
use callgate_tests::home::Home;
use callgate_tests::relay;
use callgate_tests::session::Session;
use callgate_tests::wait;
use serde_json::{Value, json};

use super::{anomalies_are, are_forwarded, are_refused, by_kind, decision_code, refused};

#[test]
fn trap_10_a_frame_has_a_longest_length_and_the_next_one_is_read() {
    let mut session = Session::within(Home::configured("relay: { frame_bytes_max: 64KiB }"));
    let of_length = |bytes: usize| {
        let empty = call("1", "never", r#"{"message":""}"#).len();
        call("1", "never", &format!(r#"{{"message":"{}"}}"#, "x".repeat(bytes - empty)))
    };
    let longest = of_length(64 * 1024 - 1);
    session.exchange([&longest]);
    assert_eq!(session.received_besides_barriers(), line(&longest));
    for too_long in [of_length(64 * 1024), of_length(300_000), "x".repeat(1_000_000)] {
        assert_eq!(session.exchange([&too_long]), [json!(null); 0], "what was not read whole has no id to answer");
    }
    assert_eq!(session.received_besides_barriers(), line(&longest));
    anomalies_are(&session, &["frame-too-long"; 3]);

    // A server's frame of any length passes; only what has to be judged has to fit.
    assert_eq!(
        session.call("2", "big", r#"{"bytes":3000000}"#)["result"]["content"][0]["text"].as_str().unwrap().len(),
        3_000_000
    );
    session.end();
}

#[test]
fn trap_11_reads_and_writes_of_any_size_make_the_same_frames() {
    let mut session = Session::denying_drop();
    let frames =
        [call("1", "echo", r#"{"message":"é🦀"}"#), call("2", "drop", "{}"), ping("3"), call("4", "trickle", "{}")];
    let bytes: Vec<u8> = frames.iter().flat_map(line).collect();
    for byte in &bytes {
        session.send([*byte]);
    }
    let mut ids: Vec<Value> = (0..4).map(|_| session.message()["id"].clone()).collect();
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [1, 2, 3, 4].map(|id| json!(id)));
    let expected: Vec<u8> = [&frames[0], &frames[2], &frames[3]].iter().flat_map(line).collect();
    assert_eq!(by_kind(&session.received()), by_kind(&expected));

    // Several frames and a half in one write, the rest in another.
    let (first, rest) = bytes.split_at(bytes.len() - 20);
    session.send(first);
    session.answer(&json!(3));
    session.send(rest);
    session.answer(&json!(4));
    assert_eq!(by_kind(&session.received()), by_kind(&[expected.as_slice(), expected.as_slice()].concat()));
    session.settled();
    session.end();
}

#[test]
fn trap_11_a_large_call_and_a_large_answer_pass_whole() {
    let mut session = Session::new();
    for bytes in [0, 1, 4095, 65_536, 524_288, 4_000_000] {
        let message = "é".repeat(bytes / 2);
        let answer = session.call("1", "echo", &json!({ "message": message }).to_string());
        assert!(answer["result"]["content"][0]["text"] == message.as_str(), "{bytes} bytes came back otherwise");
    }
    session.end();
}

#[test]
fn trap_12_line_ends_are_forwarded_as_they_came() {
    let sent = [
        line(format!("{}\r", call("1", "never", "{}"))),
        b"\n".to_vec(),
        b"\r\n".to_vec(),
        b"  \t\n".to_vec(),
        line(call("2", "never", "{\"message\":\"\u{2028}\u{2029}\u{85}\u{b}\"}").replace('\u{b}', "\\u000b")),
    ];
    let mut session = Session::new();
    session.send(sent.concat());
    session.settled();
    assert_eq!(by_kind(&session.received_besides_barriers()), by_kind(&sent.concat()));
    anomalies_are(&session, &[]);
    session.end();
}

#[test]
fn trap_12_a_carriage_return_inside_a_frame_is_refused() {
    // Where a server takes it for the end of a line, the middle of this `ping` is a call.
    let hidden = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\r{}\r\"method\":\"ping\"}}", call("9", "echo", "{}"));
    let spaced = "{\"jsonrpc\":\"2.0\",\r\"id\":1,\"method\":\"ping\"}";
    are_refused([
        refused(spaced, "carriage-return", json!(1)),
        refused(format!("{}\r\r", ping("1")), "carriage-return", json!(1)),
        refused(format!("\r{}", ping("1")), "carriage-return", json!(1)),
        refused(format!("{}\r ", ping("1")), "carriage-return", json!(1)),
        refused(format!("\r{}\r", call("1", "echo", "{}")), "carriage-return", json!(1)),
        refused(&hidden, "not-json", None),
        refused(
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":\"\r\"}}",
            "carriage-return",
            None,
        ),
    ]);
    are_forwarded([r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\r\n"}}"#]);
}

#[test]
fn trap_13_an_unterminated_last_line_is_not_forwarded() {
    for tail in [call("1", "echo", "{}"), ping("1"), "{".to_owned()] {
        let mut session = Session::new();
        session.settled();
        let before = session.received();
        session.send(&tail);
        let (home, ended) = session.close();
        assert!(ended.lines.is_empty() && ended.code() == 0, "{ended:?}");
        assert_eq!(relay::recorded(&home.path().join("received")), before);
        home.entry("the tail's entry", |entry| entry.kind == "anomaly" && entry.body["code"] == "unterminated");
    }
}

#[test]
fn trap_34_a_client_that_does_not_read_stops_nothing_for_good() {
    const CALLS: usize = 20_000;
    const FLOODED: usize = 200;
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "drop"]);
    let mut client = home.relay("fs").unread().start(relay::fixture(&home.path().join("received")));
    let mut stdin = client.take_stdin();
    let written = Arc::new(AtomicUsize::new(0));
    let writing = {
        let written = Arc::clone(&written);
        thread::spawn(move || {
            stdin
                .write_all(&line(call("\"flood\"", "flood", &format!(r#"{{"frames":{FLOODED},"bytes":50000}}"#))))
                .unwrap();
            for id in 0..CALLS {
                let (tool, id) = (if id % 2 == 0 { "drop" } else { "echo" }, id.to_string());
                stdin.write_all(&line(call(&id, tool, r#"{"message":"m"}"#))).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
            stdin
        })
    };
    // Until every pipe and queue between here and there is full, or all of it found room.
    let (mut seen, mut still) = (0, 0);
    wait::until_true("the writer to stand still", || {
        let now = written.load(Ordering::Relaxed);
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
        still > 200 || now == CALLS
    });
    client.read();
    let mut answers: Vec<Option<Value>> = vec![None; CALLS];
    let (mut left, mut flooded) = (CALLS, 0);
    while left > 0 || flooded < FLOODED {
        let message = client.message();
        let Some(id) = message["id"].as_u64().and_then(|id| usize::try_from(id).ok()) else {
            flooded += usize::from(message["method"] == "notifications/message");
            continue;
        };
        assert!(answers[id].replace(message).is_none(), "{id} is answered twice");
        left -= 1;
    }
    drop(writing.join().unwrap());
    assert_eq!(client.close().code(), 0);
    for (id, answer) in answers.iter().flatten().enumerate() {
        // What there is no room for waits, and is neither dropped nor refused.
        if id % 2 == 0 {
            assert_eq!(decision_code(answer), "rules/deny", "{answer}");
        } else {
            assert_eq!(answer["result"]["content"][0]["text"], "m", "{answer}");
        }
    }
}
