//! `callgate agent`, and what becomes of the policy when an agent comes and goes.

use callgate_tests::home::Home;
use serde_json::{Value, json};

use super::{Programs, enrol, shell, start_of, started_by, unknown, who};

#[test]
fn a_name_that_is_enrolled_again_has_its_rules_and_a_fresh_count() {
    let (home, programs) = (Home::new(), Programs::new());
    let (cursor, other) = (programs.client("cursor"), programs.client("other"));
    // Rules may be there first.
    let early = home.ok(&["policy", "deny", "drop", "--agent", "cursor"]);
    assert!(early.stderr.contains("warning: no agent named cursor is enrolled"), "{early:?}");
    let added = home.ok(&["agent", "add", "cursor", cursor.to_str().unwrap()]);
    assert!(added.stdout.ends_with("now applies to cursor: 1 rule\n"), "{added:?}");
    let budget = ["policy", "budget", "1", "--tool", "echo", "--agent", "cursor", "--shared-by", "agent"];
    assert_eq!(home.ok(&budget).stderr, "", "somebody of this name is there");
    let _ = home.ok(&["grant", "cursor", "fs"]);
    let explained =
        |args: &[&str]| home.run(&[&["policy", "explain", "echo", "--server", "fs", "--json"], args].concat()).json();
    let spent = || explained(&["--agent", "cursor"])["charges"][0]["spent"].clone();
    assert_eq!(spent(), 0);
    let mut first = started_by(&home, &shell(&cursor), None);
    assert_eq!(first.call("1", "echo", "{}")["result"]["isError"], Value::Null);
    assert_eq!(first.call("2", "echo", "{}")["result"]["isError"], true, "its budget is spent");
    assert_eq!(spent(), 1, "explain asks about the agent's own counter");
    assert_eq!(explained(&["--agent", "cursor"])["agent"]["evidence"], "executable");
    let text = home.run(&["policy", "explain", "drop", "--agent", "cursor"]).exits(1).stdout;
    assert!(text.contains("\n  agent: cursor (executable)\n"), "{text}");
    let usage = home.ok(&["policy", "usage"]).stdout;
    assert!(usage.contains("agent cursor  at most 1 call of echo"), "{usage}");

    // Removed, its session has nothing of the name from the next call on.
    let removed = home.ok(&["agent", "remove", "cursor"]);
    assert!(removed.stdout.starts_with("removed: cursor: "), "{removed:?}");
    assert!(removed.stderr.contains("notice: 1 session is of it open, not known from the next call on"), "{removed:?}");
    let warned = "warning: until an agent named cursor is enrolled, this binds nobody: 1 rule, 1 budget, 1 grant\n";
    assert!(removed.stderr.ends_with(warned), "{removed:?}");
    assert_eq!(first.call("3", "echo", "{}")["result"]["isError"], Value::Null, "neither its budget binds it");
    assert_eq!(first.call("4", "drop", "{}")["result"]["isError"], Value::Null, "nor its rules and grants");
    assert!(home.decisions().pop().unwrap().get("agent").is_none());
    assert!(home.ok(&["daemon", "status"]).stdout.contains("  fs: agent not known: it is enrolled no more; pid "));
    assert_eq!(who(&start_of(&home, started_by(&home, &shell(&cursor), None))), unknown("not-enrolled"));

    let again = home.ok(&["agent", "add", "cursor", other.to_str().unwrap()]);
    assert!(again.stdout.ends_with("now applies to cursor: 1 rule, 1 budget, 1 grant\n"), "{again:?}");
    assert_eq!(spent(), 0, "another agent has spent nothing");
    let mut second = started_by(&home, &shell(&other), None);
    assert_eq!(second.call("1", "drop", "{}")["result"]["isError"], true, "the rule moved with the name");
    assert_eq!(second.call("2", "echo", "{}")["result"]["isError"], Value::Null);
    // Who was somebody stays nobody until a new session.
    assert_eq!(first.call("5", "echo", "{}")["result"]["isError"], Value::Null);
    assert!(home.decisions().pop().unwrap().get("agent").is_none());
    assert_eq!((first.close().code(), second.close().code()), (0, 0));
    home.stop_daemon();
    let _ = home.ok(&["verify"]);
    let kinds: Vec<String> =
        home.entries().into_iter().map(|entry| entry.kind).filter(|kind| kind.starts_with("agent.")).collect();
    assert_eq!(kinds, ["agent.add", "agent.remove", "agent.add"]);
}

#[test]
fn agents_are_listed_and_shown_with_a_daemon_and_without() {
    let (home, programs) = (Home::new(), Programs::new());
    assert_eq!(home.ok(&["agent", "list"]).stdout, "no agents are enrolled\n");
    let cursor = programs.client("cursor");
    enrol(&home, "cursor", &cursor, &["--via", "npx,sh"]);
    let _ = home.ok(&["policy", "deny", "drop", "--agent", "cursor"]);
    home.stop_daemon();
    assert_eq!(home.ok(&["agent", "list"]).stdout, format!("cursor: {} via npx, sh\n", cursor.display()));
    let shown = home.ok(&["agent", "show", "cursor"]).stdout;
    let rest = shown.split_once(")\n").unwrap().1;
    let path = cursor.display();
    assert_eq!(rest, format!("  program: {path}\n  named: {path}\n  via: npx, sh\n  named by: 1 rule\n"));
    let json = home.ok(&["agent", "show", "cursor", "--json"]).json();
    assert!(json["id"].as_str().is_some_and(|id| id.starts_with("agt_") && id.len() == 36), "{json}");
    assert_eq!(
        (&json["state"], &json["naming"]["rules"], &json["via"]),
        (&json!("current"), &json!(1), &json!(["npx", "sh"]))
    );
}

#[test]
fn what_is_wrong_with_an_enrolment_is_said_with_the_next_step() {
    let (home, programs) = (Home::new(), Programs::new());
    let cursor = programs.client("cursor");
    let path = cursor.to_str().unwrap();
    enrol(&home, "cursor", &cursor, &[]);
    let text = programs.script("text", "");
    std::fs::set_permissions(&text, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let wrong: &[(&[&str], &str)] = &[
        (&["add", "cursor", path], "there is an agent named cursor already\nhint: to take its program as it is now: "),
        (&["add", "x", "no-such-program"], "there is no program no-such-program in the PATH\nhint: give the path"),
        (&["add", "x", "/no/such/program"], "cannot look at /no/such/program: "),
        (&["add", "x", text.to_str().unwrap()], "is not a program\nhint: "),
        (&["add", "x", "/"], "is not a program\nhint: "),
        (&["add", "x", "bash"], "is an interpreter: "),
        (&["add", "x", path, "--script", path], "is not an interpreter that is known here"),
        (&["add", "x", path, "--via", "python3"], "python3 runs any program, so that looking through it"),
        (&["add", "not a name", path], "agent name"),
        (&["show", "nobody"], "no agent named nobody is enrolled\nhint: callgate agent list"),
        (&["refresh", "nobody"], "no agent named nobody is enrolled"),
        (&["remove", "nobody"], "no agent named nobody is enrolled"),
    ];
    for (arguments, message) in wrong {
        let told = home.run(&[&["agent"], *arguments].concat()).exits(2);
        assert!(told.stdout.is_empty() && told.stderr.contains(message), "{arguments:?}: {told:?}");
    }
    assert_eq!(home.ok(&["agent", "list"]).stdout.lines().count(), 1);
    let explained = home.ok(&["policy", "explain", "echo", "--agent", "nobody"]).stdout;
    assert!(explained.contains("  note: no agent named nobody is enrolled\n"), "{explained}");
}
