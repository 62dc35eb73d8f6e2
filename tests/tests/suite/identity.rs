//! Whose a session is: real programs that start relays, enrolled and not.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use callgate_tests::home::Home;
use callgate_tests::relay::{Relay, fixture};
use serde_json::{Value, json};

mod attacks;
mod commands;
mod replaced;

/// What a shell is told that starts a relay and waits for it.
const START: &str = r#""$@"; exit $?"#;

/// A folder of programs beside a home.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    /// A client of its own file: a shell under another name, which starts what it is told to.
    fn client(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        fs::copy("/bin/sh", &path).unwrap();
        path
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// A relay for the server `fs` that these words start, each a shell or the like that starts what follows it.
fn started_by<S: AsRef<OsStr>>(home: &Home, words: &[S], claim: Option<&str>) -> Relay {
    let launch = home.relay("fs");
    let launch = match claim {
        Some(claim) => launch.option("--agent").option(claim),
        None => launch,
    };
    let relay = launch.command_line(fixture(&home.path().join("received")));
    let words: Vec<OsString> = words.iter().map(|word| word.as_ref().to_owned()).chain(relay).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("CALLGATE_HOME", home.path()).env_remove("CALLGATE_LOG");
    Relay::of(&mut command)
}

/// The words of a shell of this path that starts what follows.
fn shell(path: &Path) -> [OsString; 4] {
    [path.into(), "-c".into(), START.into(), "start".into()]
}

/// What a new session's start says, once the session decided a call.
#[track_caller]
fn start_of(home: &Home, mut relay: Relay) -> Value {
    let _ = relay.call("1", "echo", "{}");
    assert_eq!(relay.close().code(), 0);
    starts(home).pop().unwrap()
}

fn starts(home: &Home) -> Vec<Value> {
    home.entries().into_iter().filter(|entry| entry.kind == "session.start").map(|entry| entry.body).collect()
}

/// The name of the agent of a session's start, or why there is none.
fn who(start: &Value) -> Value {
    match &start["agent"]["name"] {
        Value::Null => json!({ "unknown": start["unknown"] }),
        name => name.clone(),
    }
}

fn unknown(why: impl Into<Value>) -> Value {
    json!({ "unknown": why.into() })
}

#[track_caller]
fn enrol(home: &Home, name: &str, program: &Path, more: &[&str]) {
    let _ = home.ok(&[&["agent", "add", name, program.to_str().unwrap()], more].concat());
}

/// A program of this machine, without links.
fn installed(name: &str) -> Option<PathBuf> {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).stderr(Stdio::null()).output().unwrap();
    let path = String::from_utf8(found.stdout).unwrap();
    fs::canonicalize(path.trim()).ok()
}

#[test]
fn a_session_is_the_agent_whose_program_started_it() {
    let (home, programs) = (Home::new(), Programs::new());
    let (cursor, other) = (programs.client("cursor"), programs.client("other"));
    enrol(&home, "cursor", &cursor, &[]);
    let _ = home.ok(&["policy", "deny", "drop", "--agent", "cursor"]);
    let _ = home.ok(&["policy", "deny", "wipe"]);

    let mut known = started_by(&home, &shell(&cursor), None);
    let refused = known.call("1", "drop", "{}");
    assert_eq!(refused["result"]["_meta"]["dev.callgate/decision"]["rule"]["text"], "deny drop (agent cursor)");
    assert_eq!(known.call("2", "echo", "{}")["result"]["isError"], Value::Null);
    let mut unknown_one = started_by(&home, &shell(&other), None);
    assert_eq!(
        unknown_one.call("1", "drop", "{}")["result"]["isError"],
        Value::Null,
        "it meets no rule that names an agent"
    );
    assert_eq!(unknown_one.call("2", "wipe", "{}")["result"]["isError"], true, "and those that name none");

    let status = home.ok(&["daemon", "status"]).stdout;
    assert!(status.contains("  fs: agent cursor (executable); pid "), "{status}");
    let not_known = "  fs: agent not known: no enrolled agent is the program that started it; pid ";
    assert!(status.contains(not_known), "{status}");
    let open = home.ok(&["daemon", "status", "--json"]).json()["open_sessions"].clone();
    assert_eq!((&open[0]["agent"]["name"], &open[1]["unknown"]), (&json!("cursor"), &json!("not-enrolled")));
    let pid = known.pid();
    assert_eq!((known.close().code(), unknown_one.close().code()), (0, 0));

    let [first, second] = &starts(&home)[..] else { panic!("two sessions were opened") };
    let id = home.ok(&["agent", "show", "cursor", "--json"]).json()["id"].clone();
    assert_eq!(first["agent"], json!({ "id": id, "name": "cursor", "evidence": "executable" }));
    assert_eq!(
        (&first["ancestry"][0]["pid"], &first["ancestry"][0]["executable"]["path"]),
        (&json!(pid), &json!(cursor))
    );
    assert_eq!(who(second), unknown("not-enrolled"));
    assert_eq!(second["ancestry"][0]["executable"]["path"], json!(other));
    assert_eq!(home.decisions()[0]["agent"]["name"], "cursor");
    let log = home.ok(&["log"]).stdout;
    assert!(log.contains(" with fs, agent cursor (executable): ") && log.contains(" fs/drop agent cursor"), "{log}");
    assert_eq!(home.ok(&["verify"]).code, Some(0));
}

#[test]
fn a_claim_chooses_between_several_and_one_that_does_not_fit_makes_nobody() {
    let (home, programs) = (Home::new(), Programs::new());
    let (cursor, zed) = (programs.client("cursor"), programs.client("zed"));
    enrol(&home, "cursor", &cursor, &[]);
    enrol(&home, "zed", &zed, &[]);
    let is = |program: &Path, claim| who(&start_of(&home, started_by(&home, &shell(program), claim)));
    assert_eq!(is(&cursor, Some("cursor")), "cursor");
    assert_eq!(is(&cursor, Some("zed")), unknown(json!({ "claim-unfit": "zed" })));
    assert_eq!(is(&cursor, Some("nobody")), unknown(json!({ "claim-unfit": "nobody" })));
    let again = home.ok(&["agent", "add", "work", cursor.to_str().unwrap()]);
    assert!(again.stderr.contains("notice: this program is cursor as well"), "{again:?}");
    assert_eq!(is(&cursor, Some("work")), "work");
    assert_eq!(is(&cursor, None), unknown(json!({ "ambiguous": ["cursor", "work"] })));
    assert_eq!(is(&zed, None), "zed", "a claim is not needed where one fits");

    let mismatch = starts(&home).into_iter().find(|start| start["claim"] == "zed").unwrap();
    let ancestry = mismatch["ancestry"].as_array().unwrap();
    assert_eq!(ancestry[0]["executable"]["path"], json!(cursor));
    let this = fs::canonicalize(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(ancestry[1]["executable"]["path"], json!(this), "the whole ancestry is there");
    assert_eq!(ancestry[1]["pid"], std::process::id());
}

#[test]
fn wrappers_are_looked_through_where_the_agent_lists_them() {
    let (home, programs) = (Home::new(), Programs::new());
    let cursor = programs.client("cursor");
    enrol(&home, "cursor", &cursor, &[]);
    let through = [shell(&cursor), shell(Path::new("/bin/sh"))].concat();
    assert_eq!(who(&start_of(&home, started_by(&home, &through, None))), unknown("not-enrolled"));
    let _ = home.ok(&["agent", "remove", "cursor"]);
    enrol(&home, "cursor", &cursor, &["--via", "sh"]);
    assert_eq!(who(&start_of(&home, started_by(&home, &through, None))), "cursor");
    // A script is a program of its own, whatever runs it.
    let script = programs.script("wrapper.sh", &format!("#!/bin/sh\n{START}\n"));
    let through = [&shell(&cursor)[..], &[script.into_os_string()]].concat();
    assert_eq!(who(&start_of(&home, started_by(&home, &through, None))), unknown("not-enrolled"));
    let _ = home.ok(&["agent", "remove", "cursor"]);
    enrol(&home, "cursor", &cursor, &["--via", "sh,wrapper"]);
    assert_eq!(who(&start_of(&home, started_by(&home, &through, None))), "cursor");
}

#[test]
fn a_package_runner_is_looked_through_by_its_name() {
    let Some(node) = installed("node") else { return crate::skipped("node", "there is no node") };
    let (home, programs) = (Home::new(), Programs::new());
    let cursor = programs.client("cursor");
    enrol(&home, "cursor", &cursor, &["--via", "npx,sh"]);
    // As npx runs what it is given: itself, a shell, and the program's own script.
    let run = "require('child_process').spawnSync(process.argv[2], process.argv.slice(3), {stdio: 'inherit'})";
    let npx = programs.script("npx-cli.js", run);
    let titled = programs.script("main.js", &format!("process.title = 'npm exec server';{run}"));
    let other = programs.script("other.js", run);
    let is = |script: &Path| {
        let by_node = [node.clone().into_os_string(), script.into()];
        let words = [&shell(&cursor)[..], &by_node, &shell(Path::new("/bin/sh"))].concat();
        who(&start_of(&home, started_by(&home, &words, None)))
    };
    assert_eq!(is(&npx), "cursor");
    assert_eq!(is(&titled), "cursor", "it shows `npm exec` instead of its arguments");
    assert_eq!(is(&other), unknown("not-enrolled"));
}

#[test]
fn an_interpreter_is_known_by_its_script() {
    let (home, programs) = (Home::new(), Programs::new());
    let text = format!("{START}\n");
    let (agent, other) = (programs.script("agent.sh", &text), programs.script("other.sh", &text));
    let alone = home.run(&["agent", "add", "mine", "sh"]).exits(2);
    assert!(alone.stderr.contains("is an interpreter: every program that it runs would be this agent"), "{alone:?}");
    assert!(alone.stderr.contains("hint: say what it runs: callgate agent add NAME "), "{alone:?}");
    enrol(&home, "mine", Path::new("sh"), &["--script", agent.to_str().unwrap()]);
    let is = |words: &[&OsStr]| start_of(&home, started_by(&home, words, None));
    let start = is(&["sh".as_ref(), agent.as_ref()]);
    assert_eq!((who(&start), &start["agent"]["evidence"]), (json!("mine"), &json!("executable-script")));
    assert_eq!(start["ancestry"][0]["script"], json!(agent));
    assert_eq!(who(&is(&["sh".as_ref(), other.as_ref()])), unknown("not-enrolled"));
    assert_eq!(who(&is(&["sh", "-c", START, "start"].map(AsRef::as_ref))), unknown("not-enrolled"));
    // Through a link and from the folder where it lies.
    symlink(&agent, programs.at("link.sh")).unwrap();
    assert_eq!(who(&is(&["sh".as_ref(), programs.at("link.sh").as_ref()])), "mine");
    let there = ["sh", "-c", "cd \"$0\" && exec sh -e agent.sh \"$@\""].map(OsStr::new);
    assert_eq!(who(&is(&[&there[..], &[programs.0.path().as_os_str()]].concat())), "mine");
}

#[test]
fn a_script_that_says_what_runs_it_is_enrolled_as_that() {
    let Some(node) = installed("node") else { return crate::skipped("node", "there is no node") };
    let (home, programs) = (Home::new(), Programs::new());
    let run = "require('child_process').spawnSync(process.argv[2], process.argv.slice(3), {stdio: 'inherit'})";
    let codex = programs.script("codex.js", &format!("#!/usr/bin/env node\n{run}"));
    symlink(&codex, programs.at("codex")).unwrap();
    let path = format!("{}:{}", programs.0.path().display(), std::env::var("PATH").unwrap());
    let mut add = home.prepare(&["agent", "add", "codex", "codex"]);
    let added = callgate_tests::command::Finished::of(add.env("PATH", path)).exits(0);
    let expected = format!("enrolled: codex: {} running {} (entry 2)\n", node.display(), codex.display());
    assert_eq!(added.stdout, expected);
    assert_eq!(who(&start_of(&home, started_by(&home, &[programs.at("codex")], None))), "codex");

    let shim = programs.script("cursor", &format!("#!/bin/sh\nexec {} \"$@\"\n", node.display()));
    let refused = home.run(&["agent", "add", "cursor", shim.to_str().unwrap()]).exits(2);
    assert!(
        refused.stderr.contains("which may start another program and be gone\nhint: enrol the program"),
        "{refused:?}"
    );
}

#[test]
fn python_runs_one_script_and_no_other() {
    let Some(python) = installed("python3.11").or_else(|| installed("python3")) else {
        return crate::skipped("python", "there is no python3");
    };
    // A shim is a script that becomes the interpreter; only the interpreter is seen.
    let real = Command::new(&python).args(["-c", "import os; print(os.readlink('/proc/self/exe'))"]).output().unwrap();
    let python = PathBuf::from(String::from_utf8(real.stdout).unwrap().trim());
    let (home, programs) = (Home::new(), Programs::new());
    let run = "import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))\n";
    let (mine, other) = (programs.script("mine.py", run), programs.script("other.py", run));
    enrol(&home, "mine", &python, &["--script", mine.to_str().unwrap()]);
    let is = |words: &[&OsStr]| who(&start_of(&home, started_by(&home, words, None)));
    let python = python.as_os_str();
    assert_eq!(is(&[python, "-u".as_ref(), mine.as_ref()]), "mine");
    assert_eq!(is(&[python, other.as_ref()]), unknown("not-enrolled"));
    assert_eq!(is(&[python, "-c".as_ref(), run.as_ref()]), unknown("not-enrolled"));
}

#[test]
fn a_relay_whose_parent_is_gone_is_nobodys() {
    let (home, programs) = (Home::new(), Programs::new());
    let cursor = programs.client("cursor");
    enrol(&home, "cursor", &cursor, &[]);
    let _ = home.start_daemon();
    // The relay is started once whoever is to start it has another parent than the client.
    let orphan = r#"exec 3<&0
(while read -r pid name state parent rest </proc/self/stat && [ "$parent" = "$$" ]; do :; done; exec "$@" <&3) &
exit 0"#;
    let words = [cursor.into_os_string(), "-c".into(), orphan.into(), "start".into()];
    let mut relay = started_by(&home, &words, None);
    let _ = relay.call("1", "echo", "{}");
    let start = starts(&home).pop().unwrap();
    assert!(start.get("agent").is_none(), "{start}");
    let why = &start["unknown"];
    // A process that is given the children of others may be the first one or another.
    assert!(*why == "parent-gone" || *why == "not-enrolled", "{start}");
    let _ = relay.close();
}
