//! Secrets of a sealed file, which every machine can have: where they go, and where they never do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;

const PASSPHRASE: &str = "correct horse battery";
const CANARY: &str = "canary-7f3a-do-not-leak";

/// A home with a sealed file.
#[track_caller]
fn sealed() -> Home {
    let home = Home::new();
    let made = given(&home, &["credential", "store", "init", "--sealed-file"], PASSPHRASE).exits(0);
    assert_eq!(made.stdout, "made and open: the sealed file, its secrets in the sealed file\n");
    home
}

#[test]
fn a_secret_is_in_the_environment_of_its_server_and_of_no_other() {
    let home = sealed();
    let _ = register(&home, "github", &["GITHUB_TOKEN", "OTHER"], &format!("{CANARY}\nsecond\n")).exits(0);
    let _ = register(&home, "fs", &[], "").exits(0);
    for name in ["github", "fs"] {
        let mut relay = run(&home, name);
        assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
        assert_eq!(relay.close().code(), 0);
    }
    assert_eq!(variable(&home, "github", "GITHUB_TOKEN").as_deref(), Some(CANARY));
    assert_eq!(variable(&home, "github", "OTHER").as_deref(), Some("second"));
    assert_eq!(variable(&home, "fs", "GITHUB_TOKEN"), None);

    // What the client sets does not win over it.
    let mut relay = Relay::of(home.prepare(&["run", "--server", "github"]).env("GITHUB_TOKEN", "the client's"));
    let _ = relay.call("1", "echo", "{}");
    let _ = relay.close();
    assert_eq!(variable(&home, "github", "GITHUB_TOKEN").as_deref(), Some(CANARY));
}

#[test]
fn a_credential_is_set_anew_removed_and_listed() {
    let home = sealed();
    let _ = register(&home, "github", &["TOKEN"], "first").exits(0);
    let set = given(&home, &["credential", "set", "github", "--env", "TOKEN"], "line one\nline two\n").exits(0);
    assert!(set.stdout.starts_with("set: TOKEN of github, its secrets in the sealed file"), "{set:?}");
    let mut relay = run(&home, "github");
    let _ = relay.call("1", "echo", "{}");
    let _ = relay.close();
    assert_eq!(variable(&home, "github", "TOKEN").as_deref(), Some("line one\nline two"));

    let other = given(&home, &["credential", "set", "github", "--env", "OTHER"], "x").exits(2);
    assert!(other.stderr.contains("registered without a variable OTHER"), "{other:?}");
    let listed = home.ok(&["credential", "list", "--json"]).json();
    assert_eq!(listed["credentials"], json!([{ "server": "github", "variable": "TOKEN", "store": "sealed-file" }]));

    let _ = home.ok(&["credential", "remove", "github", "--env", "TOKEN"]);
    assert_eq!(home.ok(&["credential", "list"]).stdout, "TOKEN of github: not set\n");
    let (error, rest) = declined(run(&home, "github"));
    assert_eq!(error["data"]["code"], "credential-unavailable");
    assert!(rest.starts_with("3 ") && rest.contains("callgate credential set github --env TOKEN"), "{rest}");
    let _ = given(&home, &["credential", "set", "github", "--env", "TOKEN"], "third").exits(0);
    let mut relay = run(&home, "github");
    let _ = relay.call("1", "echo", "{}");
    let _ = relay.close();
    let _ = home.ok(&["server", "remove", "github"]);
    assert!(!fs::read_to_string(home.path().join("credentials.sealed")).unwrap().contains("server/"));
    home.stop_daemon();
    let _ = home.ok(&["verify"]);
}

#[test]
fn a_sealed_file_is_locked_until_its_passphrase_is_given_and_other_servers_go_on() {
    let home = sealed();
    let _ = register(&home, "github", &["TOKEN"], CANARY).exits(0);
    let _ = register(&home, "fs", &[], "").exits(0);
    home.stop_daemon();
    let (error, rest) = declined(run(&home, "github"));
    assert!(error["message"].as_str().unwrap().contains("the sealed file is locked"), "{error}");
    assert!(rest.contains("callgate credential store unlock"), "{rest}");
    let mut other = run(&home, "fs");
    assert_eq!(other.call("1", "echo", "{}")["result"]["isError"], Value::Null);
    let _ = other.close();

    let status = home.run(&["credential", "store", "status", "--json"]).exits(3).json();
    assert_eq!((&status["in_use"], &status["stores"][1]["state"]), (&json!("sealed-file"), &json!("locked")));
    let wrong = given(&home, &["credential", "store", "unlock"], "another passphrase").exits(3);
    assert!(wrong.stderr.contains("this is not the passphrase"), "{wrong:?}");
    let _ = given(&home, &["credential", "store", "unlock"], PASSPHRASE).exits(0);
    let mut relay = run(&home, "github");
    let _ = relay.call("1", "echo", "{}");
    let _ = relay.close();
    assert_eq!(variable(&home, "github", "TOKEN").as_deref(), Some(CANARY));
}

#[test]
fn a_key_from_systemd_needs_no_person() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("callgate-key"), [9; 32]).unwrap();
    let start = |home: &Home| {
        let mut command = home.prepare(&["daemon", "start"]);
        Finished::of(command.env("CREDENTIALS_DIRECTORY", folder.path())).exits(0)
    };
    let _ = start(&home);
    let _ = home.ok(&["credential", "store", "init", "--sealed-file", "--given-key"]);
    let _ = register(&home, "github", &["TOKEN"], CANARY).exits(0);
    home.stop_daemon();
    let _ = start(&home);
    let mut relay = run(&home, "github");
    let _ = relay.call("1", "echo", "{}");
    let _ = relay.close();
    assert_eq!(variable(&home, "github", "TOKEN").as_deref(), Some(CANARY));
}

/// Another program of the same user that speaks the protocol gets the command, and not the secret.
#[test]
fn a_program_that_is_not_this_build_is_given_no_secret() {
    let home = sealed();
    let _ = register(&home, "github", &["TOKEN"], CANARY).exits(0);
    let copy = home.path().join("copy-of-callgate");
    fs::copy(program::callgate(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&copy);
    command.args(["run", "--server", "github"]).env("CALLGATE_HOME", home.path());
    let (error, _) = declined(Relay::of(&mut command));
    assert_eq!(error["data"]["code"], "credential-unavailable");
    assert!(error["message"].as_str().unwrap().contains("only to a relay of this very build"), "{error}");
}

#[test]
fn the_memory_of_the_daemon_is_never_written_to_a_disk() {
    let home = Home::new();
    let limits = fs::read_to_string(format!("/proc/{}/limits", home.start_daemon())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let core: Vec<&str> = core.split_whitespace().collect();
    // One byte, soft and hard: what the kernel also heeds where a program takes the core through a pipe.
    assert_eq!(core[4..6], ["1", "1"], "{core:?}");
}

#[test]
fn a_planted_secret_is_nowhere_but_in_its_server() {
    let home = sealed();
    let mut told = Vec::new();
    let mut keep = |finished: Finished| told.push(format!("{finished:?}"));
    keep(register(&home, "github", &["TOKEN"], CANARY));
    keep(given(&home, &["credential", "set", "github", "--env", "TOKEN"], CANARY));
    let mut relay = run(&home, "github");
    let answer = relay.call("1", "echo", r#"{"message":"x"}"#);
    for process in home.processes() {
        let command = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!contains(&command, CANARY), "in the arguments of {process:?}");
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let is_server = process.command.contains("--dump");
        assert_eq!(contains(&environment, CANARY), is_server, "the environment of {process:?}");
    }
    let ended = relay.close();
    keep(home.ok(&["server", "show", "github", "--json"]));
    keep(home.ok(&["server", "list", "--json"]));
    keep(home.ok(&["credential", "list", "--json"]));
    keep(home.ok(&["credential", "store", "status", "--json"]));
    keep(home.ok(&["log", "--json", "-n", "0"]));
    keep(home.ok(&["log"]));
    keep(home.ok(&["daemon", "status", "--json"]));
    home.kill_daemon(home.daemon_pid().unwrap());
    keep(home.run(&["run", "--server", "github"]));
    keep(home.ok(&["credential", "remove", "github", "--env", "TOKEN"]));
    keep(home.ok(&["server", "remove", "github"]));
    keep(home.ok(&["verify", "--json"]));
    for said in told {
        assert!(!said.contains(CANARY), "{said}");
    }
    assert!(!answer.to_string().contains(CANARY) && !contains(&ended.stderr, CANARY));
    // The database, its log, the daemon's log, the configuration, the sealed file: all of the home, but what the server wrote.
    let server_wrote = dump(&home, "github");
    assert!(holds(&server_wrote, CANARY.as_bytes()), "the server never had it, so this test shows nothing");
    let mut looked_at = 0;
    for file in files(home.path()).into_iter().filter(|file| *file != server_wrote) {
        for form in [CANARY, &base64(CANARY)] {
            assert!(!holds(&file, form.as_bytes()), "{}", file.display());
        }
        looked_at += 1;
    }
    for name in ["journal.db", "daemon.log", "credentials.sealed"] {
        assert!(home.path().join(name).exists(), "{name} was not among the {looked_at} files");
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// All files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    below.filter(|path| path.extension() != Some(OsStr::new("sock"))).collect()
}

/// As the stores of systems keep it.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    // Whole groups only: enough to find it by.
    for group in text.as_bytes().chunks_exact(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        encoded.extend([18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63])));
    }
    encoded
}
