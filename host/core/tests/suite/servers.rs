//! The reader on a server's frames, which it never refuses.

use callgate_core::code::Code;
use callgate_core::read::{ClientMessage, IdKey, ServerAnswer, ServerFrame, read_client, read_server};

use crate::support::line;

fn key(raw: &str) -> IdKey {
    let frame = line(&format!(r#"{{"jsonrpc":"2.0","id":{raw},"result":1}}"#));
    match read_client(&frame) {
        Ok(ClientMessage::Response(id)) => id.key,
        other => panic!("{other:?}"),
    }
}

fn answer<'a>(id: &str, is_error: bool, result: Option<&'a str>) -> ServerAnswer<'a> {
    ServerAnswer { key: key(id), is_error, result }
}

fn oddity(text: &[u8]) -> Option<Code> {
    read_server(text).oddity.map(|(code, detail)| {
        assert!(!detail.is_empty());
        code
    })
}

#[test]
fn answers_are_found_wherever_the_id_stands() {
    let result = r#"{"content":[{"type":"text","text":"a\n"}], "isError" : false}"#;
    for text in [
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#),
        format!(r#"{{"result":{result} ,"jsonrpc":"2.0","id":"7"}}"#),
        format!(r#" {{"\u0072esult":{result},"jsonrpc":"2.0","id":7.0}} "#),
    ] {
        let frame = line(&text);
        assert_eq!(read_server(&frame), ServerFrame { answers: vec![answer("7", false, Some(result))], oddity: None });
    }
}

#[test]
fn an_error_is_an_error_or_a_result_that_says_so() {
    for (text, expected) in [
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601}}"#, answer("1", true, None)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#, answer("1", true, Some(r#"{"isError":true}"#))),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{"is\u0045rror":true,"a":1}}"#,
            answer("1", true, Some(r#"{"is\u0045rror":true,"a":1}"#)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":{"isError":true}}}"#,
            answer("1", false, Some(r#"{"a":{"isError":true}}"#)),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"isError":"true"}}"#, answer("1", false, Some(r#"{"isError":"true"}"#))),
        (r#"{"jsonrpc":"2.0","id":1,"result":[true]}"#, answer("1", false, Some("[true]"))),
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, answer("1", false, Some("null"))),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, answer("1", false, Some("{}"))),
    ] {
        assert_eq!(read_server(&line(text)), ServerFrame { answers: vec![expected], oddity: None }, "{text}");
    }
}

#[test]
fn requests_notifications_and_blank_lines_are_nothing_special() {
    for text in [
        r#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"x":{"a":1,"a":2}}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#,
        "",
        "  ",
    ] {
        assert_eq!(read_server(&line(text)), ServerFrame::default(), "{text}");
    }
    assert_eq!(read_server(b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n"), ServerFrame::default());
}

#[test]
fn a_batch_s_answers_are_found_too() {
    let frame = line(
        r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":2,"error":{}}]"#,
    );
    let answers = vec![answer("1", false, Some("{}")), answer("2", true, None)];
    assert_eq!(read_server(&frame), ServerFrame { answers, oddity: None });
}

#[test]
fn what_is_odd_is_noted_and_still_read() {
    for (text, code) in [
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#, Code::RepeatedKey),
        (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, Code::NotAMessage),
        (r#"{"id":1,"result":{}}"#, Code::NotAMessage),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, Code::MixedMessage),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"method":"a"}"#, Code::MixedMessage),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\r\"result\":{}}", Code::CarriageReturn),
        ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", Code::ByteOrderMark),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud800"}}"#, Code::LoneSurrogate),
        (r#"[1,{"jsonrpc":"2.0","id":1,"result":{}}]"#, Code::NotAMessage),
    ] {
        let frame = line(text);
        assert_eq!(oddity(&frame), Some(code), "{text}");
        assert_eq!(read_server(&frame).answers.len(), 1, "{text}");
    }
    assert_eq!(oddity(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Some(Code::Unterminated));
}

#[test]
fn what_no_client_can_read_answers_nothing() {
    for (text, code) in [
        ("server listening on port 3000", Code::NotJson),
        (r#"{"jsonrpc":"2.0","id":1,"result":NaN}"#, Code::NotJson),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}} {}"#, Code::NotJson),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}"#, Code::NotJson),
        (r#"[{"jsonrpc":"2.0","id":1,"result":{}},"#, Code::NotJson),
        (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, Code::BadId),
        (r#"{"jsonrpc":"2.0","id":true,"result":{}}"#, Code::BadId),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, Code::BadId),
        (r#"{"jsonrpc":"2.0","result":{}}"#, Code::NotAMessage),
        (r#"{"jsonrpc":"2.0"}"#, Code::NotAMessage),
        ("7", Code::NotAMessage),
        ("[]", Code::NotAMessage),
    ] {
        let frame = line(text);
        assert_eq!(oddity(&frame), Some(code), "{text}");
        assert_eq!(read_server(&frame).answers, [], "{text}");
    }
}

#[test]
fn a_frame_that_is_not_utf_8_still_answers() {
    let frame = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"text\":\"\xff\",\"isError\":true}}\n";
    assert_eq!(oddity(frame), Some(Code::NotUtf8));
    assert_eq!(read_server(frame).answers, [answer("7", true, None)]);
}
