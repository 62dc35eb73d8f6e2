use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use callgate_core::port::{LedgerFailure, Settlement};
use callgate_core::settle::Word;

use super::support::{Place, adding, allow, case, rule, settle, with_connection};
use crate::{Act, Fault, Point, PolicyError};

fn next(point: Point, act: Act) -> Fault {
    Fault { point, act, commit: 1 }
}

#[test]
fn after_a_failed_commit_the_chain_goes_on_without_a_fork() {
    for act in [Act::Full, Act::Io] {
        let place = Place::new();
        let journal = place.open();
        allow(&journal, "one").unwrap();
        journal.arm(next(Point::BeforeCommit, act));
        let failure = allow(&journal, "lost").unwrap_err();
        match act {
            Act::Full => assert_eq!(failure, LedgerFailure::Full),
            Act::Io | Act::Abort => assert!(matches!(&failure, LedgerFailure::WriteFailed(_)), "{failure:?}"),
        }
        assert_eq!(journal.status().failure, Some(failure));
        assert_eq!(allow(&journal, "two").unwrap(), 2);
        assert_eq!(journal.status().failure, None);
        drop(journal);
        assert_eq!(place.sound(), 2);
    }
}

#[test]
fn a_commit_that_succeeded_and_said_otherwise_is_found_again() {
    for act in [Act::Full, Act::Io] {
        let place = Place::new();
        let journal = place.open();
        journal.arm(next(Point::AfterCommit, act));
        allow(&journal, "in doubt").unwrap_err();
        assert_eq!(allow(&journal, "next").unwrap(), 2, "the entry in doubt keeps its number");
        drop(journal);
        assert_eq!(place.sound(), 2);
    }
}

#[test]
fn a_full_disk_denies_until_there_is_room_again() {
    let place = Place::new();
    let journal = place.open();
    let pages: i64 =
        with_connection(&journal, |sqlite| sqlite.pragma_query_value(None, "page_count", |row| row.get(0))).unwrap();
    let limit = |pages: i64| {
        with_connection(&journal, |sqlite| {
            sqlite.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        });
    };
    limit(pages);
    let mut written = 0;
    let failure = loop {
        match allow(&journal, "x") {
            Ok(entry) => written = entry,
            Err(failure) => break failure,
        }
    };
    assert_eq!(failure, LedgerFailure::Full);
    assert_eq!(allow(&journal, "x"), Err(LedgerFailure::Full), "it stays so");
    assert_eq!(place.reader().head().unwrap().entries, written, "reading goes on, and what was acknowledged is there");
    limit(pages + 100);
    assert_eq!(allow(&journal, "room again"), Ok(written + 1));
    drop(journal);
    assert_eq!(place.sound(), written + 1);
}

#[test]
fn a_database_that_cannot_be_written_says_so_and_recovers() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    with_connection(&journal, |sqlite| sqlite.pragma_update(None, "query_only", true)).unwrap();
    let failure = allow(&journal, "two").unwrap_err();
    assert!(matches!(&failure, LedgerFailure::WriteFailed(why) if why.contains("read-only")), "{failure:?}");
    assert_eq!(allow(&journal, "three").unwrap(), 2, "the next call gets another connection");
    drop(journal);
    assert_eq!(place.sound(), 2);
}

#[test]
fn a_rule_change_that_is_not_committed_is_not_taken_into_force() {
    let place = Place::new();
    let journal = place.open();
    let swapped = Arc::new(AtomicBool::new(false));
    let swap = || {
        let swapped = Arc::clone(&swapped);
        Box::new(move |_| swapped.store(true, Ordering::SeqCst))
    };
    journal.arm(next(Point::BeforeCommit, Act::Full));
    let error = journal.change_policy(vec![adding(rule(Word::Deny, "x"))], 0, swap()).unwrap_err();
    assert_eq!(error, PolicyError::Unwritten(LedgerFailure::Full));
    assert!(!swapped.load(Ordering::SeqCst));
    assert_eq!(journal.status().generation, 0);
    assert_eq!(journal.policy().unwrap(), crate::Policy::default());
    journal.change_policy(vec![adding(rule(Word::Deny, "x"))], 0, swap()).unwrap();
    assert!(swapped.load(Ordering::SeqCst));
}

#[test]
fn a_rule_change_whose_commit_is_in_doubt_shows_in_the_generation() {
    let place = Place::new();
    let journal = place.open();
    journal.arm(next(Point::AfterCommit, Act::Io));
    let error = journal.change_policy(vec![adding(rule(Word::Deny, "x"))], 0, Box::new(|_| ())).unwrap_err();
    assert!(matches!(error, PolicyError::Unwritten(_)));
    assert!(matches!(settle(&journal, case(0, "x")), Ok(Settlement::Stale)));
    assert_eq!(journal.status().generation, 1);
    assert_eq!(journal.policy().unwrap().items, [rule(Word::Deny, "x").into()]);
}

#[test]
fn another_writer_cannot_make_the_chain_fork() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    // Another process appends an entry of its own, which it must not and which no lock of SQLite's hinders.
    place.tamper("INSERT INTO entry (seq, time_ms, kind, body, chain) SELECT 2, time_ms, kind, body, chain FROM entry WHERE seq = 1");
    assert!(allow(&journal, "two").is_err());
    let failure = allow(&journal, "three").unwrap_err();
    assert!(
        matches!(failure, LedgerFailure::WriteFailed(_)),
        "nothing is chained to what does not verify: {failure:?}"
    );
}

#[test]
fn faults_are_read_from_text() {
    let fault: Fault = "before-commit:abort:37".parse().unwrap();
    assert_eq!(fault, Fault { point: Point::BeforeCommit, act: Act::Abort, commit: 37 });
    assert_eq!("after-commit:io:1".parse(), Ok(next(Point::AfterCommit, Act::Io)));
    for bad in ["", "before-commit", "before-commit:abort", "before-commit:abort:0", "x:io:1", "after-commit:io:1:2"] {
        assert!(bad.parse::<Fault>().is_err(), "{bad}");
    }
}

#[test]
fn a_fault_strikes_at_its_commit_and_once() {
    let place = Place::new();
    let journal = place.open();
    journal.arm(Fault { point: Point::BeforeCommit, act: Act::Full, commit: 3 });
    let results: Vec<bool> = (0..5).map(|_| allow(&journal, "x").is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
}
