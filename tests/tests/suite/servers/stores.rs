//! The system's secret store: none, one that hangs, and a real gnome-keyring on a bus of its own.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use callgate_tests::wait;

use super::*;
use crate::skipped;

const CANARY: &str = "canary-91cc-do-not-leak";

/// The store's deadline, and what a busy machine may add to it without anything being wrong. Far below what a client waits.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// Starts the daemon with this bus, from whose environment it has it.
#[track_caller]
fn start_with_bus(home: &Home, address: &str) {
    let mut command = home.prepare(&["daemon", "start"]);
    let _ = Finished::of(command.env("DBUS_SESSION_BUS_ADDRESS", address)).exits(0);
}

/// The address of a bus that takes connections and never says a word.
struct Mute {
    _listener: UnixListener,
    address: String,
}

impl Mute {
    fn new(folder: &Path) -> Self {
        let path = folder.join("mute");
        Self { _listener: UnixListener::bind(&path).unwrap(), address: format!("unix:path={}", path.display()) }
    }
}

fn no_bus(home: &Home) -> String {
    format!("unix:path={}", home.path().join("nobody").display())
}

#[test]
fn without_a_bus_a_secret_is_refused_with_the_three_ways_out_and_kept_nowhere() {
    let home = Home::new();
    start_with_bus(&home, &no_bus(&home));
    let refused = register(&home, "github", &["TOKEN"], CANARY).exits(3);
    assert!(refused.stderr.contains("there is no session bus"), "{refused:?}");
    for way in ["unlock the desktop's secret store", "store init --sealed-file", "systemd credential callgate-key"] {
        assert!(refused.stderr.contains(way), "{way}: {refused:?}");
    }
    assert_eq!(home.ok(&["server", "list"]).stdout, "no servers are registered\n");
    let status = home.run(&["credential", "store", "status", "--json"]).exits(3).json();
    assert_eq!((&status["stores"][0]["state"], &status["stores"][1]["state"]), (&json!("no-bus"), &json!("absent")));
    // A server without secrets needs no store.
    let _ = register(&home, "fs", &[], "").exits(0);
    let mut relay = run(&home, "fs");
    assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
    let _ = relay.close();
}

#[test]
fn a_store_that_hangs_holds_up_nobody_else() {
    let home = Home::new();
    let bus = Mute::new(home.path());
    start_with_bus(&home, &bus.address);
    let _ = register(&home, "fs", &[], "").exits(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| home.run(&["credential", "store", "status", "--json"]));
        let mut relay = run(&home, "fs");
        assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
        let _ = relay.close();
        let status = hanging.join().unwrap().exits(3).json();
        assert_eq!(status["stores"][0]["state"], "hangs");
    });
    // From now on nobody waits for it.
    let refused = register(&home, "github", &["TOKEN"], CANARY).exits(3);
    assert!(refused.stderr.contains("does not answer"), "{refused:?}");
    assert!(begun.elapsed() < ANSWERED_WITHIN, "{:?}", begun.elapsed());
}

/// A session bus with a gnome-keyring on it, both of this test.
pub(crate) struct Keyring {
    bus: Child,
    keyring: Child,
    folder: tempfile::TempDir,
    address: String,
}

impl Keyring {
    /// One that is unlocked; `None`, and said, where this machine has none.
    pub(crate) fn new() -> Option<Self> {
        if let Some(missing) =
            ["dbus-daemon", "gnome-keyring-daemon", "secret-tool"].into_iter().find(|name| !has(name))
        {
            assert!(std::env::var_os("CALLGATE_PEERS").is_none(), "CALLGATE_PEERS is set and there is no {missing}");
            skipped("keyring", &format!("there is no {missing}"));
            return None;
        }
        let folder = tempfile::Builder::new().prefix("cg-bus-").tempdir().unwrap();
        let socket = folder.path().join("bus");
        let address = format!("unix:path={}", socket.display());
        let mut bus = Command::new("dbus-daemon");
        bus.args(["--session", "--nofork", "--nopidfile"]).arg(format!("--address={address}"));
        let bus = Self::at(&mut bus, folder.path(), &address).spawn().unwrap();
        wait::until_true("the bus", || socket.exists());
        let keyring = Self::unlocked(folder.path(), &address);
        let keyring = Self { bus, keyring, folder, address };
        wait::until_true("the keyring", || keyring.tool(&["store", "--label=x", "a", "b"], "ready").code == Some(0));
        Some(keyring)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn at<'a>(command: &'a mut Command, folder: &Path, address: &str) -> &'a mut Command {
        command.env("DBUS_SESSION_BUS_ADDRESS", address).env("HOME", folder).env("XDG_RUNTIME_DIR", folder);
        command
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY");
        command.stdout(Stdio::null()).stderr(Stdio::null())
    }

    fn unlocked(folder: &Path, address: &str) -> Child {
        let mut command = Command::new("gnome-keyring-daemon");
        command.args(["--unlock", "--foreground", "--components=secrets"]).stdin(Stdio::piped());
        let mut keyring = Self::at(&mut command, folder, address).spawn().unwrap();
        keyring.stdin.take().unwrap().write_all(b"a keyring's password").unwrap();
        keyring
    }

    /// Any other program of this user.
    fn tool(&self, arguments: &[&str], input: &str) -> Finished {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), input).unwrap();
        let mut command = Command::new("secret-tool");
        Self::at(command.args(arguments), self.folder.path(), &self.address);
        command.stdin(Stdio::from(file.reopen().unwrap())).stdout(Stdio::piped()).stderr(Stdio::piped());
        Finished::of(&mut command)
    }

    /// Ends the unlocked one. The bus starts another when one is asked for, and that one is locked.
    fn lock(&mut self) {
        self.keyring.kill().unwrap();
        self.keyring.wait().unwrap();
    }

    fn files(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().join(".local/share/keyrings");
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        // Whatever the bus started ends with it.
        for child in [&mut self.keyring, &mut self.bus] {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[test]
fn a_real_keyring_keeps_a_secret_and_any_program_of_the_user_reads_it() {
    let Some(keyring) = Keyring::new() else { return };
    let home = Home::new();
    start_with_bus(&home, &keyring.address);
    let added = register(&home, "github", &["TOKEN"], CANARY).exits(0);
    assert!(added.stdout.contains("its secrets in the system's secret store"), "{added:?}");
    let mut relay = run(&home, "github");
    let _ = relay.call("1", "echo", "{}");
    let _ = relay.close();
    assert_eq!(variable(&home, "github", "TOKEN").as_deref(), Some(CANARY));
    assert_eq!(home.ok(&["credential", "store", "status", "--json"]).json()["stores"][0]["state"], "ok");

    // What docs/security.md says does not hold: a store of the user is open to the user's programs.
    let id = home.ok(&["server", "show", "github", "--json"]).json()["id"].as_str().unwrap().to_owned();
    let name = format!("server/{id}/TOKEN");
    let read = keyring.tool(&["lookup", "service", "callgate", "username", &name], "").exits(0);
    assert!(!read.stdout.is_empty() && !read.stdout.contains(CANARY), "it is there, as base64");
    let files = keyring.files();
    assert!(!files.is_empty() && files.iter().all(|file| !holds(file, CANARY.as_bytes())));

    let _ = home.ok(&["server", "remove", "github"]);
    let gone = keyring.tool(&["lookup", "service", "callgate", "username", &name], "");
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(1), ""));
}

#[test]
fn a_secret_of_a_store_that_is_locked_hangs_or_is_gone_keeps_its_server_from_starting_and_no_other() {
    let Some(mut keyring) = Keyring::new() else { return };
    let home = Home::new();
    start_with_bus(&home, &keyring.address);
    let _ = register(&home, "github", &["TOKEN"], CANARY).exits(0);
    let _ = register(&home, "fs", &[], "").exits(0);
    let goes_on = |home: &Home| {
        let mut relay = run(home, "fs");
        assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
        let _ = relay.close();
    };
    keyring.lock();
    let (error, rest) = declined(run(&home, "github"));
    assert_eq!(error["data"]["code"], "credential-unavailable");
    assert!(error["message"].as_str().unwrap().contains("secret store is locked"), "{error}");
    assert!(rest.starts_with("3 error: the server github is not started"), "{rest}");
    goes_on(&home);
    let status = home.run(&["credential", "store", "status", "--json"]).exits(3).json();
    assert_eq!(status["stores"][0]["state"], "locked");
    home.stop_daemon();

    let mute = Mute::new(home.path());
    for (address, told) in [(no_bus(&home), "there is no session bus"), (mute.address.clone(), "does not answer")] {
        start_with_bus(&home, &address);
        let begun = Instant::now();
        let (error, _) = declined(run(&home, "github"));
        assert!(error["message"].as_str().unwrap().contains(told), "{error}");
        assert!(begun.elapsed() < ANSWERED_WITHIN, "{:?}", begun.elapsed());
        goes_on(&home);
        home.stop_daemon();
    }
    assert!(!dump(&home, "github").exists(), "the server was started without its secret");
}
