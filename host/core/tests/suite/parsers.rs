//! The reader against three parsers that know nothing of it.
//!
//! What it takes, all of them read, and read alike. What any of them reads as a `tools/call`, under any habit that was seen
//! in the wild, it takes as a call or refuses; never as anything else.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use callgate_core::read::{ClientMessage, Notification, Request, ToolCall, Unreadable, read_client};
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::dice::{Dice, joined, object, shuffle, string, value, write};

/// What a parser makes of a text, with every member of an object, in order. Numbers in the parser's own words.
#[derive(Clone, PartialEq, Debug)]
enum Tree {
    Plain(String),
    Text(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// The one member of this name; `None` when there is none or more than one.
    fn only(&self, name: &str) -> Option<&Tree> {
        let Self::Object(members) = self else { return None };
        let mut named = members.iter().filter(|(key, _)| key == name);
        named.next().filter(|_| named.next().is_none()).map(|(_, value)| value)
    }

    /// Whether a server with this parser may see a `tools/call` here: whichever repeated key it takes, however it matches
    /// keys, and in a batch too.
    fn may_be_call(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Text(_) => false,
            Self::Array(messages) => {
                messages.iter().any(|message| matches!(message, Self::Object(_)) && message.may_be_call())
            }
            Self::Object(members) => members.iter().any(|(key, value)| {
                let key = key.split('\0').next().unwrap_or_default().trim().to_lowercase();
                key == "method" && *value == Self::Text("tools/call".to_owned())
            }),
        }
    }
}

/// `serde_json`, which keeps no repeated key of its own accord.
mod serde_json_tree {
    use super::*;

    impl<'de> Deserialize<'de> for Tree {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(TreeVisitor)
        }
    }

    struct TreeVisitor;

    impl<'de> Visitor<'de> for TreeVisitor {
        type Value = Tree;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any JSON")
        }

        fn visit_unit<E>(self) -> Result<Tree, E> {
            Ok(Tree::Plain("null".to_owned()))
        }

        fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
            Ok(Tree::Plain(value.to_string()))
        }

        fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
            Ok(Tree::Plain(value.to_string()))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
            Ok(Tree::Plain(value.to_string()))
        }

        fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
            Ok(Tree::Plain(format!("{value:?}")))
        }

        fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
            Ok(Tree::Text(value.to_owned()))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Tree, A::Error> {
            let mut array = Vec::new();
            while let Some(value) = values.next_element()? {
                array.push(value);
            }
            Ok(Tree::Array(array))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
            let mut object = Vec::new();
            while let Some(member) = members.next_entry()? {
                object.push(member);
            }
            Ok(Tree::Object(object))
        }
    }
}

fn by_serde_json(text: &[u8]) -> Option<Tree> {
    serde_json::from_slice(text).ok()
}

/// `serde_json` refuses numbers beyond an f64, which JSON has: there it is only asked whether it knows of nothing else.
fn is_beyond_serde_json(text: &[u8]) -> bool {
    let refused =
        serde_json::from_slice::<Tree>(text).is_err_and(|error| error.to_string().starts_with("number out of range"));
    refused && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// The parser of pydantic, on which the Python SDK stands; `lenient` as it is set there.
fn by_jiter(text: &[u8], lenient: bool) -> Option<Tree> {
    fn tree(value: &jiter::JsonValue<'_>) -> Tree {
        match value {
            jiter::JsonValue::Null => Tree::Plain("null".to_owned()),
            jiter::JsonValue::Bool(value) => Tree::Plain(value.to_string()),
            jiter::JsonValue::Int(value) => Tree::Plain(value.to_string()),
            jiter::JsonValue::BigInt(value) => Tree::Plain(value.to_string()),
            jiter::JsonValue::Float(value) => Tree::Plain(format!("{value:?}")),
            jiter::JsonValue::Str(text) => Tree::Text(text.to_string()),
            jiter::JsonValue::Array(values) => Tree::Array(values.iter().map(tree).collect()),
            jiter::JsonValue::Object(members) => {
                Tree::Object(members.iter().map(|(key, value)| (key.to_string(), tree(value))).collect())
            }
        }
    }
    jiter::JsonValue::parse(text, lenient).ok().map(|value| tree(&value))
}

fn by_json_event_parser(text: &[u8]) -> Option<Tree> {
    use json_event_parser::{JsonEvent, SliceJsonParser};

    fn tree(first: JsonEvent<'_>, parser: &mut SliceJsonParser<'_>) -> Option<Tree> {
        match first {
            JsonEvent::String(text) => Some(Tree::Text(text.into_owned())),
            JsonEvent::Number(text) => Some(Tree::Plain(text.into_owned())),
            JsonEvent::Boolean(value) => Some(Tree::Plain(value.to_string())),
            JsonEvent::Null => Some(Tree::Plain("null".to_owned())),
            JsonEvent::StartArray => {
                let mut values = Vec::new();
                loop {
                    match parser.parse_next().ok()? {
                        JsonEvent::EndArray => return Some(Tree::Array(values)),
                        event => values.push(tree(event, parser)?),
                    }
                }
            }
            JsonEvent::StartObject => {
                let mut members = Vec::new();
                loop {
                    match parser.parse_next().ok()? {
                        JsonEvent::EndObject => return Some(Tree::Object(members)),
                        JsonEvent::ObjectKey(key) => {
                            let event = parser.parse_next().ok()?;
                            members.push((key.into_owned(), tree(event, parser)?));
                        }
                        _ => return None,
                    }
                }
            }
            JsonEvent::EndArray | JsonEvent::EndObject | JsonEvent::ObjectKey(_) | JsonEvent::Eof => None,
        }
    }
    let mut parser = SliceJsonParser::new(text);
    let first = parser.parse_next().ok()?;
    let tree = tree(first, &mut parser)?;
    (parser.parse_next().ok()? == JsonEvent::Eof).then_some(tree)
}

type Parser = fn(&[u8]) -> Option<Tree>;

const PARSERS: [(&str, Parser); 3] = [
    ("serde_json", by_serde_json),
    ("jiter", |text| by_jiter(text, false)),
    ("json-event-parser", by_json_event_parser),
];

/// The texts that servers were seen to make of the bytes of one frame.
fn views(frame: &[u8]) -> Vec<Cow<'_, [u8]>> {
    // Without the line ending; behind a mark; cut at every carriage return, as the official Python server does.
    let line = frame.strip_suffix(b"\n").unwrap_or(frame);
    let mut views: Vec<Cow<'_, [u8]>> = vec![line.into()];
    views.extend(line.strip_prefix("\u{feff}".as_bytes()).map(Cow::from));
    views.extend(line.split(|byte| matches!(byte, b'\r' | b'\n')).map(Cow::from));
    // Decoded with U+FFFD where it is not UTF-8, and with half a surrogate pair let pass.
    let lossy = String::from_utf8_lossy(line);
    views.push(lossy.as_bytes().to_vec().into());
    views.push(without_surrogates(&lossy).into_bytes().into());
    views
}

/// The text with U+FFFD for every escaped surrogate.
fn without_surrogates(text: &str) -> String {
    let mut parts = text.split("\\u");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let surrogate = part
            .get(..4)
            .is_some_and(|digits| u32::from_str_radix(digits, 16).is_ok_and(|unit| (0xd800..0xe000).contains(&unit)));
        whole.push_str("\\u");
        whole.push_str(if surrogate { "fffd" } else { "" });
        whole.push_str(part.get(if surrogate { 4.. } else { 0.. }).unwrap_or_default());
    }
    whole
}

/// The trees that some server may see in a frame.
fn trees(frame: &[u8]) -> Vec<Tree> {
    let mut trees = Vec::new();
    for view in views(frame) {
        trees.extend(PARSERS.iter().filter_map(|(_, parse)| parse(&view)));
        trees.extend(by_jiter(&view, true));
        // Parsers that stop behind the first document, and take the next one for another message.
        trees.extend(serde_json::Deserializer::from_slice(&view).into_iter::<Tree>().map_while(Result::ok));
    }
    trees
}

/// A value's tree by one parser, from its text alone.
fn alone(parse: Parser, text: &str) -> Tree {
    parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
}

/// Holds what was taken against what the parsers read.
fn check_taken(frame: &[u8], message: &ClientMessage<'_>) {
    if *message == ClientMessage::Blank {
        return;
    }
    for (name, parse) in PARSERS {
        let Some(tree) = parse(frame) else {
            let excused = name == "serde_json" && is_beyond_serde_json(frame);
            assert!(excused, "{name} cannot read {}", String::from_utf8_lossy(frame));
            continue;
        };
        let text = |text: &str| Some(Tree::Text(text.to_owned()));
        match message {
            ClientMessage::Call(ToolCall { id, tool, arguments, .. }) => {
                let params = tree.only("params").unwrap();
                assert_eq!(tree.only("method").cloned(), text("tools/call"), "{name}");
                assert_eq!(tree.only("id"), Some(&alone(parse, id.raw)), "{name}");
                assert_eq!(params.only("name").cloned(), text(tool), "{name}");
                assert_eq!(
                    params.only("arguments").cloned(),
                    arguments.map(|arguments| alone(parse, arguments)),
                    "{name}"
                );
            }
            ClientMessage::Request(Request { id, method, .. }) => {
                assert_eq!(tree.only("method").cloned(), text(method), "{name}");
                assert_eq!(tree.only("id"), Some(&alone(parse, id.raw)), "{name}");
            }
            ClientMessage::Notification(Notification { method, .. }) => {
                assert_eq!(tree.only("method").cloned(), text(method), "{name}");
                assert_eq!(tree.only("id"), None, "{name}");
            }
            ClientMessage::Response(id) => {
                assert_eq!(tree.only("method"), None, "{name}");
                assert_eq!(tree.only("id"), Some(&alone(parse, id.raw)), "{name}");
            }
            ClientMessage::Batch(ids) => {
                let Tree::Array(messages) = tree else { panic!("{name}: {tree:?}") };
                let asked: Vec<_> = messages.iter().filter(|message| message.only("method").is_some()).collect();
                let expected: Vec<_> = ids.iter().map(|id| alone(parse, id.raw)).collect();
                assert_eq!(
                    asked.iter().filter_map(|message| message.only("id").cloned()).collect::<Vec<_>>(),
                    expected,
                    "{name}"
                );
            }
            ClientMessage::Blank => {}
        }
    }
}

/// Holds a refusal's answer against what the parsers read: every id is one that a parser sees, and sees once.
fn check_refused(frame: &[u8], refused: &Unreadable<'_>) {
    for raw in &refused.answer {
        assert!(
            trees(frame).iter().any(|tree| match tree {
                Tree::Object(_) => tree.only("id") == Some(&alone(by_json_event_parser, raw)),
                Tree::Array(messages) =>
                    messages.iter().any(|message| message.only("id") == Some(&alone(by_json_event_parser, raw))),
                Tree::Plain(_) | Tree::Text(_) => false,
            }),
            "{raw}: {}",
            String::from_utf8_lossy(frame)
        );
    }
}

fn check(frame: &[u8]) -> String {
    let read = read_client(frame);
    match &read {
        Ok(message) => check_taken(frame, message),
        Err(refused) => check_refused(frame, refused),
    }
    if !matches!(read, Ok(ClientMessage::Call(_)) | Err(_)) {
        let call = trees(frame).into_iter().find(Tree::may_be_call);
        assert_eq!(call, None, "{read:?} {}", String::from_utf8_lossy(frame));
    }
    match read {
        Ok(ClientMessage::Call(_)) => "call".to_owned(),
        Ok(ClientMessage::Request(_)) => "request".to_owned(),
        Ok(ClientMessage::Notification(_)) => "notification".to_owned(),
        Ok(ClientMessage::Response(_)) => "response".to_owned(),
        Ok(ClientMessage::Batch(_)) => "batch".to_owned(),
        Ok(ClientMessage::Blank) => "blank".to_owned(),
        Err(refused) => refused.code.to_string(),
    }
}

const METHODS: [&str; 8] = [
    "tools/call",
    "tools/call",
    "tools/call",
    "ping",
    "notifications/cancelled",
    "initialize",
    "TOOLS/CALL",
    "tools/call ",
];
const IDS: [&str; 16] = [
    "1",
    "7",
    "\"a\"",
    "\"7\"",
    "1.0",
    "1e0",
    "-1",
    "18446744073709551615",
    "9007199254740993",
    "\"\\u0061\"",
    "1.5",
    "null",
    "true",
    "[1]",
    "\"\\ud800\"",
    "{}",
];
const KEYS: [&str; 22] = [
    "x",
    "method",
    "id",
    "params",
    "result",
    "error",
    "jsonrpc",
    "name",
    "arguments",
    "_meta",
    "task",
    "Method",
    "METHOD",
    "ID",
    "method\0",
    "me\u{200b}thod",
    "param\u{17f}",
    "Name",
    "method ",
    "\u{feff}method",
    "requestId",
    "ta\u{17f}\u{212a}",
];
const RAW: [&str; 20] = [
    "1",
    "\"tools/call\"",
    "\"ping\"",
    "{}",
    "[]",
    "null",
    "1e400",
    "1e999999999",
    "01",
    "1.",
    "NaN",
    "-Infinity",
    "\"\\ud800\"",
    "\"\\udc00\"",
    "\"\\x\"",
    "\"\u{1}\"",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1,\"\\u0061\":2}",
    "[1,]",
    "{\"b\":{\"c\":[{\"c\":1,\"c\":1}]}}",
];

fn member(key: &str, value: &str, dice: &mut Dice) -> String {
    format!("{}:{value}", string(key, dice))
}

fn message(dice: &mut Dice) -> String {
    let mut members = Vec::new();
    let version = if dice.once_in(24) { dice.pick(&["\"1.0\"", "2.0", "\"\\u0032.0\""]) } else { "\"2.0\"" };
    if !dice.once_in(24) {
        members.push(member("jsonrpc", version, dice));
    }
    if !dice.once_in(8) {
        let id = dice.pick(&IDS);
        members.push(member("id", id, dice));
    }
    if dice.once_in(12) {
        let name = dice.pick(&["result", "error"]);
        members.push(member(name, "{}", dice));
    } else {
        let method = dice.pick(&METHODS);
        let method = string(method, dice);
        members.push(member("method", &method, dice));
    }
    if !dice.once_in(8) {
        let params = params(dice);
        members.push(member("params", &params, dice));
    }
    if dice.once_in(4) {
        let extra = extra(dice);
        members.push(extra);
    }
    shuffle(&mut members, dice);
    joined("{", members, "}", dice)
}

fn params(dice: &mut Dice) -> String {
    if dice.once_in(16) {
        return dice.pick(&RAW).to_owned();
    }
    let mut members = Vec::new();
    if !dice.once_in(12) {
        let name = dice.pick(&["t", "read_file", "é", "", "tools/call", "t\0"]);
        let name = string(name, dice);
        members.push(member("name", &name, dice));
    }
    if !dice.once_in(6) {
        let arguments = object(dice, 3);
        let arguments = if dice.once_in(12) { dice.pick(&RAW).to_owned() } else { write(&arguments, dice) };
        members.push(member("arguments", &arguments, dice));
    }
    if dice.once_in(3) {
        let meta = format!(r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28",{}}}"#, extra(dice));
        members.push(member("_meta", &meta, dice));
    }
    if dice.once_in(4) {
        let extra = extra(dice);
        members.push(extra);
    }
    shuffle(&mut members, dice);
    joined("{", members, "}", dice)
}

fn extra(dice: &mut Dice) -> String {
    let key = dice.pick(&KEYS);
    let any = value(dice, 2);
    let value = if dice.once_in(2) { dice.pick(&RAW).to_owned() } else { write(&any, dice) };
    member(key, &value, dice)
}

/// A frame: a message or a batch, sometimes with something before, behind or inside that does not belong there.
fn frame(entropy: Vec<u8>) -> Vec<u8> {
    let dice = &mut Dice::new(entropy);
    let mut text = if dice.once_in(8) {
        let messages = (0..dice.roll(4)).map(|_| message(dice)).collect();
        joined("[", messages, "]", dice)
    } else {
        message(dice)
    };
    if dice.once_in(8) {
        let behind = dice.pick(&["{}", " x", ",", "}", "/**/", "//", "\0", "\r", " \r ", "[]", "\u{a0}"]);
        text.push_str(behind);
    }
    if dice.once_in(12) {
        let before = dice.pick(&["\u{feff}", "\0", "\r", ",", "x", "[", "\u{2028}"]);
        text.insert_str(0, before);
    }
    let mut frame = text.into_bytes();
    let mutations = if dice.once_in(2) { dice.roll(4) } else { 0 };
    for _ in 0..mutations {
        let at = (dice.roll(256) * 256 + dice.roll(256)) % (frame.len() + 1);
        mutate(&mut frame, at, dice);
    }
    let ending = dice.pick(&["\n", "\r\n"]);
    frame.extend_from_slice(ending.as_bytes());
    frame
}

fn mutate(frame: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    const BYTES: &[u8] = b"\r\0\"\\{}[],:\n \x1f\xff\xc3\xed\x7fmM1-";
    let byte = BYTES[dice.roll(BYTES.len())];
    match dice.roll(5) {
        0 => frame.insert(at, byte),
        1 if at < frame.len() => frame[at] = byte,
        2 if at < frame.len() => frame[at] ^= 1 << dice.roll(8),
        3 => {
            let end = (at + 1 + dice.roll(8)).min(frame.len());
            frame.drain(at.min(end)..end);
        }
        // A part of the frame once more, which makes repeated keys and second documents.
        _ => {
            let end = (at + 1 + dice.roll(64)).min(frame.len());
            let part = frame[at.min(end)..end].to_vec();
            frame.splice(end..end, part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn parsers_agree_about_what_is_taken_and_none_sees_a_call_in_anything_else(entropy in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&frame(entropy));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
        check(&[&bytes[..], b"\n"].concat());
        callgate_core::read::read_server(&bytes);
    }

    #[test]
    fn a_server_frame_is_read_without_a_panic(entropy in prop::collection::vec(any::<u8>(), 0..300)) {
        callgate_core::read::read_server(&frame(entropy));
    }
}

/// The frames above are worth nothing if they are all refused for the same reason, or all taken.
#[test]
fn the_frames_that_are_tried_are_of_every_kind() {
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..5000 {
        let entropy = (0..300).map(|_| byte()).collect();
        *seen.entry(check(&frame(entropy))).or_default() += 1;
    }
    let expected = [
        "call",
        "request",
        "notification",
        "response",
        "batch",
        "not-json",
        "not-utf8",
        "byte-order-mark",
        "lone-surrogate",
        "carriage-return",
        "repeated-key",
        "look-alike-key",
        "not-a-message",
        "mixed-message",
        "bad-id",
        "batch-call",
        "notification-call",
        "bad-call",
    ];
    for kind in expected {
        assert!(seen.get(kind).is_some_and(|count| *count >= 5), "{kind}: {seen:?}");
    }
}

/// What was seen in the wild, one frame each, beside what chance makes.
#[test]
fn known_differences_between_parsers_are_refused() {
    let frames: [&[u8]; 14] = [
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"Method\":\"tools/call\",\"params\":{\"name\":\"t\"}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"method\\u0000\":\"tools/call\",\"params\":{\"name\":\"t\"}}\n",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}]\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"result\":{},\"params\":{\"name\":\"t\"}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{\"a\":NaN}}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{\"a\":\"\xff\"}}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{\"a\":\"\\ud800\"}}}\n",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}{}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}\n",
        b"{\"a\":\r{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}\r,\"method\":\"ping\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\",\"name\":\"t\"}}\n",
    ];
    for frame in frames {
        assert!(read_client(frame).is_err(), "{}", String::from_utf8_lossy(frame));
        // Each is one that somebody runs: were it not, it would prove nothing.
        assert!(trees(frame).iter().any(Tree::may_be_call), "{}", String::from_utf8_lossy(frame));
    }
}
