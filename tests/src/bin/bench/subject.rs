//! What is measured: a server, bare or behind the gate, over two pipes and nothing else.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use callgate_tests::frame::line;
use callgate_tests::home::Home;
use callgate_tests::process;

/// One session.
pub(crate) struct Subject {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    answer: Vec<u8>,
}

impl Subject {
    /// What a relayed server is called.
    pub(crate) const SERVER: &str = "bench";

    /// The server itself.
    pub(crate) fn direct(server: &[OsString]) -> Self {
        Self::spawn(Command::new(&server[0]).args(&server[1..]))
    }

    /// The server behind the gate.
    pub(crate) fn relayed(home: &Home, server: &[OsString]) -> Self {
        let line = home.relay(Self::SERVER).command_line(server);
        Self::spawn(Command::new(&line[0]).args(&line[1..]).env("CALLGATE_HOME", home.path()))
    }

    /// A server that is registered under this name, behind the gate.
    pub(crate) fn registered(home: &Home, name: &str) -> Self {
        Self::spawn(&mut home.prepare(&["run", "--server", name]))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be spawned");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("stdout is a pipe"));
        Self { child, stdin, stdout: BufReader::with_capacity(128 * 1024, stdout), answer: Vec::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn resident_mb(&self) -> f64 {
        megabytes(process::resident_bytes(self.pid()))
    }

    pub(crate) fn send(&mut self, frames: &[u8]) {
        self.stdin.as_mut().expect("stdin is open").write_all(frames).expect("the server reads");
    }

    /// The next answer's length; notifications are passed over. A refusal ends the bench: it would be fast.
    pub(crate) fn receive(&mut self) -> usize {
        loop {
            self.answer.clear();
            let read = self.stdout.read_until(b'\n', &mut self.answer).expect("the server answers");
            assert!(read > 0, "the server is gone");
            let head = &self.answer[..read.min(2048)];
            let has = |needle: &[u8]| head.windows(needle.len()).any(|window| window == needle);
            assert!(!has(b"dev.callgate/decision"), "refused: {}", String::from_utf8_lossy(head));
            let tail = &self.answer[read.saturating_sub(256)..];
            let is_answer = has(b"\"id\":") || tail.windows(5).any(|window| window == b"\"id\":");
            if is_answer && !has(b"\"method\":") {
                return read;
            }
        }
    }

    /// Microseconds from a frame's sending to its answer.
    pub(crate) fn round_trip_us(&mut self, frame: &[u8]) -> f64 {
        let begun = Instant::now();
        self.send(frame);
        self.receive();
        micros(begun)
    }

    /// The handshake of 2025-11-25, for servers that demand one.
    pub(crate) fn open(&mut self) {
        let initialize = r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        self.send(&line(initialize));
        self.receive();
        self.send(&line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.stdin = None;
        // It ends because its input does; how it ended is not what is measured.
        let _: std::io::Result<std::process::ExitStatus> = self.child.wait();
    }
}

pub(crate) fn micros(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e6
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}
