//! The relay as a process: real pipes, a real child, a daemon that speaks the real protocol.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod daemon;
mod fake_daemon;
mod lifecycle;
mod process;
mod streams;

/// A frame with a call.
fn call(id: u64, tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#) + "\n"
}

/// A frame with a ping.
fn ping(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#) + "\n"
}
