//! What the tests build their data with.

use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::identity::{Caller, Server, SessionId};
use callgate_core::permit::Binding;
use callgate_core::read::{ClientMessage, read_client};

/// The frame of one line.
pub(crate) fn line(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

/// A `tools/call` with these arguments.
pub(crate) fn tools_call(arguments: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#)
}

/// A line that is taken.
pub(crate) fn taken(frame: &[u8]) -> ClientMessage<'_> {
    read_client(frame).unwrap_or_else(|refused| panic!("{refused:?}: {}", String::from_utf8_lossy(frame)))
}

/// Why a frame is refused, and the ids that are answered.
pub(crate) fn refused(frame: &[u8]) -> (Code, Vec<&str>) {
    match read_client(frame) {
        Err(refused) => {
            assert!(!refused.detail.is_empty() && refused.detail.len() < 600, "{refused:?}");
            (refused.code, refused.answer)
        }
        Ok(message) => panic!("taken as {message:?}: {}", String::from_utf8_lossy(frame)),
    }
}

/// A call of tool `t` on connection 1.
pub(crate) fn call(sequence: u64, arguments: &str) -> Call {
    let server = Server { id: String::new(), name: "files".parse().unwrap() };
    Call {
        binding: Binding { connection: 1, sequence, frame: Digest::of(arguments.as_bytes()) },
        session: SessionId::from_random([1; 16]),
        request_id: sequence.to_string(),
        caller: Arc::new(Caller { agent: None, client: "client".to_owned(), server, attributes: Vec::new() }),
        tool: "t".to_owned(),
        listed: None,
        arguments: arguments.into(),
    }
}
