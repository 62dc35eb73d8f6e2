//! What the tests of several modules build their data with.

use crate::inbound::{Call, Inbound};

/// The frame of a call.
pub(crate) fn call_frame(id: u64, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ) + "\n"
}

/// A call.
pub(crate) fn call(id: u64) -> Call {
    match Inbound::read(call_frame(id, "tool", "{}").into_bytes()) {
        Inbound::Call(call) => call,
        other => panic!("no call but {other:?}"),
    }
}
