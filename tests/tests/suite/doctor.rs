//! `callgate doctor`: what is wrong is found and told with its remedy, and looking changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use callgate_tests::command::Finished;
use callgate_tests::home::Home;
use callgate_tests::interposer::{Fate, Interposer, Message};
use callgate_tests::program;
use serde_json::{Value, json};

/// What `callgate doctor` says in a home whose session has no bus, and whose `PATH` begins with this program's folder.
fn doctor(home: &Home, arguments: &[&str]) -> Finished {
    let mut command = home.prepare(&[&["doctor"], arguments].concat());
    let folder = program::callgate().parent().unwrap().to_owned();
    let nobody = format!("unix:path={}", home.path().join("nobody").display());
    command.env("PATH", folder).env("DBUS_SESSION_BUS_ADDRESS", nobody);
    // The clients of a person who has none, unless a test puts them there.
    Finished::of(command.env("HOME", home.path().join("person")).env_remove("XDG_CONFIG_HOME").current_dir("/"))
}

/// The checks that are not OK, as `check: state`, and everything that was said.
fn wrong(home: &Home, code: i32) -> (Vec<String>, Vec<Value>) {
    let report = doctor(home, &["--json"]).exits(code).json();
    let checks = report["checks"].as_array().unwrap().clone();
    for check in &checks {
        assert_eq!(check["remedy"].is_null(), check["state"] == "ok", "a remedy where something is wrong: {check}");
    }
    let wrong = checks.iter().filter(|check| check["state"] != "ok");
    let wrong =
        wrong.map(|check| format!("{}: {}", check["check"].as_str().unwrap(), check["state"].as_str().unwrap()));
    (wrong.collect(), checks)
}

#[track_caller]
fn said(checks: &[Value], check: &str, what: &str, remedy: &str) {
    let found = checks.iter().any(|entry| {
        let has = |member: &str, part: &str| entry[member].as_str().unwrap_or_default().contains(part);
        entry["check"] == check && has("found", what) && has("remedy", remedy)
    });
    assert!(found, "no {check} with {what:?} and {remedy:?}: {checks:#?}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        }
        files.push(path);
    }
    files.sort();
    files
}

#[test]
fn a_fresh_home_has_nothing_wrong_and_is_left_as_it_is() {
    let home = Home::new();
    let before = files(home.path());
    let (wrong, checks) = wrong(&home, 0);
    // Here is no store of secrets, which nobody needs yet.
    assert_eq!(wrong, ["credentials: warn"]);
    said(&checks, "credentials", "none can be kept: there is no session bus", "sealed-file");
    assert_eq!(files(home.path()), before, "it was only to look");
    assert!(home.daemons().is_empty(), "it was not to start a daemon");
    let text = doctor(&home, &[]).exits(0).stdout;
    assert_eq!(text.lines().count(), checks.len(), "a line a check");
    assert!(text.lines().all(|line| line.starts_with("OK ") || line.starts_with("WARN ")), "{text}");
}

#[test]
fn what_is_in_order_is_counted() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "x"]);
    let _ = home.ok(&["policy", "budget", "3", "--all-tools"]);
    let (wrong, checks) = wrong(&home, 0);
    assert_eq!(wrong, ["credentials: warn"]);
    let found = |name: &str| {
        let check = checks.iter().find(|check| check["check"] == name).unwrap();
        check["found"].as_str().unwrap().to_owned()
    };
    assert_eq!(found("rules"), "1 rules, 1 budgets, 0 grants");
    assert!(found("daemon").starts_with("running (pid "), "{}", found("daemon"));
    assert!(found("journal").ends_with("entries, and the chain holds"), "{}", found("journal"));
    assert!(found("install").starts_with("ins_"), "{}", found("install"));
    assert_eq!(found("plugins"), "rules, budget");
}

#[test]
fn a_configuration_and_a_folder_that_are_not_right_fail() {
    let home = Home::configured("defualt: allow");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (wrong, checks) = wrong(&home, 1);
    assert_eq!(wrong, ["folders: fail", "config: fail", "credentials: warn"]);
    said(&checks, "folders", "other users may write", "chmod go-w");
    said(&checks, "config", "unknown key \"defualt\"", "did you mean default?");
    let text = doctor(&home, &[]).exits(1).stdout;
    assert!(text.contains("FAIL  config") && text.contains("(hint: did you mean default?)"), "{text}");
}

#[test]
fn a_journal_that_is_gone_or_altered_fails() {
    let home = Home::new();
    let _ = home.ok(&["policy", "deny", "a-tool-that-is-easy-to-find"]);
    home.stop_daemon();
    let whole = fs::read(home.database()).unwrap();
    let mut altered = whole.clone();
    let needle = b"a-tool-that-is-easy-to-find";
    let mut found = 0;
    for at in 0..altered.len() - needle.len() {
        if altered[at..].starts_with(needle) {
            altered[at] ^= 1;
            found += 1;
        }
    }
    assert!(found > 0, "the rule is not in the file");
    fs::write(home.database(), altered).unwrap();
    let (wrong, checks) = self::wrong(&home, 1);
    assert!(wrong.contains(&"journal: fail".to_owned()), "{wrong:?}");
    said(&checks, "journal", "broken at entry", "callgate verify");

    fs::remove_file(home.database()).unwrap();
    let (wrong, checks) = self::wrong(&home, 1);
    assert_eq!(wrong[..2], ["install: fail", "journal: fail"]);
    said(&checks, "install", "is missing, although this install has one", "put the journal back from a backup");
    fs::write(home.database(), whole).unwrap();
    assert_eq!(self::wrong(&home, 0).0, ["credentials: warn"]);
}

#[test]
fn a_daemon_of_another_build_fails_until_it_is_restarted() {
    let home = Home::new();
    home.start_daemon();
    let interposer = Interposer::of_questions(&home, |message: &Message| {
        let mut message = message.clone();
        if message.head.get("build").is_some() {
            message.head["build"] = json!("0.0.0+another");
        }
        Fate::Pass(vec![message])
    });
    let (wrong, checks) = wrong(&home, 1);
    assert_eq!(wrong, ["daemon: fail", "credentials: warn"]);
    said(&checks, "daemon", "build", "callgate daemon restart");
    drop(interposer);
    let _ = home.ok(&["daemon", "restart"]);
    assert_eq!(self::wrong(&home, 0).0, ["credentials: warn"]);
}

#[test]
fn a_plugin_whose_file_changed_fails_whether_or_not_a_daemon_runs() {
    let home = Home::new();
    let file = home.path().join("guard.wasm");
    fs::write(&file, fs::read(plugin()).unwrap()).unwrap();
    let _ = home.ok(&["plugin", "install", file.to_str().unwrap(), "--name", "guard", "--yes"]);
    assert_eq!(wrong(&home, 0).0, ["credentials: warn"]);
    let kept = fs::read_dir(home.path().join("plugins")).unwrap().next().unwrap().unwrap().path();
    fs::write(&kept, b"another").unwrap();
    let (wrong, checks) = self::wrong(&home, 1);
    assert_eq!(wrong, ["plugins: fail", "credentials: warn"]);
    said(&checks, "plugins", "changed: it has the digest", "callgate plugin install FILE --name guard");
    home.stop_daemon();
    assert_eq!(self::wrong(&home, 1).0, ["plugins: fail", "credentials: warn"]);
    let _ = home.ok(&["daemon", "start"]);
    let (_, checks) = self::wrong(&home, 1);
    said(&checks, "plugins", "every call is refused: the plugin guard is not ready", "callgate plugin show guard");
}

/// A component that installs: one of the shipped ones under another name.
fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist/rules.wasm")
}

#[test]
fn what_keeps_a_registered_server_from_starting_fails() {
    let home = Home::new();
    let fixture = program::fixture();
    let _ = home.ok(&["server", "add", "fs", "--", fixture.to_str().unwrap()]);
    let _ = home.ok(&["server", "add", "gone", "--", "/nowhere/a-server"]);
    let _ = crate::servers::given(&home, &["credential", "store", "init", "--sealed-file"], "a passphrase for tests\n")
        .exits(0);
    let token = ["server", "add", "github", "--env", "TOKEN", "--", fixture.to_str().unwrap()];
    let _ = crate::servers::given(&home, &token, "secret").exits(0);
    let (wrong, checks) = self::wrong(&home, 0);
    assert_eq!(wrong, ["servers: warn"], "{checks:#?}");
    said(&checks, "servers", "the program of gone is not found", "with its whole path");
    // A daemon that starts anew does not have the passphrase.
    let _ = home.ok(&["daemon", "restart"]);
    let (wrong, checks) = self::wrong(&home, 1);
    assert_eq!(wrong, ["credentials: fail", "servers: warn"]);
    said(&checks, "credentials", "1 cannot be had: the sealed file is locked", "callgate credential store unlock");
    home.stop_daemon();
    assert_eq!(self::wrong(&home, 1).0, ["credentials: fail", "servers: warn"], "without a daemon the same");
    let _ = home.ok(&["credential", "remove", "github", "--env", "TOKEN"]);
    let (wrong, checks) = self::wrong(&home, 1);
    assert!(wrong.contains(&"servers: fail".to_owned()), "{wrong:?}");
    said(&checks, "servers", "its credential TOKEN is not set", "callgate credential set github --env TOKEN");
}

#[test]
fn another_callgate_in_the_path_is_told() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("callgate");
    fs::write(&other, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let said = |path: &Path| Finished::of(home.prepare(&["doctor"]).env("PATH", path)).exits(0).stdout;
    let found = said(folder.path());
    assert!(found.starts_with("WARN  program") && found.contains(other.to_str().unwrap()), "{found}");
    let found = said(home.path());
    assert!(found.contains("is not in any folder of PATH (hint: add "), "{found}");
}

#[test]
fn a_shell_can_complete_and_man_can_show_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.ok(&["completions", shell]).stdout;
        assert!(script.contains("doctor") && script.contains("credential"), "{shell}: {script}");
    }
    let bash = tempfile::NamedTempFile::new().unwrap();
    fs::write(bash.path(), home.ok(&["completions", "bash"]).stdout).unwrap();
    let completed = format!(
        "source {}; COMP_WORDS=(callgate doc); COMP_CWORD=1; _callgate callgate doc callgate; echo \"${{COMPREPLY[@]}}\"",
        bash.path().display()
    );
    let completed = Finished::of(std::process::Command::new("bash").args(["-c", &completed])).exits(0);
    assert_eq!(completed.stdout, "doctor\n", "{completed:?}");

    let folder = home.path().join("man1");
    let _ = home.ok(&["man", folder.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("callgate.1").starts_with(".ie") && page("callgate.1").contains("callgate\\-policy(1)"));
    assert!(
        page("callgate-policy-explain.1").contains("what would be decided"),
        "{}",
        page("callgate-policy-explain.1")
    );
    assert!(!folder.join("callgate-demo-server.1").exists(), "a hidden command has a page");
}

#[test]
fn an_agent_whose_program_changed_and_a_rule_for_nobody_are_told() {
    let home = Home::new();
    let program = home.path().join("agent");
    fs::copy("/bin/true", &program).unwrap();
    let _ = home.ok(&["agent", "add", "cursor", program.to_str().unwrap()]);
    assert_eq!(wrong(&home, 0).0, ["credentials: warn"]);
    let _ = home.ok(&["policy", "deny", "x", "--agent", "nobody"]);
    // As an update does: another file in the place of the one that is there.
    let next = home.path().join("agent.next");
    fs::copy("/bin/false", &next).unwrap();
    fs::rename(&next, &program).unwrap();
    let (wrong, checks) = self::wrong(&home, 0);
    assert_eq!(wrong, ["agents: warn", "agents: warn", "credentials: warn"]);
    said(&checks, "agents", "cursor is stale", "callgate agent refresh cursor");
    said(&checks, "agents", "no agent named nobody is enrolled", "callgate agent add nobody PROGRAM");
    let _ = home.ok(&["agent", "refresh", "cursor"]);
    fs::remove_file(&program).unwrap();
    said(&self::wrong(&home, 0).1, "agents", "cursor: ", "callgate agent remove cursor");
}

#[test]
fn what_clients_start_is_told_file_by_file() {
    let home = Home::new();
    let file = home.path().join("person/.cursor/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let configured = |entry: Value| fs::write(&file, json!({ "mcpServers": { "fs": entry } }).to_string()).unwrap();
    let through = |callgate: &Path| json!({ "command": callgate, "args": ["run", "--server", "fs", "--", "npx", "x"] });

    configured(json!({ "command": "npx", "args": ["x"] }));
    let (wrong, checks) = self::wrong(&home, 0);
    assert_eq!(wrong, ["credentials: warn", "clients: warn"]);
    said(&checks, "clients", "1 of 1 servers do not go through Callgate", "callgate init --write");

    configured(through(Path::new("/nowhere/callgate")));
    let (wrong, checks) = self::wrong(&home, 1);
    assert_eq!(wrong, ["credentials: warn", "clients: fail"]);
    said(&checks, "clients", "1 of 1 servers do not start", "callgate init --repoint --write");

    configured(through(program::callgate()));
    let (wrong, checks) = self::wrong(&home, 0);
    assert_eq!(wrong, ["credentials: warn"]);
    said(&checks, "clients", "cursor: ", "");

    fs::write(&file, "{").unwrap();
    let (wrong, checks) = self::wrong(&home, 0);
    assert_eq!(wrong, ["credentials: warn", "clients: warn"]);
    said(&checks, "clients", "mcp.json: ", "as cursor has to read it too");
}
