#![no_main]
//! The readers of frames, both sides: what is let through is what any JSON parser reads, and every refusal says why.

use std::borrow::Cow;

use callgate_core::canonical;
use callgate_core::read::{ClientMessage, ToolCall, read_client, read_server};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value;

fuzz_target!(|frame: &[u8]| {
    read_server(frame);
    match read_client(frame) {
        Ok(ClientMessage::Call(call)) => is_read_so_by_others(frame, &call),
        Ok(ClientMessage::Blank) => assert!(frame.iter().all(u8::is_ascii_whitespace)),
        Ok(_) => {
            // Read and not kept: a number may be larger than any that a program keeps.
            serde_json::from_slice::<IgnoredAny>(frame).expect("what is let through is JSON");
        }
        Err(refused) => assert!(!refused.detail.is_empty()),
    }
});

fn is_read_so_by_others(frame: &[u8], call: &ToolCall) {
    serde_json::from_slice::<IgnoredAny>(frame).expect("a call is JSON");
    // Some numbers are larger than this parser keeps.
    let Ok(document) = serde_json::from_slice::<Value>(frame) else { return };
    assert_eq!(document["method"], "tools/call");
    assert_eq!(document["params"]["name"], Value::String(Cow::clone(&call.tool).into_owned()));
    assert_eq!(document["id"], serde_json::from_str::<Value>(call.id.raw).expect("an id is JSON"));
    match call.arguments {
        Some(arguments) => {
            assert_eq!(
                document["params"]["arguments"],
                serde_json::from_str::<Value>(arguments).expect("they are JSON")
            );
            canonical::digest(arguments);
        }
        None => assert!(document["params"].get("arguments").is_none()),
    }
}
