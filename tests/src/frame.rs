//! JSON-RPC frames as clients send them, byte for byte.

use serde_json::{Value, json};

/// The revision whose dialect tests call modern.
pub const MODERN: &str = "2026-07-28";

/// A `tools/call` without its line feed. `id` and `arguments` are JSON text.
pub fn call(id: &str, tool: &str, arguments: &str) -> String {
    let tool = json!(tool);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{tool},"arguments":{arguments}}}}}"#)
}

/// A `tools/call` of the 2026-07-28 dialect.
pub fn modern_call(id: &str, tool: &str, arguments: &str) -> String {
    let params = format!(r#"{{"name":{},"arguments":{arguments},"_meta":{}}}"#, json!(tool), modern_meta());
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

/// The metadata that every request of that dialect carries.
pub fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": { "name": "suite", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A `ping`.
pub fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

/// A `notifications/cancelled`.
pub fn cancelled(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

/// The frame as a line.
pub fn line(frame: impl AsRef<[u8]>) -> Vec<u8> {
    [frame.as_ref(), b"\n"].concat()
}
