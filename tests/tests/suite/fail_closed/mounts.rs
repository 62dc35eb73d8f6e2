//! The disk is full or may not be written to. Needs root, for a small file system.

use callgate_tests::home::Home;
use callgate_tests::mount::{ReadOnly, SmallDisk};
use callgate_tests::session::Session;

use super::{passes, reached, recovers, refused_with};
use crate::skipped;

/// Room for the database, its WAL, and the compiled plugins.
const DISK_BYTES: u64 = 32 * 1024 * 1024;

fn disk() -> Option<SmallDisk> {
    let disk = SmallDisk::new(DISK_BYTES);
    if disk.is_none() {
        skipped("mounts", "only root may mount a small file system");
    }
    disk
}

/// A home there, with its plugins compiled.
fn started(disk: &SmallDisk) -> Home {
    let home = Home::at(disk.path());
    home.start_daemon();
    home
}

#[test]
fn mounts_a_full_disk_refuses_every_call_and_nothing_is_lost() {
    let Some(disk) = disk() else { return };
    let mut session = Session::within(started(&disk));
    passes(&mut session, 1);
    let filling = disk.fill();
    // What the database has allocated already still takes a few; then it is full.
    let mut id = 2;
    let refused = loop {
        let answer = session.call(&id.to_string(), "echo", r#"{"message":"m"}"#);
        if answer["result"]["isError"] == true {
            break answer;
        }
        id += 1;
        assert!(id < 100_000, "a full disk takes every call");
    };
    assert_eq!(refused["result"]["_meta"]["dev.callgate/decision"]["code"], "journal-full", "{refused}");
    let first_refused = id;
    for _ in 0..20 {
        id += 1;
        refused_with(&mut session, id, "journal-full");
    }
    let told = session.home.run(&["policy", "deny", "x"]).exits(3);
    assert!(told.stderr.contains("full") && told.stderr.contains("hint: free some space"), "{told:?}");
    // Reading goes on.
    let _ = session.home.ok(&["policy", "list"]);
    let _ = session.home.ok(&["log"]);

    drop(filling);
    let back = recovers(&mut session, id + 1);
    session.home.anomaly("journal-full");
    let _ = session.home.ok(&["verify"]);
    let allowed: Vec<String> = session
        .home
        .decisions()
        .iter()
        .filter(|decision| decision["decision"] == "allowed")
        .map(|decision| decision["request_id"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = (1..first_refused).chain([back]).map(|id| id.to_string()).collect();
    assert_eq!(allowed, expected, "the journal's allows are the calls that passed");
    assert!((first_refused..back).all(|id| !reached(&session.received(), id)));
    session.end();
}

#[test]
fn mounts_a_read_only_disk_refuses_every_call_and_it_recovers() {
    let Some(disk) = disk() else { return };
    let mut session = Session::within(started(&disk));
    passes(&mut session, 1);
    let home = session.end();
    home.stop_daemon();
    disk.set_read_only(true);
    // The lock file cannot be opened for writing either: no daemon can be had.
    let record = tempfile::tempdir().unwrap();
    let mut relay = home.relay("fs").start(callgate_tests::relay::fixture(&record.path().join("received")));
    let answer = relay.call("2", "echo", r#"{"message":"m"}"#);
    let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str().unwrap_or_default();
    assert!(["daemon-unreachable", "journal-write"].contains(&code), "{answer}");
    let told = home.run(&["policy", "deny", "x"]).exits(3);
    assert!(told.stderr.contains("error: ") || told.stderr.contains("ead-only"), "{told:?}");
    // What can be read is read.
    let _ = home.run(&["policy", "list"]);
    disk.set_read_only(false);
    recovers(&mut relay, 3);
    let _ = home.ok(&["verify"]);
    assert_eq!(relay.close().code(), 0);
}

#[test]
fn mounts_a_read_only_database_refuses_every_call_and_it_recovers() {
    let mut session = Session::new();
    passes(&mut session, 1);
    let home = session.end();
    home.stop_daemon();
    let Some(read_only) = ReadOnly::new(&home.database()) else {
        skipped("mounts", "only root may make a file read-only for root");
        return;
    };
    let mut session = Session::within(home);
    refused_with(&mut session, 2, "journal-write");
    let told = session.home.run(&["policy", "deny", "x"]).exits(3);
    assert!(told.stderr.contains("read-only") || told.stderr.contains("readonly"), "{told:?}");
    let status = session.home.run(&["daemon", "status"]);
    let told = format!("{}{}", status.stdout, status.stderr);
    assert!(told.contains("read-only") || told.contains("readonly"), "{told}");
    drop(read_only);
    let back = recovers(&mut session, 3);
    assert!((2..back).all(|id| !reached(&session.received(), id)));
    let _ = session.home.ok(&["verify"]);
    session.end();
}
