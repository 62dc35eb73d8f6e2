//! What a client or a server can put on the wire to be read differently on either side of the gate, one test each.
//!
//! The server behind the gate keeps every byte that reached it: a frame that is refused is not among them, one that is
//! forwarded stands there as it was sent.

mod calls;
mod ids;
mod parsing;
mod processes;
mod replies;
mod streams;

use callgate_tests::frame;
use callgate_tests::session::{Session, contains};
use callgate_tests::wait;
use serde_json::{Value, json};

/// A frame that has to be refused.
struct Refused {
    frame: Vec<u8>,
    code: &'static str,
    /// The id that is answered; `None` when none can be read without doubt.
    answered: Option<Value>,
}

fn refused(frame: impl AsRef<[u8]>, code: &'static str, answered: impl Into<Option<Value>>) -> Refused {
    Refused { frame: frame.as_ref().to_owned(), code, answered: answered.into() }
}

/// Sends frames that have to be refused, and sees that nothing of them reached the server, that the client was answered
/// exactly where it can be, and that each left its entry. A call between them has to pass: the relay stays in step.
#[track_caller]
fn are_refused(frames: impl IntoIterator<Item = Refused>) {
    let frames: Vec<Refused> = frames.into_iter().collect();
    let mut session = Session::new();
    for wrong in &frames {
        let shown = String::from_utf8_lossy(&wrong.frame[..wrong.frame.len().min(300)]);
        let answers = session.exchange([&wrong.frame]);
        let expected: Vec<Value> = wrong.answered.iter().map(|id| refusal_of_frame(id, wrong.code)).collect();
        assert_eq!(without_messages(answers), expected, "{shown}");
        assert_eq!(String::from_utf8_lossy(&session.received_besides_barriers()), "", "{shown}");
    }
    let codes: Vec<&str> = frames.iter().map(|wrong| wrong.code).collect();
    anomalies_are(&session, &codes);
    session.end();
}

/// Sends frames that have to pass, and sees that they reached the server as they were sent, line feed and all.
#[track_caller]
fn are_forwarded<F: AsRef<[u8]>>(frames: impl IntoIterator<Item = F>) {
    let frames: Vec<F> = frames.into_iter().collect();
    let mut session = Session::new();
    let mut expected = Vec::new();
    for right in &frames {
        session.send_line(right);
        session.settled();
        expected.extend(frame::line(right));
        let received = session.received_besides_barriers();
        assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(&expected));
        assert_eq!(received, expected);
    }
    anomalies_are(&session, &[]);
    session.end();
}

#[track_caller]
fn anomalies_are(session: &Session, codes: &[&str]) {
    // Written behind the client's back: the last of them may still be on its way.
    wait::until_true(&format!("{} anomalies", codes.len()), || session.anomalies().len() >= codes.len());
    assert_eq!(session.anomalies(), codes);
}

/// The answer to a refused frame, less its sentence.
fn refusal_of_frame(id: &Value, code: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32_600, "data": { "code": code } } })
}

/// Answers less the sentences of their errors, which have to be there.
#[track_caller]
fn without_messages(mut answers: Vec<Value>) -> Vec<Value> {
    for answer in &mut answers {
        let message = answer["error"].as_object_mut().and_then(|error| error.remove("message"));
        assert!(message.is_some_and(|message| message.as_str().is_some_and(|text| !text.is_empty())), "{answer}");
    }
    answers
}

/// The calls, then the rest: each keeps its order, and neither waits for the other.
pub(crate) fn by_kind(bytes: &[u8]) -> String {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let (calls, rest): (Vec<_>, Vec<_>) = lines.partition(|line| contains(line, b"tools/call"));
    String::from_utf8([calls.concat(), rest.concat()].concat()).expect("frames are UTF-8")
}

/// The code of the decision in a refused call's answer.
#[track_caller]
fn decision_code(answer: &Value) -> &str {
    let decision = &answer["result"]["_meta"]["dev.callgate/decision"];
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    decision["code"].as_str().unwrap_or_else(|| panic!("no decision in {answer}"))
}
