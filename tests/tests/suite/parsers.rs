//! Thousands of frames that parsers may read differently: nothing that Node's or Python's reads as a `tools/call` passes
//! undecided. Needs `node` and `python3`, and so belongs to the peers.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use callgate_tests::command::Finished;
use callgate_tests::frame::{call, line};
use callgate_tests::home::Home;
use callgate_tests::peer::Peers;
use callgate_tests::session::Session;
use serde_json::{Value, json};

use crate::peers::peers;

const FRAMES: usize = 3000;
const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;

#[test]
fn peers_no_parser_reads_a_call_that_the_gate_did_not_decide() {
    let Some(peers) = peers() else { return };
    let frames = frames();
    // Unguarded, the frames are what they are meant to be: calls to many a parser.
    let unguarded: Vec<u8> = frames.iter().flat_map(line).collect();
    for parser in parsers(&peers) {
        assert!(calls(parser, &unguarded).len() > FRAMES / 5);
    }

    let home = Home::new();
    let _ = home.ok(&["policy", "default", "deny"]);
    let _ = home.ok(&["policy", "allow", "echo"]);
    let mut session = Session::within(home);
    let only_echo = passed(&mut session, &frames);
    for parser in parsers(&peers) {
        let read = decided(&session, calls(parser, &only_echo));
        assert!(read.iter().all(|tools| *tools == json!(["echo"])), "a denied tool's call passed: {read:?}");
    }
    let _ = session.home.ok(&["policy", "remove", "--default"]);
    let every_tool = passed(&mut session, &frames);
    for parser in parsers(&peers) {
        let read = decided(&session, calls(parser, &every_tool));
        assert!(read.len() > 100, "hardly a call passed: the test shows nothing");
    }
    session.end();
}

/// Sends all frames; what of them reached the server.
fn passed(session: &mut Session, frames: &[Vec<u8>]) -> Vec<u8> {
    let before = session.received_besides_barriers().len();
    for chunk in frames.chunks(50) {
        for frame in chunk {
            session.send_line(frame);
        }
        session.settled();
    }
    session.received_besides_barriers().split_off(before)
}

/// Demands that each frame that a parser reads as a call stands in the journal as allowed, and as a call of that tool.
fn decided(session: &Session, read: Vec<(String, Value)>) -> Vec<Value> {
    let decisions = session.home.decisions().into_iter().filter(|decision| decision["decision"] == "allowed");
    let allowed: BTreeMap<String, Value> =
        decisions.map(|decision| (decision["frame"].as_str().unwrap().to_owned(), json!([decision["tool"]]))).collect();
    for (frame, tools) in &read {
        assert_eq!(allowed.get(frame), Some(tools), "what the gate decided, and what a parser reads, of frame {frame}");
    }
    read.into_iter().map(|(_, tools)| tools).collect()
}

fn parsers(peers: &Peers) -> [Command; 2] {
    let mut python = Command::new(peers.python(2));
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/peers/parse.py"));
    [peers.node("parse.mjs", &[]), python]
}

/// What a parser reads as calls: the frames' digests and the tools.
fn calls(mut parser: Command, frames: &[u8]) -> Vec<(String, Value)> {
    let mut child = parser.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(frames).unwrap();
    let finished = Finished::from(child.wait_with_output().unwrap()).exits(0);
    let lines = finished.json_lines().into_iter();
    lines.map(|line| (line["sha256"].as_str().unwrap().to_owned(), line["tools"].clone())).collect()
}

/// Frames that were a call before something happened to them; the same on every run.
fn frames() -> Vec<Vec<u8>> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    (0..FRAMES).map(|number| mutated(number, &mut random)).collect()
}

fn mutated(number: usize, random: &mut Random) -> Vec<u8> {
    let id = json!(format!("m{number}")).to_string();
    let tool = random.one_of(&["guarded", "guarded", "other tool", "ünï"]);
    let arguments = random.one_of(&["{}", r#"{"message":"m"}"#, r#"{"a":[1,{"b":null}],"c":"\u00e9"}"#]);
    let mut frame = call(&id, tool, arguments).into_bytes();
    for _ in 0..=random.below(2) {
        frame = mutate(frame, &id, random);
    }
    // A frame is one line, whatever happens to it.
    frame.retain(|&byte| byte != b'\n');
    frame
}

fn mutate(frame: Vec<u8>, id: &str, random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => broken_bytes(frame, random),
        1 => odd_members(&String::from_utf8_lossy(&frame), random).into_bytes(),
        2 => odd_surroundings(&String::from_utf8_lossy(&frame), random).into_bytes(),
        _ => odd_values(&String::from_utf8_lossy(&frame), id, random).into_bytes(),
    }
}

/// A byte too many, too few, or another.
fn broken_bytes(mut frame: Vec<u8>, random: &mut Random) -> Vec<u8> {
    const UNSEEN: [&[u8]; 13] = [
        b"\r",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b" ",
        b"\t",
        b"\x0b",
        b"\x0c",
        b"\xc2\xa0",
        b"\xe2\x80\xa8",
        b"\xc2\x85",
    ];
    const SYNTAX: [&[u8]; 17] = [
        b",", b"\"", b"{", b"}", b"[", b"]", b":", b"\\", b"//", b"/**/", b"#", b"'", b"NaN", b"0", b"-", b"e9", b".5",
    ];
    let at = random.below(frame.len());
    match random.below(5) {
        0 => inserted(&frame, random.one_of(&UNSEEN), random),
        1 => inserted(&frame, random.one_of(&SYNTAX), random),
        2 => {
            if let Some(byte) = frame.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
            frame
        }
        3 => {
            frame.truncate(at);
            frame
        }
        _ => escaped(&String::from_utf8_lossy(&frame), random).into_bytes(),
    }
}

/// A member too many, at either end of the message or of its parameters.
fn odd_members(text: &str, random: &mut Random) -> String {
    const FIRST: [&str; 10] = [
        r#""method":"ping","#,
        r#""method":"tools/call","#,
        r#""\u006dethod":"tools/call","#,
        r#""Method":"ping","#,
        r#""id":7,"#,
        r#""params":{},"#,
        r#""result":{},"#,
        r#""error":null,"#,
        r#""jsonrpc":"2.0","#,
        r#""method\u0000":"ping","#,
    ];
    const LAST: [&str; 7] = [
        r#","method":"ping""#,
        r#","method":"tools/call""#,
        r#","METHOD":"ping""#,
        r#","params":{"name":"echo"}"#,
        r#","param\u017f":{"name":"echo"}"#,
        r#","result":1"#,
        r#","zzz":{"method":"tools/call"}"#,
    ];
    const NAMES: [&str; 4] =
        [r#""name":"echo","name":"#, r#""n\u0061me":"echo","name":"#, r#""Name":"echo","name":"#, r#""\u006eame":"#];
    match random.below(3) {
        0 => text.replacen('{', &format!("{{{}", random.one_of(&FIRST)), 1),
        1 => text.strip_suffix('}').map_or_else(String::new, |open| format!("{open}{}}}", random.one_of(&LAST))),
        _ => text.replacen("\"name\":", random.one_of(&NAMES), 1),
    }
}

/// Something before, behind or around the message, or white space in it.
fn odd_surroundings(text: &str, random: &mut Random) -> String {
    const BETWEEN: [&str; 8] = ["", " ", "\r", "\0", ",", "\u{2028}", "\u{85}", "\r \r"];
    match random.below(5) {
        0 => format!("{}{}{text}", random.one_of(&[PING, "{}", ""]), random.one_of(&BETWEEN)),
        1 => format!("{text}{}{PING}", random.one_of(&BETWEEN)),
        2 => format!("[{}{text}]", random.one_of(&["", "{},", "[],", "null,"])),
        3 => {
            let places: Vec<usize> = text.match_indices([',', ':', '{', '}']).map(|(at, _)| at).collect();
            let (before, after) = text.split_at(if places.is_empty() { 0 } else { random.one_of(&places) });
            format!("{before}{}{after}", random.one_of(&[" ", "\t", "\r", " \r ", "\r\r"]))
        }
        _ => {
            let (before, behind) = (["", " ", "\t", "\r", "\u{feff}"], ["", " ", "\r", "\r\r", " \r", "\0"]);
            format!("{}{text}{}", random.one_of(&before), random.one_of(&behind))
        }
    }
}

/// Another id, another version, something deep.
fn odd_values(text: &str, id: &str, random: &mut Random) -> String {
    const IDS: [&str; 8] = ["null", "true", "1.5", "1.0", "[1]", "18446744073709551617", "NaN", r#""\ud800""#];
    match random.below(3) {
        0 => text.replacen(id, random.one_of(&IDS), 1),
        1 => text.replacen("\"2.0\"", random.one_of(&["\"1.0\"", "2.0", "null", "\"2.0 \""]), 1),
        _ => {
            let levels = random.one_of(&[3, 126, 127, 128, 500]);
            let deep = format!("{{\"x\":{}1{},", "[".repeat(levels), "]".repeat(levels));
            text.replacen('{', &deep, 1)
        }
    }
}

fn inserted(frame: &[u8], bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let at = random.below(frame.len() + 1);
    [&frame[..at], bytes, &frame[at..]].concat()
}

/// Spells some letters by their number. Inside strings that changes nothing; elsewhere it breaks the frame.
fn escaped(text: &str, random: &mut Random) -> String {
    let spell = |letter: char, random: &mut Random| match random.below(8) {
        0 if letter.is_ascii_alphabetic() => format!("\\u{:04x}", u32::from(letter)),
        1 if letter == '/' => "\\/".to_owned(),
        _ => letter.to_string(),
    };
    text.chars().map(|letter| spell(letter, random)).collect()
}

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("64 bits are enough");
        usize::try_from((self.next() >> 16) % bound).expect("it is below the bound")
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
