//! What the agent sees of a refusal: the exact bytes.

use callgate_core::code::Code;
use callgate_core::refusal::{Dialect, Reason, refused_call, refused_frame};
use callgate_core::verdict::{Retry, Rule};
use serde_json::Value;

fn denied() -> Reason {
    Reason {
        code: Code::Policy,
        policy_code: Some("deny".to_owned()),
        message: "deny write_file".to_owned(),
        retry: Retry::Never,
        plugin: Some("rules".to_owned()),
        rule: Some(Rule { path: "/rules/0".to_owned(), policy: None, text: "deny write_file".to_owned() }),
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

const META: &str = concat!(
    r#"{"dev.callgate/decision":{"code":"rules/deny","entry":12,"plugin":"rules","reason":"deny write_file","retry":"never","#,
    r#""rule":{"path":"/rules/0","text":"deny write_file"}}}"#,
);
const SENTENCE: &str =
    "Callgate refused this call (rules): deny write_file. Do not try it again: the same call will be refused again.";

#[test]
fn a_legacy_call_is_refused_by_a_result() {
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":"a\n","result":{{"_meta":{META},"content":[{{"text":"{SENTENCE}","type":"text"}}],"isError":true}}}}"#
    );
    assert_eq!(text(refused_call(r#""a\n""#, Dialect::Legacy, &denied(), Some(12))), expected + "\n");
}

#[test]
fn a_modern_call_is_refused_by_a_complete_result() {
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":1.0,"result":{{"_meta":{META},"content":[{{"text":"{SENTENCE}","type":"text"}}],"isError":true,"resultType":"complete"}}}}"#
    );
    assert_eq!(text(refused_call("1.0", Dialect::Modern, &denied(), Some(12))), expected + "\n");
}

#[test]
fn a_task_augmented_call_is_refused_by_an_error() {
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":18446744073709551616,"error":{{"code":-31001,"data":{{"_meta":{META}}},"message":"{SENTENCE}"}}}}"#
    );
    assert_eq!(text(refused_call("18446744073709551616", Dialect::Task, &denied(), Some(12))), expected + "\n");
}

#[test]
fn a_reason_that_no_plugin_gave_names_none() {
    let reason = Reason::of(Code::DaemonSlow, "the daemon gave no decision within 2 s", Retry::Later);
    let expected = concat!(
        r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"dev.callgate/decision":{"code":"daemon-slow","entry":null,"plugin":null,"#,
        r#""reason":"the daemon gave no decision within 2 s","retry":"later","rule":null}},"content":[{"text":"Callgate could not "#,
        r#"decide this call and refused it: the daemon gave no decision within 2 s. The same call may pass later.","type":"text"}],"#,
        r#""isError":true}}"#,
        "\n",
    );
    assert_eq!(text(refused_call("1", Dialect::Legacy, &reason, None)), expected);
}

#[test]
fn a_frame_is_refused_by_an_invalid_request() {
    let expected = concat!(
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"data":{"code":"repeated-key"},"#,
        r#""message":"callgate refused this message: the key \"\\u{202e}\" stands twice"}}"#,
        "\n",
    );
    assert_eq!(text(refused_frame("7", Code::RepeatedKey, "the key \"\u{202e}\" stands twice")), expected);
}

#[test]
fn hostile_text_reaches_the_agent_spelled_out() {
    let hostile = "\u{1b}]8;;http://x\u{7}a\u{202e}b\u{200b}c\u{2028}d\n\0\u{9b}\u{feff}\u{e0041}";
    let reason = Reason {
        code: Code::Policy,
        policy_code: Some(hostile.to_owned()),
        message: hostile.to_owned(),
        retry: Retry::Changed,
        plugin: Some(hostile.to_owned()),
        rule: Some(Rule { path: hostile.to_owned(), policy: Some(hostile.to_owned()), text: hostile.to_owned() }),
    };
    for dialect in [Dialect::Legacy, Dialect::Modern, Dialect::Task] {
        let line = text(refused_call("1", dialect, &reason, Some(1)));
        let message: Value = serde_json::from_str(&line).unwrap();
        let mut strings = Vec::new();
        collect(&message, &mut strings);
        assert!(
            strings.iter().any(|text| text.contains(r"\u{202e}b\u{200b}c\u{2028}d\u{a}\u{0}\u{9b}\u{feff}\u{e0041}"))
        );
        for text in strings {
            assert!(!text.contains(callgate_core::escape::is_unseen), "{text:?}");
        }
        assert_eq!(line.matches('\n').count(), 1, "one line");
    }
    let line = text(refused_frame("1", Code::NotJson, hostile));
    assert_eq!(line.matches(callgate_core::escape::is_unseen).collect::<String>(), "\n");
}

fn collect(value: &Value, strings: &mut Vec<String>) {
    match value {
        Value::String(text) => strings.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, strings)),
        Value::Object(members) => members.values().for_each(|value| collect(value, strings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn a_code_is_one_text_everywhere() {
    let mut seen = std::collections::HashSet::new();
    for code in Code::ALL {
        assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
        assert!(seen.insert(code.as_str()), "{code} stands twice");
        assert!(code.as_str().bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')), "{code}");
        assert!(
            code.meaning().starts_with(|first: char| first.is_alphabetic() || first == '`')
                && code.meaning().ends_with('.'),
            "{code}: {:?}",
            code.meaning()
        );
    }
}
