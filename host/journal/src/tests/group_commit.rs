use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use callgate_core::port::{Ledger, LedgerFailure, Settlement};
use callgate_core::settle::Word;

use super::support::{Place, add, adding, allow, anomaly, case, denied, rule, settle, start, waiting_items};
use crate::batch::{Batch, Stop};
use crate::work::{Item, One};
use crate::{
    Act, BATCH_ITEMS_MAX, BODY_BYTES_MAX, Fault, Journal, Point, PolicyError, SessionError, WAITING_ITEMS_MAX,
};

/// A leader that is held up in the middle of its commit, for as long as this lives.
struct HeldUp {
    go_on: SyncSender<()>,
    leader: thread::JoinHandle<Result<crate::PolicyChanged, PolicyError>>,
}

impl HeldUp {
    /// Adds a rule, and returns once its change is committed and not yet in force.
    fn begin(journal: &Arc<Journal>) -> Self {
        let (reached, is_reached): (SyncSender<()>, Receiver<()>) = sync_channel(1);
        let (go_on, may_go_on) = sync_channel(1);
        let generation = journal.status().generation;
        let leader = thread::spawn({
            let journal = Arc::clone(journal);
            move || {
                let hold = move |_| {
                    reached.send(()).unwrap();
                    may_go_on.recv().unwrap();
                };
                let change = adding(rule(Word::Deny, &format!("held_{generation}")));
                journal.change_policy(vec![change], generation, Box::new(hold))
            }
        });
        is_reached.recv().unwrap();
        Self { go_on, leader }
    }

    fn end(self) {
        self.go_on.send(()).unwrap();
        self.leader.join().unwrap().unwrap();
    }
}

/// Starts threads that each do `work`, and waits until the items of all of them wait for a commit.
fn waiting<T: Send + 'static>(
    journal: &Arc<Journal>,
    threads: usize,
    items_each: usize,
    work: impl Fn(&Journal, usize) -> T + Clone + Send + 'static,
) -> Vec<thread::JoinHandle<T>> {
    let before = waiting_items(journal);
    let handles = (0..threads)
        .map(|number| {
            let (journal, work) = (Arc::clone(journal), work.clone());
            thread::spawn(move || work(&journal, number))
        })
        .collect();
    while waiting_items(journal) < before + threads * items_each {
        thread::yield_now();
    }
    handles
}

/// Appends an entry, and then fails as only a bug can.
struct Panics;

impl Item for Panics {
    type Done = ();
    type Error = LedgerFailure;

    fn write(&self, batch: &mut Batch) -> Result<(), Stop<LedgerFailure>> {
        batch.append(&anomaly("never committed"))?;
        panic!("a bug")
    }
}

#[test]
fn a_lone_caller_commits_on_its_own_thread() {
    let place = Place::new();
    let journal = place.open();
    let committed_on = Arc::new(Mutex::new(None));
    let note = {
        let committed_on = Arc::clone(&committed_on);
        move |_| *committed_on.lock().unwrap() = Some(thread::current().id())
    };
    journal.change_policy(vec![adding(rule(Word::Deny, "x"))], 0, Box::new(note)).unwrap();
    assert_eq!(*committed_on.lock().unwrap(), Some(thread::current().id()));
}

#[test]
fn many_callers_lose_nothing_and_keep_their_order() {
    const CALLERS: usize = 16;
    const CALLS: usize = 50;
    let place = Place::new();
    let journal = Arc::new(place.open());
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let journal = Arc::clone(&journal);
            thread::spawn(move || {
                (0..CALLS)
                    .map(|number| match number % 3 {
                        0 => allow(&journal, &format!("tool_{caller}_{number}")).unwrap(),
                        1 => journal.append(vec![anomaly("a"), anomaly("b")]).unwrap()[1],
                        _ => match settle(&journal, denied(0, "no")).unwrap() {
                            Settlement::Committed { entry, .. } => entry,
                            Settlement::Stale => panic!("nothing changed"),
                        },
                    })
                    .collect::<Vec<u64>>()
            })
        })
        .collect();
    let told: Vec<Vec<u64>> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    assert!(told.iter().all(|entries| entries.is_sorted()), "each caller's entries are in its order");
    let mut all: Vec<u64> = told.concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), CALLERS * CALLS, "no entry was told twice");
    let status = journal.status();
    drop(journal);
    assert_eq!(place.sound(), status.head.entries);
    assert_eq!(place.reader().head().unwrap(), status.head);
    assert!(all.iter().all(|entry| *entry <= status.head.entries));
}

#[test]
fn those_who_wait_share_one_commit() {
    let place = Place::new();
    let journal = Arc::new(place.open());
    let held_up = HeldUp::begin(&journal);
    let callers = waiting(&journal, 10, 1, |journal, number| allow(journal, &format!("tool_{number}")));
    // Only one commit fails. That takes all ten of them along.
    journal.arm(Fault { point: Point::BeforeCommit, act: Act::Full, commit: 1 });
    held_up.end();
    let results: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    assert_eq!(results, vec![Err(LedgerFailure::Full); 10]);
    allow(&journal, "after").unwrap();
    drop(journal);
    assert_eq!(place.sound(), 2);
}

#[test]
fn a_commit_takes_on_no_more_than_its_share_and_never_splits_a_group() {
    let place = Place::new();
    let journal = Arc::new(place.open());
    let held_up = HeldUp::begin(&journal);
    let group = BATCH_ITEMS_MAX / 2 + 1;
    let callers =
        waiting(&journal, 2, group, move |journal, _| journal.settle((0..group).map(|_| case(1, "tool")).collect()));
    journal.arm(Fault { point: Point::BeforeCommit, act: Act::Full, commit: 1 });
    held_up.end();
    let mut written: Vec<usize> = callers
        .into_iter()
        .map(|caller| caller.join().unwrap().iter().filter(|result| result.is_ok()).count())
        .collect();
    written.sort_unstable();
    assert_eq!(written, [0, group], "the groups had a commit each");
}

#[test]
fn when_too_many_wait_the_next_is_told_so() {
    let place = Place::new();
    let journal = Arc::new(place.open());
    let held_up = HeldUp::begin(&journal);
    let group = WAITING_ITEMS_MAX / 4;
    let callers =
        waiting(&journal, 4, group, move |journal, _| journal.settle((0..group).map(|_| case(1, "tool")).collect()));
    let refused = journal.settle(vec![case(1, "one"), case(1, "more")]);
    assert!(matches!(refused[..], [Err(LedgerFailure::Overload), Err(LedgerFailure::Overload)]), "{refused:?}");
    held_up.end();
    for caller in callers {
        assert!(caller.join().unwrap().iter().all(Result::is_ok), "those who waited are served");
    }
    allow(&journal, "there is room again").unwrap();
}

#[test]
fn a_group_larger_than_the_queue_is_refused_whole() {
    let place = Place::new();
    let journal = place.open();
    let results = journal.settle((0..=WAITING_ITEMS_MAX).map(|_| case(0, "tool")).collect());
    assert!(results.iter().all(|result| matches!(result, Err(LedgerFailure::Overload))));
    assert_eq!(results.len(), WAITING_ITEMS_MAX + 1);
    assert_eq!(journal.settle(Vec::new()).len(), 0);
}

#[test]
fn one_item_that_fails_is_taken_back_alone() {
    let place = Place::new();
    let journal = place.open();
    let too_large = "x".repeat(BODY_BYTES_MAX);
    let results = journal.settle(vec![case(0, "before"), case(0, &too_large), case(0, "after")]);
    let entries: Vec<Option<u64>> = results
        .iter()
        .map(|result| match result {
            Ok(Settlement::Committed { entry, .. }) => Some(*entry),
            Err(LedgerFailure::WriteFailed(why)) if why.contains("larger than") => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(entries, [Some(1), None, Some(2)]);
    drop(journal);
    // The two allowed calls were open when the journal was closed; what the third had written is nowhere.
    assert_eq!(place.sound(), 2);
}

#[test]
fn an_item_that_breaks_a_constraint_is_taken_back_alone() {
    let place = Place::new();
    let journal = Arc::new(place.open());
    // Its entry is appended by the time the session's own row is refused.
    place.tamper("CREATE TRIGGER no BEFORE INSERT ON session BEGIN SELECT RAISE(ABORT, 'no'); END");
    let held_up = HeldUp::begin(&journal);
    let before = waiting(&journal, 1, 1, |journal, _| settle(journal, case(1, "before")));
    let refused = waiting(&journal, 1, 1, |journal, _| journal.open_session(start(7)));
    let after = waiting(&journal, 1, 1, |journal, _| settle(journal, case(1, "after")));
    held_up.end();
    let entries = [before, after].into_iter().flatten().map(|caller| match caller.join().unwrap() {
        Ok(Settlement::Committed { entry, .. }) => entry,
        other => panic!("{other:?}"),
    });
    assert_eq!(entries.collect::<Vec<_>>(), [2, 3]);
    for caller in refused {
        let result = caller.join().unwrap();
        assert!(matches!(result, Err(SessionError::Unwritten(LedgerFailure::WriteFailed(_)))), "{result:?}");
    }
    assert_eq!(journal.status().head.entries, 3);
}

#[test]
fn a_case_from_before_a_change_writes_nothing() {
    let place = Place::new();
    let journal = place.open();
    add(&journal, rule(Word::Deny, "write_file"));
    let results = journal.settle(vec![case(0, "old"), case(1, "new"), case(2, "of a future")]);
    assert!(matches!(
        results[..],
        [Ok(Settlement::Stale), Ok(Settlement::Committed { entry: 2, .. }), Ok(Settlement::Stale)]
    ));
    assert_eq!(journal.status().head.entries, 2);
}

#[test]
fn a_change_takes_force_before_anything_later_is_settled_or_told() {
    let place = Place::new();
    let journal = Arc::new(place.open());
    let held_up = HeldUp::begin(&journal);
    assert_eq!(journal.status().generation, 1, "it is committed");
    assert!(!held_up.leader.is_finished(), "and nobody is told");
    let settled = Arc::new(AtomicU64::new(0));
    let caller = waiting(&journal, 1, 1, {
        let settled = Arc::clone(&settled);
        move |journal, _| {
            let result = settle(journal, case(0, "evaluated under the old rules"));
            settled.fetch_add(1, Ordering::SeqCst);
            result
        }
    });
    assert_eq!(settled.load(Ordering::SeqCst), 0, "nothing is settled between the commit and the swap");
    held_up.end();
    for caller in caller {
        assert!(matches!(caller.join().unwrap(), Ok(Settlement::Stale)));
    }
}

#[test]
fn a_leader_that_panics_fails_its_batch_and_hands_over() {
    let place = Place::new();
    let journal = Arc::new(place.open());
    let held_up = HeldUp::begin(&journal);
    let panicking = waiting(&journal, 1, 1, |journal, _| {
        let panics = |_| panic!("the new chain cannot be taken into force");
        journal.change_policy(vec![adding(rule(Word::Deny, "y"))], 1, Box::new(panics))
    });
    // They are in the same batch, behind the one that panics.
    let callers = waiting(&journal, 3, 1, |journal, _| settle(journal, case(1, "tool")));
    held_up.end();
    assert!(panicking.into_iter().all(|thread| thread.join().is_err()));
    for caller in callers {
        let result = caller.join().unwrap();
        assert!(matches!(result, Err(LedgerFailure::WriteFailed(_))), "a call is not released: {result:?}");
    }
    assert_eq!(journal.status().generation, 2, "the change itself was committed");
    let entry = allow(&journal, "the journal goes on").unwrap();
    drop(journal);
    assert_eq!(place.sound(), entry);
}

#[test]
fn a_settlement_that_panics_leaves_no_transaction_behind() {
    let place = Place::new();
    let journal = Arc::new(place.open());
    allow(&journal, "before").unwrap();
    let panicking = {
        let journal = Arc::clone(&journal);
        thread::spawn(move || journal.shared().submit(One::of(Panics)))
    };
    assert!(panicking.join().is_err());
    assert_eq!(allow(&journal, "after").unwrap(), 2);
    drop(journal);
    assert_eq!(place.sound(), 2);
}

#[test]
fn entries_that_are_appended_together_are_written_together_or_not_at_all() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(journal.append(vec![anomaly("a"), anomaly("b")]).unwrap(), [1, 2]);
    let by_hand = callgate_core::entry::Draft { kind: callgate_core::entry::Kind::RuleAdd, ..anomaly("x") };
    let error = journal.append(vec![anomaly("c"), by_hand]).unwrap_err();
    assert_eq!(error, crate::AppendError::NotByItself(callgate_core::entry::Kind::RuleAdd));
    assert_eq!(journal.status().head.entries, 2);
    assert_eq!(allow(&journal, "next").unwrap(), 3);
}
