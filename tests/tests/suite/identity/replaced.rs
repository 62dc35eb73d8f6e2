//! Programs that change: the agent's own, and Callgate's.

use std::fs;
use std::process::Command;

use callgate_tests::command::Finished;
use callgate_tests::home::Home;
use callgate_tests::program;
use callgate_tests::relay::Relay;
use serde_json::json;

use super::{Programs, enrol, shell, start_of, started_by, unknown, who};

#[test]
fn a_changed_program_is_stale_until_it_is_refreshed() {
    let (home, programs) = (Home::new(), Programs::new());
    let cursor = programs.client("cursor");
    enrol(&home, "cursor", &cursor, &[]);
    let list = || home.ok(&["agent", "list"]).stdout;
    let state = || home.ok(&["agent", "list", "--json"]).json()["agents"][0]["state"].clone();
    assert_eq!((list(), state()), (format!("cursor: {}\n", cursor.display()), json!("current")));
    let id = home.ok(&["agent", "show", "cursor", "--json"]).json()["id"].clone();
    let mut old = started_by(&home, &shell(&cursor), None);
    let _ = old.call("1", "echo", "{}");

    // As an update does it: a new file takes the old one's place.
    fs::rename(programs.client("new"), &cursor).unwrap();
    let start = start_of(&home, started_by(&home, &shell(&cursor), None));
    assert_eq!(who(&start), unknown(json!({ "stale": "cursor" })));
    let told = "(its program has changed since it was enrolled: callgate agent refresh cursor)\n";
    assert!(list().ends_with(told) && state() == "stale", "{}", list());
    let log = home.ok(&["log"]).stdout;
    assert!(
        log.contains(
            "agent not known: the program of cursor has changed since it was enrolled; callgate agent refresh"
        )
    );

    let refreshed = home.ok(&["agent", "refresh", "cursor"]).stdout;
    assert!(refreshed.starts_with(&format!("refreshed: cursor: {} (entry ", cursor.display())), "{refreshed}");
    assert!(home.ok(&["agent", "refresh", "cursor"]).stdout.starts_with("unchanged: cursor: "));
    let start = start_of(&home, started_by(&home, &shell(&cursor), None));
    assert_eq!((who(&start), &start["agent"]["id"]), (json!("cursor"), &id), "it is the same agent");
    // A session keeps what it was.
    let _ = old.call("2", "echo", "{}");
    assert_eq!(home.decisions().pop().unwrap()["agent"]["id"], id);
    assert_eq!(old.close().code(), 0);

    fs::remove_file(&cursor).unwrap();
    assert_eq!(state(), "gone");
    let gone = home.run(&["agent", "refresh", "cursor"]).exits(2);
    assert!(gone.stderr.contains("cannot look at ") && gone.stderr.contains("hint: "), "{gone:?}");
    home.stop_daemon();
    let _ = home.ok(&["verify"]);
}

#[test]
fn the_enrolled_file_is_the_agent_while_it_runs_although_another_took_its_place() {
    let (home, programs) = (Home::new(), Programs::new());
    let cursor = programs.client("cursor");
    enrol(&home, "cursor", &cursor, &[]);
    home.start_daemon();
    // It is replaced while it runs, and starts a server after that.
    let new = programs.client("new");
    let replace = format!("mv {} {} && \"$@\"; exit $?", new.display(), cursor.display());
    let words = [cursor.as_os_str(), "-c".as_ref(), replace.as_ref(), "start".as_ref()];
    let start = start_of(&home, started_by(&home, &words, None));
    assert_eq!(who(&start), "cursor");
    assert_eq!(
        (&start["ancestry"][0]["executable"]["path"], &start["ancestry"][0]["replaced"]),
        (&json!(cursor), &json!(true))
    );
}

/// Another build is refused by its name (`fail_closed`); the same build in another file is served, and knows nobody.
#[test]
fn a_callgate_that_is_installed_anew_knows_nobody_until_the_daemon_is_restarted() {
    let (home, programs) = (Home::new(), Programs::new());
    let install = |name: &str| {
        let path = programs.at(name);
        fs::copy(program::callgate(), &path).unwrap();
        path
    };
    let callgate = install("callgate");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&callgate);
        command.args(arguments).env("CALLGATE_HOME", home.path()).env_remove("CALLGATE_LOG");
        command
    };
    let run = |arguments: &[&str]| Finished::of(&mut command(arguments)).exits(0);
    let session = || {
        let fixture = program::fixture();
        let words = ["run", "--server", "fs", "--", fixture.to_str().unwrap()];
        who(&start_of(&home, Relay::of(&mut command(&words))))
    };
    let this = std::env::current_exe().unwrap();
    let _ = run(&["agent", "add", "tests", this.to_str().unwrap()]);
    assert_eq!(session(), "tests");
    fs::rename(install("new"), &callgate).unwrap();
    assert_eq!(session(), unknown("not-our-relay"));
    let log = home.ok(&["log"]).stdout;
    assert!(log.contains("if that was installed anew: callgate daemon restart"), "{log}");
    let _ = run(&["daemon", "restart"]);
    assert_eq!(session(), "tests");
}
