//! One `CALLGATE_HOME`, and the proof that nothing of it is left behind.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::Finished;
use crate::journal::{self, Entry};
use crate::process::{self, Process};
use crate::relay::Launch;
use crate::{program, wait};

/// A home of its own. When it goes, its daemon is stopped, and any process that still belongs to it fails the test.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    /// `None` when somebody else removes the folder.
    _folder: Option<TempDir>,
}

impl Home {
    /// A home with nothing but the compiled plugins: compiling them anew for every test would take most of the suite's time.
    #[expect(clippy::new_without_default, reason = "making a folder is no default")]
    pub fn new() -> Self {
        Self::with_compiled(compiled())
    }

    /// A home whose daemon has something to compile at its start, and is done in good time even on a busy machine: the
    /// smallest plugin.
    pub fn with_one_plugin_to_compile() -> Self {
        let (_, rest) = compiled().split_first().expect("there are plugins");
        Self::with_compiled(rest)
    }

    fn with_compiled(plugins: &[(OsString, Vec<u8>)]) -> Self {
        let home = Self::cold();
        let folder = home.path.join(COMPILED);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).expect("a folder can be made");
        for (name, code) in plugins {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name));
            file.and_then(|mut file| file.write_all(code)).expect("a file can be written");
        }
        home
    }

    /// An empty home, as at an install's first start. Its daemon compiles every plugin, which on a busy machine may take longer
    /// than a relay waits: start it by a command first.
    pub fn cold() -> Self {
        // Short, because a socket's path has to fit into it.
        let folder = tempfile::Builder::new().prefix("cg-").tempdir().expect("a temporary folder can be made");
        Self { path: folder.path().to_owned(), _folder: Some(folder) }
    }

    /// A home in a folder that somebody else made and removes, for example a mount.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), _folder: None }
    }

    /// A home with a configuration.
    pub fn configured(yaml: &str) -> Self {
        let home = Self::new();
        home.configure(yaml);
        home
    }

    /// A home in which the program that runs the tests is enrolled under each of these names: which of them a session is, it has to
    /// say, with `--agent`.
    #[track_caller]
    pub fn knowing(agents: &[&str]) -> Self {
        let home = Self::new();
        let this = std::env::current_exe().expect("a running program has a path");
        let this = this.to_str().expect("the path is text");
        for agent in agents {
            let _: Finished = home.ok(&["agent", "add", agent, this]);
        }
        home
    }

    /// Writes the configuration; a running daemon does not notice.
    pub fn configure(&self, yaml: &str) {
        fs::write(self.path.join("callgate.yaml"), format!("version: 1\n{yaml}\n")).expect("the config can be written");
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.path.join("journal.db")
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("run/daemon.sock")
    }

    /// A `callgate` command in this home, not yet run.
    pub fn prepare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program::callgate());
        command.args(arguments).env("CALLGATE_HOME", &self.path).env_remove("CALLGATE_LOG").stdin(Stdio::null());
        command
    }

    /// Runs a `callgate` command to its end.
    pub fn run(&self, arguments: &[&str]) -> Finished {
        Finished::of(&mut self.prepare(arguments))
    }

    /// Runs a `callgate` command that has to succeed.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> Finished {
        self.run(arguments).exits(0)
    }

    /// A relay for the server `name`, not yet started.
    pub fn relay(&self, name: &str) -> Launch {
        Launch::new(self, name)
    }

    /// Starts the daemon and tells its process id.
    #[track_caller]
    pub fn start_daemon(&self) -> u32 {
        let _: Finished = self.ok(&["daemon", "start"]);
        self.daemon_pid().expect("a daemon that was started answers")
    }

    /// Stops the daemon in good order.
    #[track_caller]
    pub fn stop_daemon(&self) {
        let _: Finished = self.ok(&["daemon", "stop"]);
        wait::until_true("the daemon's end", || self.daemons().is_empty());
    }

    /// The daemon's process id; `None` when none runs.
    pub fn daemon_pid(&self) -> Option<u32> {
        let status = self.run(&["daemon", "status", "--json"]);
        // One that has a problem still runs.
        if !matches!(status.code, Some(0 | 1)) {
            return None;
        }
        status.json()["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
    }

    /// Kills the daemon as a crash would, and waits until it is gone.
    pub fn kill_daemon(&self, pid: u32) {
        process::signal(pid, Signal::KILL);
        wait::until_true("the killed daemon's end", || !process::lives(pid));
    }

    /// Waits for an anomaly of the client's side: how a relay tells of a refusal that no daemon wrote.
    #[track_caller]
    pub fn anomaly(&self, code: &str) -> Entry {
        self.entry(code, |entry| {
            entry.kind == "anomaly" && entry.body["from"] == "client" && entry.body["code"] == code
        })
    }

    /// Every entry of the journal.
    pub fn entries(&self) -> Vec<Entry> {
        journal::entries(&self.database())
    }

    /// Waits for an entry.
    #[track_caller]
    pub fn entry(&self, what: &str, wanted: impl Fn(&Entry) -> bool) -> Entry {
        wait::until(what, || self.entries().into_iter().find(&wanted))
    }

    /// The decisions, oldest first.
    pub fn decisions(&self) -> Vec<Value> {
        self.entries().into_iter().filter(|entry| entry.kind == "call.decision").map(|entry| entry.body).collect()
    }

    /// Every living process of this home.
    pub fn processes(&self) -> Vec<Process> {
        process::of_home(&self.path)
    }

    /// The living daemons, by their command line.
    pub fn daemons(&self) -> Vec<Process> {
        self.processes().into_iter().filter(is_daemon).collect()
    }

    /// Waits until nothing but the daemon is left.
    #[track_caller]
    pub fn wait_until_quiet(&self) {
        wait::until("the end of every process but the daemon", || self.processes().iter().all(is_daemon).then_some(()));
    }
}

/// Where a home keeps compiled plugins.
const COMPILED: &str = "cache/compiled";

/// The shipped plugins as a daemon compiles them, by the names of their files, the smallest first; made once.
fn compiled() -> &'static [(OsString, Vec<u8>)] {
    static COMPILED_ONCE: OnceLock<Vec<(OsString, Vec<u8>)>> = OnceLock::new();
    COMPILED_ONCE.get_or_init(|| {
        let home = Home::cold();
        home.start_daemon();
        home.stop_daemon();
        let files = fs::read_dir(home.path.join(COMPILED)).expect("the daemon keeps what it compiled");
        let files = files.map(|file| file.expect("the folder can be read"));
        let read = |file: fs::DirEntry| (file.file_name(), fs::read(file.path()).expect("the file can be read"));
        let mut plugins: Vec<(OsString, Vec<u8>)> = files.map(read).collect();
        plugins.sort_by_key(|(_, code)| code.len());
        plugins
    })
}

fn is_daemon(process: &Process) -> bool {
    process.command.contains(" daemon serve")
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.daemons().is_empty() {
            // A daemon that was stopped by a signal could not stop in good order.
            self.daemons().iter().for_each(|daemon| process::signal(daemon.pid, Signal::CONT));
            let _: Finished = self.run(&["daemon", "stop"]);
        }
        let deadline = std::time::Instant::now() + wait::PATIENCE;
        while !self.processes().is_empty() && std::time::Instant::now() < deadline && !thread::panicking() {
            thread::sleep(std::time::Duration::from_millis(5));
        }
        let left = self.processes();
        for process in &left {
            process::signal(process.pid, Signal::KILL);
        }
        if thread::panicking() {
            let log = fs::read_to_string(self.path.join("daemon.log")).unwrap_or_default();
            eprintln!("the daemon's log:\n{log}");
        } else {
            assert!(left.is_empty(), "left behind: {left:?}");
        }
    }
}
