//! A relay as a process, and the test as its client.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up. Far beyond what anything takes; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a relay is started with.
pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) deadline: Duration,
    pub(crate) frame_bytes_max: usize,
}

/// A relay that runs. Killed when dropped, and when the test takes too long.
pub(crate) struct Relay {
    pub(crate) input: Option<PipeWriter>,
    pub(crate) output: BufReader<PipeReader>,
    pub(crate) pid: Pid,
    ended: Receiver<ExitStatus>,
    status: Option<ExitStatus>,
}

pub(crate) fn fixture() -> OsString {
    env!("CARGO_BIN_EXE_relay-fixture").into()
}

pub(crate) fn shell(script: &str) -> Vec<OsString> {
    ["/bin/sh".into(), "-c".into(), script.into()].to_vec()
}

impl Setup {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self { folder, deadline: Duration::from_secs(20), frame_bytes_max: 64 * 1024 * 1024 }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command that runs a relay around `server`.
    pub(crate) fn command(&self, server: &[OsString]) -> Command {
        let mut command = program(&fixture());
        command.arg("relay").arg(self.folder.path()).arg(self.deadline.as_millis().to_string());
        command.arg(self.frame_bytes_max.to_string()).args(server);
        command
    }

    /// A relay around `server`, with pipes.
    pub(crate) fn relay(&self, server: &[OsString]) -> Relay {
        Relay::spawn(self.command(server))
    }

    /// A relay around the fixture's server, which logs to `log`.
    pub(crate) fn serving(&self) -> Relay {
        self.relay(&[fixture(), "serve".into(), self.path("log").into()])
    }

    /// What the fixture's server got.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    /// Makes the program that a relay runs to start a daemon.
    pub(crate) fn start_script(&self, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path("start");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

impl Relay {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let (stdin, input) = std::io::pipe().unwrap();
        let (output, stdout) = std::io::pipe().unwrap();
        let child = command.stdin(stdin).stdout(stdout).spawn().unwrap();
        drop(command);
        let pid = Pid::from_child(&child);
        Self { input: Some(input), output: BufReader::new(output), pid, ended: watch(child), status: None }
    }

    pub(crate) fn write(&mut self, bytes: &str) {
        self.input.as_mut().unwrap().write_all(bytes.as_bytes()).unwrap();
    }

    /// The next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the relay's output ended: {line:?}");
        line
    }

    /// The next line as JSON.
    pub(crate) fn message(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// The code of the next line, which is a refusal.
    pub(crate) fn refusal(&mut self) -> String {
        let message = self.message();
        message["result"]["_meta"]["dev.callgate/decision"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Closes the input and returns what is left of the output.
    pub(crate) fn finish(&mut self) -> String {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid, signal).unwrap();
    }

    /// How it ended.
    pub(crate) fn end(&mut self) -> ExitStatus {
        *self.status.get_or_insert_with(|| self.ended.recv_timeout(PATIENCE).expect("the relay ends"))
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.end().code()
    }

    /// Its direct children.
    pub(crate) fn children(&self) -> Vec<Pid> {
        let pid = self.pid.as_raw_nonzero();
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        list.split_whitespace().map(pid_of).collect()
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid.as_raw_nonzero())).unwrap().count()
    }

    /// Its resident memory, bytes.
    pub(crate) fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.status.is_none() && self.ended.try_recv().is_err() {
            rustix::process::kill_process(self.pid, Signal::KILL).ok();
        }
    }
}

/// Waits for a child on a thread of its own, and kills it when nobody has had the patience.
fn watch(mut child: Child) -> Receiver<ExitStatus> {
    let pid = Pid::from_child(&child);
    let (tell, ended) = sync_channel(1);
    let (tell_watchdog, watchdog) = sync_channel::<()>(1);
    std::thread::spawn(move || {
        let status = child.wait().unwrap();
        tell_watchdog.send(()).ok();
        tell.send(status).ok();
    });
    std::thread::spawn(move || {
        if watchdog.recv_timeout(2 * PATIENCE).is_err() {
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
    });
    ended
}

#[expect(clippy::disallowed_methods, reason = "the tests start the relay as a client would")]
pub(crate) fn program(path: &OsStr) -> Command {
    let mut command = Command::new(path);
    command.stderr(Stdio::inherit());
    command
}

pub(crate) fn pid_of(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

/// Whether a process runs; a zombie does not.
pub(crate) fn runs(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Returns when `met` is; there is no event to wait for when the kernel's tables are what is looked at.
pub(crate) fn until(what: &str, met: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !met() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn gone(pid: Pid) {
    until("the process is gone", || !runs(pid));
}

/// Reads a file that somebody else is about to write.
pub(crate) fn read_when_there(path: &Path) -> String {
    until("the file is written", || std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')));
    std::fs::read_to_string(path).unwrap()
}
