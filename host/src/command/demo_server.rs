//! The small MCP server that `callgate demo` stands in front of: two tools over an imaginary notebook, newline-delimited
//! JSON-RPC on stdio, the legacy dialect.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome};

const INVALID_PARAMS: i64 = -32_602;
const METHOD_NOT_FOUND: i64 = -32_601;

pub(super) fn serve() -> Outcome {
    let failed = |error: io::Error| Failure::environment(format!("the demo server lost its client: {error}"));
    let mut notes = vec!["buy milk".to_owned()];
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line.map_err(failed)?) else { continue };
        // A message without an id is a notification, and nothing here acts on one.
        let Some(id) = request.get("id") else { continue };
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let mut reply = answer(method, request.get("params").unwrap_or(&Value::Null), &mut notes);
        reply["jsonrpc"] = "2.0".into();
        reply["id"] = id.clone();
        writeln!(out, "{reply}").and_then(|()| out.flush()).map_err(failed)?;
    }
    Ok(Exit::Done)
}

fn answer(method: &str, params: &Value, notes: &mut Vec<String>) -> Value {
    match method {
        "initialize" => json!({ "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "notebook", "version": "1" },
        } }),
        "ping" => json!({ "result": {} }),
        "tools/list" => json!({ "result": { "tools": [
            { "name": "read_notes", "description": "Reads all notes", "inputSchema": { "type": "object" } },
            { "name": "write_note", "description": "Adds a note", "inputSchema": {
                "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] } },
        ] } }),
        "tools/call" => call(params, notes),
        _ => error(METHOD_NOT_FOUND, "method not found"),
    }
}

fn call(params: &Value, notes: &mut Vec<String>) -> Value {
    match params["name"].as_str() {
        Some("read_notes") => text(&notes.join("; ")),
        Some("write_note") => match params["arguments"]["text"].as_str() {
            Some(note) => {
                notes.push(note.to_owned());
                text("written")
            }
            None => error(INVALID_PARAMS, "text is missing"),
        },
        _ => error(INVALID_PARAMS, "unknown tool"),
    }
}

fn text(text: &str) -> Value {
    json!({ "result": { "content": [{ "type": "text", "text": text }] } })
}

fn error(code: i64, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}
