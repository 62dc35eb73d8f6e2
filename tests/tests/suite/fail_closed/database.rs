//! The database is gone, another one, or a newer one's.

use std::fs;
use std::os::unix::fs::FileExt;

use callgate_tests::home::Home;
use callgate_tests::session::Session;
use serde_json::json;

use super::{passes, reached, recovers, refused_with};

/// Where the file format of `SQLite` keeps `user_version`, 32 bits big-endian.
const USER_VERSION_AT: u64 = 60;

/// What is said of a journal of another install.
const OTHER_INSTALL: &str = "this is install";

/// A home with a journal of one allowed call and one rule, its daemon stopped.
fn used() -> Home {
    let home = Home::configured("relay: { decision_deadline: 5s }");
    let _ = home.ok(&["policy", "deny", "drop"]);
    let mut session = Session::within(home);
    passes(&mut session, 1);
    let home = session.end();
    home.stop_daemon();
    home
}

/// Every call is refused as one of a journal that this install does not know, `daemon status` says what is wrong, `verify`
/// vouches for nothing, and nothing is written to what lies there.
#[track_caller]
fn denies_as_foreign(home: Home, word: &str) -> Home {
    let before = fs::read(home.database()).ok();
    let mut session = Session::within(home);
    refused_with(&mut session, 50, "journal-foreign");
    assert!(!reached(&session.received(), 50));
    let changed = session.home.run(&["policy", "deny", "x"]);
    assert_eq!(changed.code, Some(3), "{changed:?}");
    let status = session.home.run(&["daemon", "status"]);
    let told = format!("{}{}", status.stdout, status.stderr);
    assert!(told.contains(word), "{word:?} is not in {told}");
    // A journal of another install is the wrong answer; one that is missing or unreadable is none.
    let verified = if word == OTHER_INSTALL { 1 } else { 3 };
    assert_eq!(session.home.run(&["verify"]).code, Some(verified));
    let home = session.end();
    home.stop_daemon();
    assert_eq!(fs::read(home.database()).ok(), before, "the foreign database was touched");
    home
}

#[test]
fn a_database_of_a_newer_schema_is_refused_and_left_alone() {
    let home = used();
    let database = fs::OpenOptions::new().read(true).write(true).open(home.database()).unwrap();
    let mut version = [0; 4];
    database.read_exact_at(&mut version, USER_VERSION_AT).unwrap();
    assert_ne!(version, [0; 4], "the schema has no version");
    database.write_all_at(&99_u32.to_be_bytes(), USER_VERSION_AT).unwrap();
    let home = denies_as_foreign(home, "99");
    database.write_all_at(&version, USER_VERSION_AT).unwrap();
    works_as_before(home);
}

#[test]
fn a_removed_database_is_not_begun_anew() {
    let home = used();
    let kept = home.path().join("kept");
    fs::rename(home.database(), &kept).unwrap();
    let home = denies_as_foreign(home, "journal.db");
    assert!(!home.database().exists(), "an empty journal took the place of the one that is missing");
    fs::rename(kept, home.database()).unwrap();
    works_as_before(home);
}

#[test]
fn a_database_of_another_install_is_refused() {
    let (home, other) = (used(), used());
    let kept = home.path().join("kept");
    fs::rename(home.database(), &kept).unwrap();
    fs::copy(other.database(), home.database()).unwrap();
    let home = denies_as_foreign(home, OTHER_INSTALL);
    fs::rename(kept, home.database()).unwrap();
    works_as_before(home);
}

#[test]
fn a_damaged_database_is_refused() {
    let home = used();
    let sound = fs::read(home.database()).unwrap();
    fs::write(
        home.database(),
        b"this is no database at all, and longer than a header of one hundred bytes would have to be",
    )
    .unwrap();
    let mut session = Session::within(home);
    refused_with(&mut session, 1, "journal-foreign");
    let home = session.end();
    home.stop_daemon();
    fs::write(home.database(), sound).unwrap();
    works_as_before(home);
}

#[test]
fn a_database_removed_under_a_running_daemon_is_noticed() {
    let home = used();
    let mut session = Session::within(home);
    passes(&mut session, 1);
    let database = session.home.database();
    for suffix in ["", "-wal", "-shm"] {
        let mut path = database.clone().into_os_string();
        path.push(suffix);
        fs::rename(&path, session.home.path().join(format!("kept{suffix}"))).ok();
    }
    refused_with(&mut session, 2, "journal-foreign");
    let told = session.home.run(&["policy", "deny", "x"]).exits(3);
    assert!(told.stderr.contains("hint: put this install's own journal back"), "{told:?}");
    let status = session.home.run(&["daemon", "status"]).exits(1);
    assert!(status.stdout.contains("problem: the journal is not the one this install knows"), "{status:?}");
    assert!(!status.stdout.contains("problem: hint"), "{status:?}");
    let _ = session.home.run(&["daemon", "restart"]);
    refused_with(&mut session, 3, "journal-foreign");
    session.end();
}

#[test]
fn rules_that_do_not_load_refuse_every_call_and_the_status_says_so() {
    let home = used();
    let database = rusqlite::Connection::open(home.database()).unwrap();
    let changed =
        database.execute("UPDATE policy SET item = replace(item, 'drop', '') WHERE kind = 'rule'", []).unwrap();
    assert_eq!(changed, 1);
    drop(database);
    let mut session = Session::within(home);
    let answer = session.call("2", "echo", r#"{"message":"m"}"#);
    let decision = &answer["result"]["_meta"]["dev.callgate/decision"];
    assert_eq!(decision["code"], "plugin-not-ready", "{answer}");
    let entry = session.home.entry("the refusal", |entry| decision["entry"] == entry.seq);
    assert_eq!((&entry.body["decision"], &entry.body["code"]), (&json!("error"), &json!("plugin-not-ready")));
    let status = session.home.run(&["daemon", "status"]).exits(1);
    assert!(status.stdout.contains("problem: every call is refused: the plugin rules is not ready: "), "{status:?}");
    session.end();
}

#[track_caller]
fn works_as_before(home: Home) {
    let mut session = Session::within(home);
    recovers(&mut session, 100);
    let answer = session.call("2", "drop", "{}");
    assert_eq!(answer["result"]["_meta"]["dev.callgate/decision"]["code"], "rules/deny", "the rule is gone: {answer}");
    let _ = session.home.ok(&["verify"]);
    session.end();
}
