//! A client's side of one relayed session, byte for byte.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::home::Home;
use crate::{frame, process, program, wait};

/// A relay that is about to be started.
#[derive(Debug)]
pub struct Launch {
    command: Command,
    unread: bool,
}

impl Launch {
    pub(crate) fn new(home: &Home, server: &str) -> Self {
        let mut command = home.prepare(&["run", "--server", server]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, unread: false }
    }

    /// One more argument of `callgate run`.
    #[must_use]
    pub fn option(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// One more variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The folder it is started in.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.command.current_dir(folder.into());
        self
    }

    /// Reads nothing until [`Relay::read`] is called: a client that is busy.
    #[must_use]
    pub fn unread(mut self) -> Self {
        self.unread = true;
        self
    }

    /// Starts it in front of `server`.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(mut self, server: impl IntoIterator<Item = S>) -> Relay {
        self.command.arg("--").args(server);
        Relay::over(self.command.spawn().expect("callgate can be spawned"), self.unread)
    }

    /// The command line instead of a process, for a client that spawns it itself.
    pub fn command_line<S: AsRef<OsStr>>(mut self, server: impl IntoIterator<Item = S>) -> Vec<OsString> {
        self.command.arg("--").args(server);
        let program = self.command.get_program().to_owned();
        std::iter::once(program).chain(self.command.get_args().map(OsStr::to_owned)).collect()
    }
}

/// A running relay, or a bare server in its place, seen as its client sees it.
#[derive(Debug)]
pub struct Relay {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    lines: Option<Receiver<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    /// What was read while something else was waited for.
    held: VecDeque<Vec<u8>>,
    barriers: u64,
}

/// A session that ended.
#[derive(Debug)]
pub struct Ended {
    /// How the process ended.
    pub status: ExitStatus,
    /// The lines that nobody had taken yet.
    pub lines: Vec<Vec<u8>>,
    /// Everything it said on stderr.
    pub stderr: Vec<u8>,
}

impl Ended {
    /// The exit code as a shell would tell it: 128 and the signal's number when one ended it.
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
    }
}

impl Relay {
    /// A client of any command, for example of the bare server.
    pub fn of(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::over(command.spawn().unwrap_or_else(|error| panic!("cannot spawn {command:?}: {error}")), false)
    }

    fn over(mut child: Child, unread: bool) -> Self {
        let stderr = child.stderr.take().map(|stderr| thread::spawn(move || drain(stderr)));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut relay = Self { child, stdin, stdout, lines: None, stderr, held: VecDeque::new(), barriers: 0 };
        if !unread {
            relay.read();
        }
        relay
    }

    /// Begins to read what the relay writes.
    pub fn read(&mut self) {
        let Some(stdout) = self.stdout.take() else { return };
        let (lines, received) = channel();
        thread::spawn(move || {
            let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
            loop {
                let mut line = Vec::new();
                match stdout.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        self.lines = Some(received);
    }

    /// Stops reading and closes the pipe: a client that is gone with its stdin still open.
    pub fn close_stdout(&mut self) {
        self.stdout = None;
        self.lines = None;
    }

    /// The relay's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes as they are.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes.as_ref()).and_then(|()| stdin.flush()).expect("the relay takes what it is sent");
    }

    /// Writes a frame and its line feed.
    #[track_caller]
    pub fn send_line(&mut self, frame: impl AsRef<[u8]>) {
        self.send(frame::line(frame));
    }

    /// Gives the stdin away, to be written to by another thread.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("stdin is open")
    }

    /// The next line, with its line feed; `None` at the end.
    #[track_caller]
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        if let Some(line) = self.held.pop_front() {
            return Some(line);
        }
        self.arriving(wait::PATIENCE)
    }

    #[track_caller]
    fn arriving(&self, patience: Duration) -> Option<Vec<u8>> {
        match self.lines.as_ref().expect("the relay is read").recv_timeout(patience) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited in vain for a line of the relay"),
        }
    }

    /// The next message.
    #[track_caller]
    pub fn message(&mut self) -> Value {
        let line = self.next_line().expect("the relay goes on");
        json(&line)
    }

    /// Waits for the answer to `id`, and keeps what comes before it for later.
    #[track_caller]
    pub fn answer(&mut self, id: &Value) -> Value {
        let is_it = |line: &Vec<u8>| {
            let message = serde_json::from_slice::<Value>(line).unwrap_or_default();
            (message["id"] == *id && message.get("method").is_none()).then_some(message)
        };
        if let Some(index) = self.held.iter().position(|line| is_it(line).is_some()) {
            return self.held.remove(index).as_ref().and_then(is_it).expect("it was found");
        }
        loop {
            let line = self.arriving(wait::PATIENCE).unwrap_or_else(|| panic!("no answer to {id} before the end"));
            match is_it(&line) {
                Some(message) => return message,
                None => self.held.push_back(line),
            }
        }
    }

    /// Calls a tool and waits for the answer.
    #[track_caller]
    pub fn call(&mut self, id: &str, tool: &str, arguments: &str) -> Value {
        self.send_line(frame::call(id, tool, arguments));
        self.answer(&serde_json::from_str(id).expect("an id is JSON"))
    }

    /// Sends an allowed call and waits until it is answered: by then everything before it was dealt with.
    /// Returns the lines that came meanwhile.
    #[track_caller]
    pub fn settled(&mut self) -> Vec<Vec<u8>> {
        self.barriers += 1;
        let id = format!("barrier-{}", self.barriers);
        let id = serde_json::json!(id);
        let answer = self.call(&id.to_string(), "echo", r#"{"message":"barrier"}"#);
        assert!(answer["result"]["isError"] != true, "the barrier was refused: {answer}");
        self.held.drain(..).collect()
    }

    /// Waits until everything sent so far was read, whatever still waits for a decision: a frame that the relay refuses by
    /// itself is answered at once.
    #[track_caller]
    pub fn all_read(&mut self) {
        self.barriers += 1;
        let id = serde_json::json!(format!("read-{}", self.barriers));
        self.send_line(format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#));
        assert_eq!(self.answer(&id)["error"]["code"], -32_600);
    }

    /// Closes stdin, as a client that is done.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends the relay a signal.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Waits for the end, without doing anything to bring it about.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let status = self.wait_status();
        let mut lines: Vec<_> = self.held.drain(..).collect();
        if let Some(received) = self.lines.take() {
            let deadline = Instant::now() + wait::PATIENCE;
            loop {
                match received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                    Ok(line) => lines.push(line),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => panic!("the relay ended and somebody still holds its stdout"),
                }
            }
        }
        let stderr = self.stderr.take().map(|stderr| stderr.join().expect("stderr was read")).unwrap_or_default();
        Ended { status, lines, stderr }
    }

    #[track_caller]
    fn wait_status(&mut self) -> ExitStatus {
        wait::until("the relay's end", || self.child.try_wait().expect("a child can be waited for"))
    }

    /// Closes stdin and waits for the end.
    #[track_caller]
    pub fn close(mut self) -> Ended {
        self.close_stdin();
        self.wait()
    }

    /// Kills the relay as a client that kills it would, and waits for its end.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait_status();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _: std::io::Result<ExitStatus> = self.child.wait();
        }
    }
}

fn drain(mut stderr: ChildStderr) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What came before an error is what there is.
    let _: std::io::Result<usize> = stderr.read_to_end(&mut bytes);
    bytes
}

/// A line as JSON.
#[track_caller]
pub fn json(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(line)))
}

/// The fixture server's command, recording what reaches it into `record`.
pub fn fixture(record: &std::path::Path) -> Vec<OsString> {
    vec![program::fixture().into(), "--record".into(), record.into()]
}

/// What has been recorded at `record` so far.
pub fn recorded(record: &std::path::Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(record) {
        file.read_to_end(&mut bytes).expect("the record can be read");
    }
    bytes
}
