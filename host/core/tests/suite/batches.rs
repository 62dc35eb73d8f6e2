//! The reader on arrays of messages.

use callgate_core::code::Code;
use callgate_core::read::ClientMessage;

use crate::support::{line, refused, taken};

const CALL: &str = r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"t"}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;

#[test]
fn a_batch_without_a_call_passes_with_the_ids_of_its_requests() {
    let frame = line(&format!(" [ {PING} , {NOTE},{ANSWER} , {} ] ", PING.replace(":1,", ":1.0,")));
    let ClientMessage::Batch(ids) = taken(&frame) else { panic!("not a batch") };
    assert_eq!(ids.iter().map(|id| id.raw).collect::<Vec<_>>(), ["1", "1.0"]);
    assert!(matches!(taken(&line(&format!("[{NOTE}]"))), ClientMessage::Batch(ids) if ids.is_empty()));
}

#[test]
fn a_batch_with_a_call_is_refused_for_each_of_its_requests() {
    for (batch, answer) in [
        (format!("[{CALL}]"), vec!["\"c\""]),
        (format!("[{PING},{CALL}]"), vec!["1", "\"c\""]),
        (format!("[{CALL},{NOTE},{ANSWER},{PING}]"), vec!["\"c\"", "1"]),
        (format!("[{},{PING}]", CALL.replace(r#""id":"c","#, "")), vec!["1"]),
        (format!("[{},{PING}]", CALL.replace("tools/", r"tools\/")), vec!["\"c\"", "1"]),
        (format!("[{},{PING}]", CALL.replace(r#""id":"c""#, r#""id":"c","id":"d""#)), vec!["1"]),
        (format!("[{},{PING}]", CALL.replace(r#""id":"c""#, r#""id":null"#)), vec!["1"]),
        (format!("[1,{CALL},[{PING}]]"), vec!["\"c\""]),
    ] {
        assert_eq!(refused(&line(&batch)), (Code::BatchCall, answer), "{batch}");
    }
}

#[test]
fn a_batch_that_cannot_be_read_is_refused_whole() {
    for (batch, code, answer) in [
        ("[]".to_owned(), Code::NotAMessage, vec![]),
        (" [ ] ".to_owned(), Code::NotAMessage, vec![]),
        ("[1]".to_owned(), Code::NotAMessage, vec![]),
        (format!("[[{CALL}]]"), Code::NotAMessage, vec![]),
        (format!("[{PING},null]"), Code::NotAMessage, vec!["1"]),
        (format!("[{PING},{{}}]"), Code::NotAMessage, vec!["1"]),
        (format!("[{PING},{}]", PING.replace("id", "ID")), Code::LookAlikeKey, vec!["1"]),
        (format!("[{},{PING}]", PING.replace(":1", ":true")), Code::BadId, vec!["1"]),
        (format!("[{PING},{}]", NOTE.replace('}', r#","x":1,"x":1}"#)), Code::RepeatedKey, vec!["1"]),
        (format!("[{PING}\r]"), Code::CarriageReturn, vec!["1"]),
        (format!("[{PING},]"), Code::NotJson, vec![]),
        (format!("[{PING}]{CALL}"), Code::NotJson, vec![]),
        (format!("[{PING}"), Code::NotJson, vec![]),
    ] {
        assert_eq!(refused(&line(&batch)), (code, answer), "{batch}");
    }
}

#[test]
fn one_message_s_faults_are_not_its_neighbour_s() {
    // The repeated key lies deep in a message that is no call.
    let deep = PING.replace('}', r#","params":{"a":{"b":1,"b":1}}}"#);
    assert!(matches!(taken(&line(&format!("[{deep},{PING}]"))), ClientMessage::Batch(ids) if ids.len() == 2));
}
