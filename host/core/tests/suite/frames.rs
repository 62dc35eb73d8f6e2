//! The reader on whole frames: lines, text, keys, shapes, ids.

use callgate_core::code::Code;
use callgate_core::read::{ClientMessage, Id, IdKey, Request, read_client};

use crate::support::{line, refused, taken, tools_call};

fn key(id: &str) -> IdKey {
    let frame = line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    match taken(&frame) {
        ClientMessage::Request(Request { id, .. }) => id.key,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_ends_in_a_line_feed_with_or_without_a_carriage_return() {
    let ping = r#"  {"jsonrpc" : "2.0",	"id": 1, "method":"ping"} "#;
    for ending in ["\n", "\r\n"] {
        let frame = format!("{ping}{ending}").into_bytes();
        assert!(
            matches!(taken(&frame), ClientMessage::Request(Request { id: Id { raw: "1", .. }, method, .. }) if method == "ping")
        );
    }
    for tail in [ping, "", " ", "{", "\r"] {
        assert_eq!(refused(tail.as_bytes()), (Code::Unterminated, vec![]));
    }
}

#[test]
fn a_line_of_white_space_is_blank() {
    for frame in ["\n", "\r\n", "  \t \n", " \r\n"] {
        assert_eq!(taken(frame.as_bytes()), ClientMessage::Blank);
    }
    assert_eq!(refused(b"\x0c\n").0, Code::NotJson);
}

#[test]
fn a_carriage_return_elsewhere_is_refused() {
    let hidden = "{\"a\":\r{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}\r,\
                  \"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    assert_eq!(refused(hidden.as_bytes()), (Code::CarriageReturn, vec!["1"]));
    let places = [
        "\r{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
        "{\"jsonrpc\":\"2.0\"\r,\"id\":1,\"method\":\"ping\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\r\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r \n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":[1,\r2]}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\rng\"}\n",
        "\r\r\n",
        " \r \n",
    ];
    for frame in places {
        assert_eq!(refused(frame.as_bytes()).0, Code::CarriageReturn, "{frame:?}");
    }
    assert_eq!(refused(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"\n,\"x\":1}\n"), (Code::NotJson, vec![]));
}

#[test]
fn what_is_not_utf_8_or_begins_with_a_mark_is_refused() {
    for bytes in [&b"\xff"[..], b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80"] {
        let frame = [br#"{"jsonrpc":"2.0","id":1,"method":""#, bytes, b"\"}\n"].concat();
        assert_eq!(refused(&frame), (Code::NotUtf8, vec![]));
    }
    assert_eq!(
        refused("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n".as_bytes()),
        (Code::ByteOrderMark, vec![])
    );
    let utf_16: Vec<u8> = "\u{feff}{}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(read_client(&utf_16).is_err());
}

#[test]
fn what_is_not_json_is_refused_and_never_answered() {
    let odd = [
        "{",
        "}",
        "[",
        r#"{"jsonrpc":"2.0","id":1,"method":"a""#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a"},"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a"} x"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a"}{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a"} {}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a",}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a"/**/}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a"} // x"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":NaN}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":Infinity}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":-Infinity}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":undefined}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":True}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":nul}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":truex}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":[1,]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":[,1]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":[1 2]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":[1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a" "x":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x" 1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a",'x':1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":'a'}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a",x:1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":"\x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":"\u12"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":"\u12g4"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":"\u+123"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":"\ud83d\u12"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":"\"}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"x\":\"\u{1f}\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"x\":\"\t\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"x\":\"\0\"}",
        "\0{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\0",
        "\u{a0}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}",
        "{\"jsonrpc\":\"2.0\",\u{2028}\"id\":1,\"method\":\"a\"}",
        "{\"jsonrpc\":\"2.0\",\u{b}\"id\":1,\"method\":\"a\"}",
        "{\"jsonrpc\":\"2.0\",\u{feff}\"id\":1,\"method\":\"a\"}",
    ];
    for text in odd {
        assert_eq!(refused(&line(text)), (Code::NotJson, vec![]), "{text}");
    }
}

#[test]
fn numbers_keep_to_the_grammar() {
    for number in
        ["01", "-", "+1", ".5", "5.", "1e", "1e+", "-01", "0x1", "1_0", "1,0", "--1", "1.e1", "00", "1e1.5", "١"]
    {
        assert_eq!(refused(&line(&tools_call(&format!(r#"{{"n":{number}}}"#)))).0, Code::NotJson, "{number}");
    }
    for number in ["0", "-0", "0.0", "1e400", "1E+999999999", "-1.5e-7", "123456789012345678901234567890"] {
        taken(&line(&tools_call(&format!(r#"{{"n":{number}}}"#))));
    }
}

#[test]
fn half_a_surrogate_pair_is_refused_wherever_it_stands() {
    for half in [r"\ud800", r"\udc00", r"\ud800\u0041", r"\ud800x", r"\udc00\ud800", r"\ud800\ud800", r"\uD83D\\ude00"]
    {
        for frame in [tools_call(&format!(r#"{{"a":"{half}"}}"#)), tools_call(&format!(r#"{{"{half}":1}}"#))] {
            assert_eq!(refused(&line(&frame)), (Code::LoneSurrogate, vec!["7"]), "{frame}");
        }
        let id = format!(r#"{{"jsonrpc":"2.0","id":"{half}","method":"a"}}"#);
        assert_eq!(refused(&line(&id)), (Code::LoneSurrogate, vec![]), "{id}");
    }
    taken(&line(&tools_call(r#"{"a":"\ud83d\ude00","b":"\uD83D\uDE00"}"#)));
    let id_like = r#"{"jsonrpc":"2.0","id":1,"id\ud800":2,"method":"a"}"#;
    assert_eq!(refused(&line(id_like)), (Code::LookAlikeKey, vec![]));
}

#[test]
fn a_frame_is_at_most_128_deep() {
    let nested = |open: &str, close: &str, inside: usize| {
        let value = format!("{}{}", open.repeat(inside), close.repeat(inside));
        line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{value}}}"#))
    };
    taken(&nested("[", "]", 127));
    assert_eq!(refused(&nested("[", "]", 128)), (Code::TooDeep, vec!["1"]));
    assert_eq!(refused(&nested(r#"{"a":"#, "0}", 128)).0, Code::NotJson);
    let objects = format!("{}0{}", r#"{"a":"#.repeat(126), "}".repeat(126));
    taken(&line(
        &tools_call(&objects)
            .replace(r#""params":{"name":"t","arguments":"#, r#""params":{"name":"t","arguments":{},"x":"#),
    ));
    assert_eq!(
        refused(&line(&tools_call(&format!("{}0{}", r#"{"a":"#.repeat(127), "}".repeat(127))))),
        (Code::TooDeep, vec!["7"])
    );
    // A bomb is given up on, and an unclosed one is not JSON before it is too deep.
    assert_eq!(refused(&nested("[", "]", 100_000)), (Code::TooDeep, vec![]));
    assert_eq!(refused(&line(&"[".repeat(500))).0, Code::NotJson);
}

#[test]
fn a_repeated_key_is_refused_where_it_matters() {
    let ping = [
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"\u0061":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"b":2,"a":1}}}"#,
        r#"{"params":{"_meta":{"a":1,"b":2,"a":1}},"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":1}"#,
    ];
    for text in ping {
        assert_eq!(refused(&line(text)), (Code::RepeatedKey, vec!["1"]), "{text}");
    }
    let twice = r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#;
    assert_eq!(refused(&line(twice)), (Code::RepeatedKey, vec![]));
    let answers = r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#;
    assert_eq!(refused(&line(answers)), (Code::RepeatedKey, vec![]));

    // Elsewhere two parsers would differ about nothing that is decided here.
    taken(&line(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":2}}}"#));
    taken(&line(r#"{"jsonrpc":"2.0","id":1,"result":{"b":1,"b":2}}"#));
}

#[test]
fn a_repeated_key_in_a_tools_call_is_refused_at_any_depth() {
    let deep = [
        r#"{"a":1,"a":1}"#,
        r#"{"a":{"b":1,"c":2,"b":1}}"#,
        r#"{"a":[[{"b":1,"\u0062":1}]]}"#,
        r#"{"\u0061":1,"a":1}"#,
        r#"{"a\/b":1,"a/b":1}"#,
        r#"{"\ud83d\ude00":1,"😀":1}"#,
        r#"{"":1,"":1}"#,
    ];
    for arguments in deep {
        let frame = tools_call(arguments);
        assert_eq!(refused(&line(&frame)), (Code::RepeatedKey, vec!["7"]), "{frame}");
        // Where the method comes last, and where the object is not an argument at all.
        let last = format!(
            r#"{{"params":{{"name":"t","arguments":{arguments}}},"id":7,"jsonrpc":"2.0","method":"tools/call"}}"#
        );
        assert_eq!(refused(&line(&last)), (Code::RepeatedKey, vec!["7"]), "{last}");
        let aside =
            format!(r#"{{"x":{arguments},"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t"}}}}"#);
        assert_eq!(refused(&line(&aside)), (Code::RepeatedKey, vec!["7"]), "{aside}");
    }
    let many = |count: usize, last: &str| {
        let members: Vec<String> = (0..count).map(|index| format!(r#""key {index}":{index}"#)).collect();
        tools_call(&format!(r"{{{},{last}}}", members.join(",")))
    };
    for count in [1, 5, 11, 12, 13, 40, 5000] {
        taken(&line(&many(count, r#""key":0"#)));
        assert_eq!(refused(&line(&many(count, r#""key 0":0"#))).0, Code::RepeatedKey, "{count}");
        assert_eq!(refused(&line(&many(count, r#""k\u0065y 0":0"#))).0, Code::RepeatedKey, "{count}");
    }
    taken(&line(&tools_call(r#"{"a":{"k":1},"b":{"k":1},"k":[{"k":1},{"k":1}],"K":1,"k ":1}"#)));
}

#[test]
fn a_look_alike_of_a_reserved_key_is_refused_where_it_is_reserved() {
    let top = [
        "Method",
        "method\\u0000",
        "method ",
        "metho\u{200b}d",
        "ｍethod",
        "PARAMS",
        "param\u{17f}",
        "JsonRpc",
        "Result",
        "ERROR",
    ];
    for key in top {
        for value in ["1", "\"tools/call\""] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{key}":{value}}}"#);
            assert_eq!(refused(&line(&text)), (Code::LookAlikeKey, vec!["1"]), "{text}");
        }
    }
    for key in ["ID", "Id", "id\\u0000", "\\u200did", "ｉｄ", "\u{2170}d"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{key}":2}}"#);
        assert_eq!(refused(&line(&text)), (Code::LookAlikeKey, vec![]), "{text}");
    }
    for key in
        ["Name", "ARGUMENTS", "_Meta", "ta\u{17f}k", "tas\u{212a}", "inputresponses", "requeststate", "Cursor", "URI"]
    {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","{key}":"x"}}}}"#);
        assert_eq!(refused(&line(&text)), (Code::LookAlikeKey, vec!["1"]), "{text}");
    }
    let meta =
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.modelcontextprotocol/protocolversion":"x"}}}"#;
    assert_eq!(refused(&line(meta)), (Code::LookAlikeKey, vec!["1"]));
    // The client's own answers are of the server's ids.
    assert_eq!(refused(&line(r#"{"jsonrpc":"2.0","id":1,"Result":{}}"#)), (Code::LookAlikeKey, vec![]));

    let free = [
        tools_call(r#"{"Name":1,"NAME":1,"Method":"tools/call","ID":1}"#),
        r#"{"jsonrpc":"2.0","id":1,"method":"a","Name":1,"params":{"Method":1,"ID":2}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":{"Name":1,"name":2}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"a","methods":1,"ïd":1,"\u0456d":1}"#.to_owned(),
    ];
    for text in free {
        taken(&line(&text));
    }
}

#[test]
fn a_message_is_json_rpc_2() {
    let odd = [
        "null",
        "1",
        "\"tools/call\"",
        "true",
        "{}",
        r#"{"id":1,"method":"a"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
        r#"{"jsonrpc":"2.0 ","id":1,"method":"a"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#,
        r#"{"jsonrpc":null,"id":1,"method":"a"}"#,
        r#"{"jsonrpc":["2.0"],"id":1,"method":"a"}"#,
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"params":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":["tools/call"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":{"method":"tools/call"}}"#,
    ];
    for text in odd {
        assert_eq!(refused(&line(text)).0, Code::NotAMessage, "{text}");
    }
    taken(&line(r#"{"jsonrpc":"\u0032.0","id":1,"method":"a"}"#));
    assert_eq!(refused(&line(r#"{"id":"x","method":"a"}"#)).1, ["\"x\""]);
    assert!(refused(&line(r#"{"jsonrpc":"1.0","id":1,"result":{}}"#)).1.is_empty());
}

#[test]
fn method_result_and_error_stand_alone() {
    let answered = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","error":{},"result":{}}"#,
    ];
    for text in answered {
        assert_eq!(refused(&line(text)), (Code::MixedMessage, vec!["1"]), "{text}");
    }
    assert_eq!(refused(&line(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#)), (Code::MixedMessage, vec![]));
}

#[test]
fn an_id_is_a_string_or_a_whole_number() {
    for id in ["null", "true", "false", "1.5", "1e-1", "{}", "[]", "[1]", "{\"id\":1}"] {
        for method in ["ping", "tools/call"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"name":"t"}}}}"#);
            assert_eq!(refused(&line(&text)), (Code::BadId, vec![]), "{text}");
        }
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(refused(&line(&answer)).0, Code::BadId, "{answer}");
    }
    assert_eq!(key("1"), key("1.0"));
    assert_eq!(key("1"), key("1e0"));
    assert_eq!(key("7"), key("\"7\""));
    assert_eq!(key("\"a\""), key("\"\\u0061\""));
    assert_ne!(key("1"), key("-1"));
    assert_ne!(key("9007199254740992"), key("9007199254740993"));
    assert_ne!(key("18446744073709551615"), key("18446744073709551616"));
    assert_ne!(key("1e400"), key("1e401"));
    assert_ne!(key("1e999999999"), key("1e999999998"));
}

#[test]
fn the_raw_text_of_an_id_is_kept() {
    for raw in ["1", "1.0", "1e0", "\"\\u0061\"", "18446744073709551615", "-7", "\"\""] {
        let frame = line(&format!(r#"{{"jsonrpc":"2.0","id": {raw} ,"result":{{}}}}"#));
        assert!(matches!(taken(&frame), ClientMessage::Response(id) if id.raw == raw));
    }
}

#[test]
fn any_method_but_tools_call_passes() {
    for method in [
        "TOOLS/CALL",
        "tools/call ",
        " tools/call",
        "tools/call\\u0000",
        "tools",
        "skills/list",
        "",
        "tools\u{2044}call",
    ] {
        let frame = line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[1]}}"#));
        assert!(matches!(taken(&frame), ClientMessage::Request(_)), "{method}");
    }
    let nested = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"method":"tools/call","name":"t","x":{"method":"tools/call"}}}"#;
    assert!(matches!(taken(&line(nested)), ClientMessage::Request(_)));
}

#[test]
fn a_notification_tells_what_it_cancels() {
    let read = |params: &str, method: &str| {
        let frame = line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
        match taken(&frame) {
            ClientMessage::Notification(notification) => notification.cancels,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read(r#"{"requestId":7,"reason":"x"}"#, "notifications/cancelled"), Some(key("7")));
    assert_eq!(read(r#"{"requestId":"7"}"#, r"notifications\/cancelled"), Some(key("7")));
    assert_eq!(read(r#"{"requestId":null}"#, "notifications/cancelled"), None);
    assert_eq!(read("{}", "notifications/cancelled"), None);
    assert_eq!(read("[]", "notifications/cancelled"), None);
    assert_eq!(read(r#"{"requestId":7}"#, "notifications/progress"), None);
    assert_eq!(
        refused(&line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestID":7}}"#)).0,
        Code::LookAlikeKey
    );
}

#[test]
fn a_request_tells_what_its_client_says_of_itself() {
    let read = |method: &str, params: &str| {
        let frame = line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#));
        match taken(&frame) {
            ClientMessage::Request(Request { client, protocol_version, .. }) => {
                (client.map(String::from), protocol_version.map(String::from))
            }
            other => panic!("{other:?}"),
        }
    };
    let some = |client: &str, version: &str| (Some(client.to_owned()), Some(version.to_owned()));
    let legacy =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"some \"client\"","version":"1"}}"#;
    assert_eq!(read("initialize", legacy), some("some \"client\"", "2025-11-25"));
    let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"version":"1","name":"c"}}}"#;
    assert_eq!(read("tools/list", modern), some("c", "2026-07-28"));
    assert_eq!(read("server/discover", modern), some("c", "2026-07-28"));
    assert_eq!(read("tools/list", legacy), (None, None));
    let long = "x".repeat(257);
    let long = format!(r#"{{"protocolVersion":"{long}","clientInfo":{{"name":"{long}"}}}}"#);
    assert_eq!(read("initialize", &long), (None, None));
    for odd in [
        r#"{"clientInfo":"c","protocolVersion":1}"#,
        r#"{"clientInfo":{"name":1}}"#,
        r#"{"clientInfo":{"name":"a","name":"b"}}"#,
    ] {
        assert_eq!(read("initialize", odd), (None, None), "{odd}");
    }
}

#[test]
fn a_refusal_shows_foreign_text_escaped_and_cut() {
    let key = format!("Id\u{202e}{}", "\u{200b}".repeat(500));
    let frame = line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","{key}":1}}"#));
    let refused = read_client(&frame).unwrap_err();
    assert!(refused.detail.contains(r"Id\u{202e}\u{200b}") && refused.detail.contains('…'), "{}", refused.detail);
    assert!(refused.detail.is_ascii() || !refused.detail.contains('\u{202e}'));
    let repeated = read_client(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"x\":1,\"x\":2}\n").unwrap_err();
    assert_eq!(repeated.to_string(), "the key \"x\" at byte 44 stands twice in its object");
}

/// Each would take hours if some step over it were quadratic.
#[test]
fn no_frame_takes_more_than_its_length() {
    let long = "x".repeat(4_000_000);
    let keys = (0..200_000).map(|index| format!(r#""k{index}":1,"#)).collect::<Vec<_>>().concat();
    let marks = "\u{301}".repeat(1_000_000);
    taken(&line(&format!(r#"{{"method":"{long}",{keys}"jsonrpc":"2.0","id":1}}"#)));
    taken(&line(&tools_call(&format!(r#"{{{keys}"a":1}}"#))));
    taken(&line(&format!(r#"{{{keys}"{marks}":1,"jsonrpc":"2.0","id":1,"method":"a"}}"#)));
    let escaped = keys.replace('k', r"\u006b");
    taken(&line(&tools_call(&format!(r#"{{{escaped}"a":1}}"#))));
    let note = r#"{"jsonrpc":"2.0","method":"a"}"#;
    taken(&line(&format!("[{}{note}]", format!("{note},").repeat(100_000))));
}
