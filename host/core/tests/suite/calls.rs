//! The reader on a `tools/call`.

use callgate_core::code::Code;
use callgate_core::read::{ClientMessage, ToolCall};
use callgate_core::refusal::Dialect;

use crate::support::{line, refused, taken, tools_call};

fn read(frame: &[u8]) -> ToolCall<'_> {
    match taken(frame) {
        ClientMessage::Call(call) => call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_is_read_in_place() {
    let frame = line(
        r#" {"params":{"arguments": {"b" : 1, "a":[1.0,{"x":"\u0041"}]} ,"name":"re\u0061d","zzz":{}},"id":"a\n","method":"tools/call","jsonrpc":"2.0"}"#,
    );
    let call = read(&frame);
    assert_eq!(call.id.raw, r#""a\n""#);
    assert_eq!(call.tool, "read");
    assert_eq!(call.arguments, Some(r#"{"b" : 1, "a":[1.0,{"x":"\u0041"}]}"#));
    assert_eq!(call.dialect, Dialect::Legacy);
    assert_eq!((call.protocol_version, call.client), (None, None));
}

#[test]
fn escaped_spellings_are_what_they_spell() {
    for method in [
        r"tools\/call",
        r"\u0074ools/call",
        r"tools/c\u0061ll",
        r"\u0074\u006f\u006F\u006c\u0073\u002f\u0063\u0061\u006c\u006c",
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"t"}}}}"#);
        assert_eq!(read(&line(&text)).tool, "t", "{text}");
    }
    let keys = r#"{"\u006asonrpc":"2.0","\u0069d":1,"\u006dethod":"tools/call","p\u0061rams":{"n\u0061me":"t","\u0061rguments":{"x":1}}}"#;
    assert_eq!(read(&line(keys)).arguments, Some(r#"{"x":1}"#));
}

#[test]
fn a_tool_s_name_is_taken_byte_for_byte() {
    for name in ["name ", "NAME", "rеad", "a\u{200b}b", "a/b", "", "ﬁ", "*", "é", "e\u{301}"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}"}}}}"#);
        assert_eq!(read(&line(&text)).tool, name);
    }
    let nul = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t\u0000"}}"#;
    assert_eq!(read(&line(nul)).tool, "t\0");
}

#[test]
fn a_call_has_the_form_that_the_specification_gives_it() {
    let odd = [
        "",
        r#","params":null"#,
        r#","params":[]"#,
        r#","params":"t""#,
        r#","params":{}"#,
        r#","params":{"arguments":{}}"#,
        r#","params":{"name":null}"#,
        r#","params":{"name":1}"#,
        r#","params":{"name":["t"]}"#,
        r#","params":{"name":"t","arguments":null}"#,
        r#","params":{"name":"t","arguments":[]}"#,
        r#","params":{"name":"t","arguments":"{}"}"#,
        r#","params":{"name":"t","arguments":1}"#,
    ];
    for params in odd {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call"{params}}}"#);
        assert_eq!(refused(&line(&text)), (Code::BadCall, vec!["1"]), "{text}");
    }
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{}"}}}}"#,
        "t".repeat(16 * 1024 + 1)
    );
    assert_eq!(refused(&line(&long)).0, Code::BadCall);
    assert_eq!(read(&line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#)).arguments, None);
    assert_eq!(read(&line(&tools_call("{}"))).arguments, Some("{}"));
}

#[test]
fn a_call_without_an_id_is_refused_in_silence() {
    for params in ["", r#","params":{"name":"t"}"#, r#","params":{"name":"t","arguments":{"a":1,"a":2}}"#] {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"tools/call"{params}}}"#);
        assert_eq!(refused(&line(&text)), (Code::NotificationCall, vec![]), "{text}");
    }
}

#[test]
fn the_dialect_says_how_a_refusal_has_to_look() {
    let read = |extra: &str| {
        let frame =
            line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t"{extra}}}}}"#));
        read(&frame).dialect
    };
    let meta = |version: &str| format!(r#","_meta":{{"io.modelcontextprotocol/protocolVersion":{version}}}"#);
    assert_eq!(read(""), Dialect::Legacy);
    assert_eq!(read(&meta("\"2025-11-25\"")), Dialect::Legacy);
    assert_eq!(read(&meta("\"2026-07-27\"")), Dialect::Legacy);
    assert_eq!(read(&meta("null")), Dialect::Legacy);
    assert_eq!(read(&meta("20260728")), Dialect::Legacy);
    assert_eq!(read(&meta("\"2026-07-28\"")), Dialect::Modern);
    assert_eq!(read(&meta("\"2026\\u002d07-28\"")), Dialect::Modern);
    assert_eq!(read(&meta("\"2027-01-01\"")), Dialect::Modern);
    assert_eq!(read(r#","_meta":[]"#), Dialect::Legacy);
    assert_eq!(read(r#","task":{"ttl":1}"#), Dialect::Task);
    assert_eq!(read(r#","task":{}"#), Dialect::Task);
    assert_eq!(read(r#","task":null"#), Dialect::Legacy);
    assert_eq!(read(&format!(r#","task":{{}}{}"#, meta("\"2026-07-28\""))), Dialect::Task);
}

#[test]
fn a_modern_call_says_who_its_client_is() {
    let frame = line(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c\u0061","version":"1"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"t"}}"#,
    );
    let call = read(&frame);
    assert_eq!(call.client.as_deref(), Some("ca"));
    assert_eq!(call.protocol_version.as_deref(), Some("2026-07-28"));
}
