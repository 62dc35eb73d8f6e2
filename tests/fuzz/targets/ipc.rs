#![no_main]
//! Messages between relay and daemon: bytes are a message, the start of one, or malformed, and a message is sent as it was read.

use std::fmt::Debug;

use callgate_ipc::frame::{Message, decode, encode};
use callgate_ipc::message::{Command, CommandReply, FromRelay, Greeting, Hello, ToRelay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 6 {
        0 => message::<FromRelay>(bytes),
        1 => message::<ToRelay>(bytes),
        2 => message::<Command>(bytes),
        3 => message::<CommandReply>(bytes),
        4 => message::<Greeting>(bytes),
        _ => message::<Hello>(bytes),
    }
});

fn message<M: Message + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(Some((message, taken))) = decode::<M>(bytes) else { return };
    assert!(taken <= bytes.len());
    let mut sent = Vec::new();
    encode(&message, &mut sent).expect("what was read can be sent");
    let (again, taken) = decode::<M>(&sent).expect("what is sent can be read").expect("and is whole");
    assert_eq!((again, taken), (message, sent.len()));
}
