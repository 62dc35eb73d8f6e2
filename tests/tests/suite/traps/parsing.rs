//! Traps 1 to 5 and 7 to 9: what parsers read differently.

use callgate_tests::frame::{call, cancelled, line, ping};
use callgate_tests::session::Session;
use serde_json::json;

use super::{are_forwarded, are_refused, decision_code, refused};

#[test]
fn trap_01_a_repeated_key_is_refused() {
    let at = |envelope: &str| format!(r#"{{"jsonrpc":"2.0",{envelope}}}"#);
    let name = r#""params":{"name":"echo","arguments":{}}"#;
    let frames = [
        at(&format!(r#""id":1,"method":"ping","method":"tools/call",{name}"#)),
        at(&format!(r#""id":1,"method":"tools/call","method":"ping",{name}"#)),
        at(&format!(r#""id":1,"method":"ping","\u006dethod":"tools/call",{name}"#)),
        at(&format!(r#""id":1,"method":"tools/call","params":{{"name":"drop"}},{name}"#)),
        at(&format!(r#""jsonrpc":"2.0","id":1,"method":"tools/call",{name}"#)),
        at(r#""id":1,"method":"tools/call","params":{"name":"drop","name":"echo"}"#),
        at(r#""id":1,"method":"tools/call","params":{"name":"echo","na\u006de":"drop"}"#),
        at(r#""id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"arguments":{"message":1}}"#),
        at(r#""id":1,"method":"tools/call","params":{"name":"echo","_meta":{"a":1,"a":2}}"#),
        call("1", "echo", r#"{"path":"/a","path":"/b"}"#),
        call("1", "echo", r#"{"a":[{"b":{"c":1,"\u0063":2}}]}"#),
        call(
            "1",
            "echo",
            &format!("{{{},\"k7\":0}}", (0..40).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(",")),
        ),
        // Anything else is refused only where a reader would look: at the top and in `params`.
        at(r#""id":1,"method":"ping","params":{"a":1,"a":2}"#),
        at(r#""id":1,"method":"ping","zzz":1,"zzz":2"#),
    ];
    let mut frames: Vec<_> = frames.iter().map(|frame| refused(frame, "repeated-key", json!(1))).collect();
    // Which id would be answered?
    frames.push(refused(at(&format!(r#""id":1,"id":2,"method":"tools/call",{name}"#)), "repeated-key", None));
    frames.push(refused(at(&format!(r#""id":1,"\u0069d":1,"method":"tools/call",{name}"#)), "repeated-key", None));
    are_refused(frames);

    are_forwarded([
        at(r#""id":1,"method":"completion/complete","params":{"argument":{"name":"a","name":"b"}}"#),
        at(r#""id":7,"result":{"content":{"text":"a","text":"b"}}"#),
    ]);
}

#[test]
fn trap_02_a_key_that_looks_like_a_reserved_one_is_refused() {
    let envelope = |key: &str| {
        let frame = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"echo"},"KEY":"tools/call"}"#;
        frame.replace("KEY", key)
    };
    let parameter = |key: &str| {
        let frame = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","KEY":"drop"}}"#;
        frame.replace("KEY", key)
    };
    let envelopes = [
        "Method",
        "METHOD",
        "method\\u0000",
        "method\\u200b",
        "ｍethod",
        "param\\u017f",
        "paramſ",
        "Params",
        "Jsonrpc",
        "jsonrpc\\u0000",
        "Result",
        "Error",
    ];
    let parameters = [
        "Name",
        "NAME",
        "name\\u0000",
        "na\\u00adme",
        "Arguments",
        "argument\\u017f",
        "_Meta",
        "Task",
        "tas\\u212a",
        "RequestState",
    ];
    let frames = envelopes.map(envelope).into_iter().chain(parameters.map(parameter));
    let answered = frames.map(|frame| refused(frame, "look-alike-key", json!(1)));
    // Which id would be answered?
    let doubtful = ["ID", "\\u0049d", "id\\u0000"].map(|key| refused(envelope(key), "look-alike-key", None));
    are_refused(answered.chain(doubtful));

    // A tool's arguments are its own business, and so are keys that merely begin alike.
    are_forwarded([
        call("1", "echo", r#"{"Method":"x","NAME":"y","name\u0000":"z","message":1}"#),
        r#"{"jsonrpc":"2.0","id":2,"method":"ping","params":{"names":1,"title":2,"_metadata":3}}"#.to_owned(),
    ]);
}

#[test]
fn trap_03_an_escaped_spelling_is_what_it_spells() {
    let mut session = Session::denying_drop();
    let spelled = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"\u0074ools/call","params":{"name":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"\u006dethod":"tools/call","params":{"name":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","p\u0061rams":{"name":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"n\u0061me":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"dr\u006fp"}}"#,
        r#"{"jsonrpc":"2.0","i\u0064":7,"method":"tools/call","params":{"name":"\u0064\u0072\u006f\u0070"}}"#,
    ];
    for (number, frame) in spelled.iter().enumerate() {
        session.send_line(frame);
        assert_eq!(decision_code(&session.answer(&json!(number + 1))), "rules/deny", "{frame}");
    }
    assert_eq!(session.received(), b"", "a denied call reached the server");
    session.end();

    are_forwarded([
        r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"nev\u0065r","arguments":{"message":"\u00e9"}}}"#,
        r#"{"jsonrpc":"2.0","\u006dethod":"notif\u0069cations\/x"}"#,
    ]);
}

#[test]
fn trap_04_only_the_top_level_tells_a_call() {
    let nested = [
        r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"x":{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"drop"}}}}"#,
        r#"{"jsonrpc":"2.0","id":0,"result":{"action":"accept","content":{"method":"tools/call","params":{"name":"drop"}}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"{\"method\":\"tools/call\"}"}}"#,
    ];
    let mut session = Session::denying_drop();
    session.exchange(nested);
    let argument = call("2", "echo", r#"{"method":"tools/call","params":{"name":"drop"},"message":"m"}"#);
    session.send_line(&argument);
    assert_eq!(session.answer(&json!(2))["result"]["content"][0]["text"], "m");
    let expected: Vec<u8> = nested.iter().map(line).chain([line(&argument)]).flatten().collect();
    assert_eq!(session.received_besides_barriers(), expected);
    let tools: Vec<_> = session.home.decisions().iter().map(|decision| decision["tool"].clone()).collect();
    assert!(tools.iter().all(|tool| tool == "echo"), "{tools:?}");
    session.end();
}

#[test]
fn trap_05_a_message_is_a_request_a_notification_or_a_response() {
    let name = r#""params":{"name":"echo","arguments":{}}"#;
    are_refused([
        refused(
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call",{name},"result":{{}}}}"#),
            "mixed-message",
            json!(1),
        ),
        refused(
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call",{name},"error":{{}}}}"#),
            "mixed-message",
            json!(1),
        ),
        refused(
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":null,"method":"tools/call",{name}}}"#),
            "mixed-message",
            json!(1),
        ),
        // An answer to the server: the client may have a request of its own in flight under that id.
        refused(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, "mixed-message", None),
        refused(r#"{"jsonrpc":"2.0","id":1}"#, "not-a-message", json!(1)),
        refused(format!(r#"{{"id":1,"method":"tools/call",{name}}}"#), "not-a-message", json!(1)),
        refused(format!(r#"{{"jsonrpc":"1.0","id":1,"method":"tools/call",{name}}}"#), "not-a-message", json!(1)),
        refused(format!(r#"{{"jsonrpc":2.0,"id":1,"method":"tools/call",{name}}}"#), "not-a-message", json!(1)),
        refused(format!(r#"{{"jsonrpc":"2.0","id":1,"method":["tools/call"],{name}}}"#), "not-a-message", json!(1)),
        refused(format!(r#"{{"jsonrpc":"2.0","id":1,"method":null,{name}}}"#), "not-a-message", json!(1)),
        refused("null", "not-a-message", None),
        refused("1", "not-a-message", None),
        refused(r#""tools/call""#, "not-a-message", None),
        refused("{}", "not-a-message", None),
    ]);
    are_forwarded([
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}"#,
    ]);
}

#[test]
fn trap_07_numbers_are_forwarded_as_they_are_written() {
    let numbers =
        r#"{"a":9007199254740993,"b":1e2,"c":1.0,"d":-0,"e":12345678901234567890123,"f":1E-400,"g":0.1000,"h":1e999}"#;
    let spaced = "{ \"b\" :\t[ 1 , 2.50 ]  ,\"a\":{} }";
    let mut session = Session::new();
    let frames = [call("1", "never", numbers), call("2", "never", spaced)];
    session.exchange(&frames);
    assert_eq!(session.received_besides_barriers(), frames.iter().flat_map(line).collect::<Vec<u8>>());
    let kept: Vec<_> = session.home.entries().into_iter().filter_map(|entry| entry.arguments).collect();
    assert_eq!(kept[..2], [numbers, spaced], "the journal keeps another text than was sent");
    session.end();
}

#[test]
fn trap_08_what_is_not_one_strict_document_is_refused() {
    let echo = call("1", "echo", "{}");
    let argument = |text: &str| call("1", "echo", &format!(r#"{{"message":{text}}}"#));
    let syntax = [
        argument("NaN"),
        argument("Infinity"),
        argument("-Infinity"),
        argument("1,"),
        argument("[1,]"),
        argument("'x'"),
        argument("01"),
        argument("+1"),
        argument(".5"),
        argument("1."),
        argument("1e"),
        argument("0x1"),
        argument("\"\t\""),
        argument(r#""\x41""#),
        argument(r#""\u12g4""#),
        argument("True"),
        argument("nul"),
        argument("/* c */ 1"),
        argument("1 // c"),
        format!("// c {echo}"),
        format!("{echo} trailing"),
        format!("{echo}{echo}"),
        format!("{echo} {echo}"),
        format!("{echo},"),
        format!("[{echo}"),
        format!("\0{echo}"),
        format!("{echo}\0"),
        echo.replace("\"id\"", "id"),
        echo.replace(",\"method\"", " \"method\""),
        echo.replace('}', ""),
        format!("\u{a0}{echo}"),
        format!("\u{c}{echo}"),
    ];
    let mut frames: Vec<_> = syntax.iter().map(|frame| refused(frame, "not-json", None)).collect();
    frames.push(refused(format!("\u{feff}{echo}"), "byte-order-mark", None));
    for bytes in [&b"\xff"[..], b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"] {
        let frame = [
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":""#,
            bytes,
            b"\"}}}",
        ]
        .concat();
        frames.push(refused(frame, "not-utf8", None));
    }
    for half in [r"\ud800", r"\udc00", r"\udc00\ud800", r"\ud800x", r"\ud800\u0041", r"\uD83D\uD83D\uDE00"] {
        frames.push(refused(argument(&format!("\"{half}\"")), "lone-surrogate", json!(1)));
    }
    are_refused(frames);

    // What is unusual and yet reads the same everywhere.
    are_forwarded([
        format!(" \t{}\t ", cancelled("5")),
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\u0000\ud83d\ude00 \u2028 \u007f"}}"#.to_owned(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":\"\u{2028}\u{2029}\u{85}\u{feff}\u{7f}\u{1f980}\"}}".to_owned(),
    ]);
}

#[test]
fn trap_09_nesting_is_bounded_and_the_bound_refuses() {
    // The envelope, `params` and `arguments` are three of the 128.
    let nested = |depth: usize| {
        let levels = depth - 3;
        call("1", "never", &format!(r#"{{"message":{}1{}}}"#, "[".repeat(levels), "]".repeat(levels)))
    };
    are_forwarded([nested(128)]);
    are_refused([
        refused(nested(129), "too-deep", json!(1)),
        refused(nested(100_000), "too-deep", None),
        refused("[".repeat(100_000), "too-deep", None),
        refused("{\"a\":".repeat(100_000), "too-deep", None),
        refused(
            ping("1").replace('}', &format!(r#","params":{}{}}}"#, "[".repeat(200), "]".repeat(200))),
            "too-deep",
            json!(1),
        ),
    ]);
}
