//! Notes, the outcomes among them, and time.

use std::time::{Duration, Instant};

use callgate_core::entry::{ClockBody, Draft, Kind, Outcome};
use callgate_core::port::{Ledger, LedgerFailure};
use serde_json::from_slice;

use super::support::{Place, START_MS, TestClock, allow, anomaly, denied, session, with_connection};
use crate::batch::unsigned;
use crate::{Act, Breach, CallState, Content, DroppedNotes, Fault, Journal, NOTES_MAX, Point, Verification};

fn states(place: &Place) -> Vec<(u64, CallState)> {
    let decisions = place.entries().entries.into_iter().filter_map(|entry| match entry.content {
        Content::Decision(view) => Some((entry.seq, view.call?)),
        _ => None,
    });
    decisions.collect()
}

#[test]
fn a_note_rides_in_front_of_the_next_entry_that_nobody_waits_for_with_a_call() {
    let place = Place::new();
    let journal = place.open();
    let one = allow(&journal, "one").unwrap();
    journal.note_outcome(session(1), one, Outcome::Ok, None);
    journal.note(anomaly("odd"));
    journal.append(vec![anomaly("even")]).unwrap();
    assert_eq!(place.kinds(), ["call.decision", "call.outcome", "anomaly", "anomaly"]);
}

#[test]
fn a_decision_takes_notes_along_only_when_there_are_many() {
    let place = Place::new();
    let journal = place.open();
    // The thread for notes leaves them alone for a tenth of a second.
    for _ in 0..64 {
        journal.note(anomaly("odd"));
    }
    allow(&journal, "one").unwrap();
    let kinds = place.kinds();
    assert_eq!((kinds.len(), kinds[64].as_str()), (65, "call.decision"));
}

#[test]
fn a_note_that_no_commit_comes_for_gets_one_of_its_own() {
    let place = Place::new();
    let journal = place.open();
    journal.note(anomaly("odd"));
    let deadline = Instant::now() + Duration::from_mins(1);
    while journal.status().head.entries == 0 {
        assert!(Instant::now() < deadline, "nobody flushed the note");
        std::thread::yield_now();
    }
    assert_eq!(place.kinds(), ["anomaly"]);
}

#[test]
fn closing_writes_what_was_noted() {
    let place = Place::new();
    let journal = place.open();
    for _ in 0..1000 {
        journal.note(anomaly("odd"));
    }
    journal.close().unwrap();
    assert_eq!(place.sound(), 1000);
}

#[test]
fn notes_outlive_a_commit_that_fails() {
    let place = Place::new();
    let journal = place.open();
    journal.note(anomaly("odd"));
    journal.arm(Fault { point: Point::BeforeCommit, act: Act::Full, commit: 1 });
    while journal.status().failure.is_none() {
        // Whichever comes first takes the note along and fails: this call or the commit of its own.
        allow(&journal, "one").ok();
    }
    journal.close().unwrap();
    assert!(place.kinds().contains(&"anomaly".to_owned()));
    assert_eq!(journal.dropped_notes(), DroppedNotes::default());
}

#[test]
fn notes_beyond_the_bound_are_dropped_and_counted() {
    let place = Place::new();
    let journal = place.open();
    // Nothing can be committed while this is held, so that none of them gets away.
    let held = journal.shared().writer.lock().unwrap();
    let room = Draft { body: Vec::new(), ..anomaly("") };
    for _ in 0..NOTES_MAX + 1000 {
        journal.note(room.clone());
    }
    let dropped = journal.dropped_notes();
    drop(held);
    // The thread for notes may have taken some out to commit them.
    assert!(dropped.no_room > 0 && dropped.no_room <= 1000, "{dropped:?}");
    journal.note(Draft { body: vec![b' '; crate::NOTE_BYTES_MAX + 1], ..anomaly("") });
    assert_eq!(journal.dropped_notes().no_room, dropped.no_room + 1);
}

#[test]
fn a_call_is_pending_until_its_outcome_comes() {
    let place = Place::new();
    let journal = place.open();
    let entries: Vec<u64> = (0..3).map(|_| allow(&journal, "x").unwrap()).collect();
    journal.note_outcome(session(1), entries[0], Outcome::Ok, None);
    journal.note_outcome(session(1), entries[2], Outcome::Error, None);
    journal.flush().unwrap();
    assert_eq!(states(&place), [(1, CallState::Ok), (2, CallState::Pending), (3, CallState::Error)]);
}

#[test]
fn calls_that_are_open_for_long_are_not_forgotten() {
    let place = Place::new();
    let journal = place.open();
    let open = allow(&journal, "long").unwrap();
    let answered = allow(&journal, "short").unwrap();
    journal.note_outcome(session(1), answered, Outcome::Ok, None);
    journal.flush().unwrap();
    for _ in 0..21 {
        journal.settle((0..500).map(|_| denied(0, "x")).collect());
    }
    let late = allow(&journal, "late").unwrap();
    drop(journal);
    let written_down: Vec<i64> = {
        let connection = rusqlite::Connection::open(place.database()).unwrap();
        let mut query = connection.prepare("SELECT decision FROM open_call").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(written_down, [i64::try_from(open).unwrap()]);
    place.sound();

    let journal = place.open();
    assert_eq!(journal.given_up_calls(), 2);
    journal.note_outcome(session(1), open, Outcome::Ok, None);
    drop(journal);
    let known: Vec<(u64, String)> = {
        let connection = rusqlite::Connection::open(place.database()).unwrap();
        let sql = "SELECT decision, kind FROM outcome JOIN entry ON seq = entry ORDER BY decision";
        let mut query = connection.prepare(sql).unwrap();
        let row = |row: &rusqlite::Row| Ok((unsigned(row.get(0)?)?, row.get(1)?));
        query.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let kinds = [(open, "call.outcome"), (answered, "call.outcome"), (late, "outcome.unknown")];
    assert_eq!(known, kinds.map(|(decision, kind)| (decision, kind.to_owned())));
    place.sound();

    place.tamper("DELETE FROM open_call");
    assert!(matches!(place.verify(), Verification::Broken { breach: Breach::Beside { table: "open_call", .. }, .. }));
}

#[test]
fn an_outcome_that_no_call_awaits_is_not_written() {
    let place = Place::new();
    let journal = place.open();
    let entry = allow(&journal, "x").unwrap();
    journal.note_outcome(session(2), entry, Outcome::Ok, None);
    journal.note_outcome(session(1), entry + 1, Outcome::Ok, None);
    journal.note_outcome(session(1), 0, Outcome::Ok, None);
    journal.note_outcome(session(1), u64::MAX, Outcome::Ok, None);
    journal.note_outcome(session(1), entry, Outcome::Ok, None);
    journal.note_outcome(session(1), entry, Outcome::Error, None);
    journal.note(Draft { kind: Kind::CallOutcome, ..anomaly("by hand") });
    journal.flush().unwrap();
    assert_eq!(place.kinds(), ["call.decision", "call.outcome"]);
    assert_eq!(states(&place), [(1, CallState::Ok)]);
    assert_eq!(journal.dropped_notes(), DroppedNotes { no_room: 0, refused: 6 });
}

#[test]
fn calls_left_open_become_unknown_and_a_late_outcome_still_counts() {
    let place = Place::new();
    let journal = place.open();
    let entries: Vec<u64> = (0..3).map(|_| allow(&journal, "x").unwrap()).collect();
    journal.note_outcome(session(1), entries[0], Outcome::Ok, None);
    drop(journal);
    let journal = place.open();
    assert_eq!(journal.given_up_calls(), 2);
    assert_eq!(states(&place), [(1, CallState::Ok), (2, CallState::Unknown), (3, CallState::Unknown)]);
    journal.note_outcome(session(1), entries[1], Outcome::Error, None);
    journal.note_outcome(session(1), entries[1], Outcome::Ok, None);
    drop(journal);
    assert_eq!(states(&place), [(1, CallState::Ok), (2, CallState::Error), (3, CallState::Unknown)]);
    assert_eq!(place.kinds()[4..], ["outcome.unknown", "outcome.unknown", "call.outcome"]);
    let journal = place.open();
    assert_eq!(journal.given_up_calls(), 0, "a call is given up once");
    drop(journal);
    assert_eq!(place.sound(), 7);
}

#[test]
fn a_process_that_dies_leaves_its_calls_open() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "x").unwrap();
    // As good as killed: nothing is flushed, checkpointed or closed.
    let copy = Place::new();
    std::fs::create_dir_all(copy.database().parent().unwrap()).unwrap();
    std::fs::create_dir_all(copy.marker().parent().unwrap()).unwrap();
    for suffix in ["", "-wal"] {
        let file = |place: &Place| crate::files::beside(&place.database(), suffix);
        std::fs::copy(file(&place), file(&copy)).unwrap();
    }
    std::fs::copy(place.marker(), copy.marker()).unwrap();
    assert_eq!(copy.open().given_up_calls(), 1);
    assert_eq!(copy.kinds(), ["call.decision", "outcome.unknown"]);
}

fn times(place: &Place) -> Vec<i64> {
    place.entries().entries.iter().map(|entry| entry.time_ms - START_MS).collect()
}

fn jumps(place: &Place) -> Vec<(i64, i64)> {
    let entries = place.entries().entries;
    let jumps = entries.iter().filter(|entry| entry.kind == "clock.jump");
    jumps
        .map(|entry| from_slice(&entry.body).unwrap())
        .map(|body: ClockBody| (body.expected_ms - START_MS, body.now_ms - START_MS))
        .collect()
}

fn run(act: impl Fn(&TestClock, &Journal)) -> Place {
    let place = Place::new();
    let journal = place.open();
    act(&place.clock, &journal);
    drop(journal);
    place.sound();
    place
}

#[test]
fn time_passes_and_is_written() {
    let place = run(|clock, journal| {
        for _ in 0..3 {
            allow(journal, "x").unwrap();
            clock.pass(3_600_000);
        }
    });
    assert_eq!(times(&place), [0, 3_600_000, 7_200_000]);
    assert_eq!(jumps(&place), []);
}

#[test]
fn a_clock_that_is_set_back_holds_time_still_and_is_written() {
    let place = run(|clock, journal| {
        allow(journal, "x").unwrap();
        clock.pass(10);
        clock.set(-3_600_000);
        allow(journal, "x").unwrap();
        clock.pass(20);
        allow(journal, "x").unwrap();
    });
    assert_eq!(times(&place), [0, 0, 0, 0], "never back");
    assert_eq!(jumps(&place), [(10, 10 - 3_600_000)], "said once");
    assert_eq!(place.kinds()[1], "clock.jump", "in front of what it matters to");
}

#[test]
fn a_clock_that_is_set_forward_is_written() {
    let place = run(|clock, journal| {
        allow(journal, "x").unwrap();
        clock.set(86_400_000);
        allow(journal, "x").unwrap();
    });
    assert_eq!(times(&place), [0, 86_400_000, 86_400_000]);
    assert_eq!(jumps(&place), [(0, 86_400_000)]);
}

#[test]
fn a_clock_that_stands_before_the_newest_entry_at_start_is_written() {
    let place = run(|_, journal| {
        allow(journal, "x").unwrap();
    });
    place.clock.set(-60_000);
    drop(place.open());
    assert_eq!(jumps(&place), [(0, -60_000)]);
    place.sound();
}

#[test]
fn a_jump_whose_commit_fails_is_written_with_the_next() {
    let place = run(|clock, journal| {
        allow(journal, "x").unwrap();
        clock.set(86_400_000);
        journal.arm(Fault { point: Point::BeforeCommit, act: Act::Full, commit: 1 });
        assert_eq!(allow(journal, "x"), Err(LedgerFailure::Full));
        with_connection(journal, |sqlite| assert!(sqlite.is_autocommit()));
        allow(journal, "x").unwrap();
    });
    assert_eq!(jumps(&place), [(0, 86_400_000)]);
}
