use callgate_core::charge::{Charge, Occasion, Owner, Subject, Window};
use callgate_core::counters::Name;
use callgate_core::entry::{DecisionBody, Draft, Kind, SessionEndBody};
use callgate_core::evaluate::{ChainDefault, Opinions, evaluate};
use callgate_core::port::{Case, Ledger, Settlement};
use callgate_core::settle::Decision;
use callgate_core::verdict::{Answer, Opinion, Rule, Verdict};

use super::support::{Place, call, case, session, settle};
use crate::{Act, Breach, Counted, CounterState, Fault, Journal, Point, Verification};

const LIMIT: u64 = 3;

pub(super) fn charge(window: Window, limit: u64) -> Charge {
    Charge {
        key: "calls".into(),
        subject: Subject::Session,
        window,
        occasion: Occasion::Forwarded,
        amount: 1,
        limit,
        rule: Rule { path: "/budgets/0".to_owned(), policy: None, text: "calls a session".to_owned() }.into(),
        code: "budget".into(),
        message: "the budget is spent".into(),
    }
}

pub(super) fn charged(tool: &str, charges: Vec<Charge>) -> Case {
    let answer = Answer { verdict: Verdict::Allow, rule: None, notes: Vec::new(), charges };
    let opinion = Opinion { position: 0, plugin: "budget".to_owned(), may_grant: true, outcome: Ok(answer) };
    let members = case(0, tool).evaluated.members;
    let opinions = Opinions { generation: 0, members, default: ChainDefault::Allow, opinions: vec![opinion] };
    Case { call: call(tool, "{}"), evaluated: evaluate(opinions) }
}

fn budgeted() -> Case {
    charged("x", vec![charge(Window::Lifetime, LIMIT)])
}

/// Settles a call of a budget of three; whether it is allowed.
fn passes(journal: &Journal, case: Case) -> bool {
    match settle(journal, case) {
        Ok(Settlement::Committed { decision, .. }) => matches!(decision, Decision::Allowed { .. }),
        other => panic!("{other:?}"),
    }
}

fn passed(journal: &Journal, tries: usize) -> usize {
    (0..tries).filter(|_| passes(journal, budgeted())).count()
}

#[test]
fn what_was_spent_is_spent_after_a_restart() {
    let place = Place::new();
    assert_eq!(passed(&place.open(), 2), 2);
    assert_eq!(passed(&place.open(), 5), 1);
    place.sound();
    let bodies: Vec<DecisionBody<'static>> = bodies(&place);
    assert_eq!(
        bodies.iter().flat_map(|body| &*body.charges).map(|applied| applied.spent).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(bodies[6].code.as_deref(), Some("budget/budget"));
    assert_eq!(bodies[6].reason.as_deref(), Some("the budget is spent; 0 of 3 left"));
}

fn bodies(place: &Place) -> Vec<DecisionBody<'static>> {
    let connection = rusqlite::Connection::open(place.database()).unwrap();
    let mut query = connection.prepare("SELECT body FROM entry WHERE kind = 'call.decision' ORDER BY seq").unwrap();
    let bodies = query.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    bodies.map(|body| serde_json::from_slice(&body.unwrap()).unwrap()).collect()
}

#[test]
fn within_one_commit_each_decision_sees_those_before_it() {
    let place = Place::new();
    let settled = place.open().settle((0..10).map(|_| budgeted()).collect());
    let allowed = settled
        .iter()
        .filter(|settled| matches!(settled, Ok(Settlement::Committed { decision: Decision::Allowed { .. }, .. })));
    assert_eq!(allowed.count(), 3);
    assert_eq!(place.sound(), 10);
}

#[test]
fn a_decision_that_was_not_committed_has_spent_nothing() {
    let place = Place::new();
    let journal = place.open();
    journal.arm(Fault { point: Point::BeforeCommit, act: Act::Full, commit: 1 });
    settle(&journal, budgeted()).unwrap_err();
    assert_eq!(passed(&journal, 5), 3);
    assert_eq!(place.sound(), 5);
}

#[test]
fn a_commit_in_doubt_has_spent_once() {
    let place = Place::new();
    let journal = place.open();
    journal.arm(Fault { point: Point::AfterCommit, act: Act::Io, commit: 1 });
    settle(&journal, budgeted()).unwrap_err();
    assert_eq!(passed(&journal, 5), 2);
    assert_eq!(place.sound(), 6);
}

#[test]
fn an_item_that_fails_alone_takes_back_its_charges_and_no_other() {
    let place = Place::new();
    let journal = place.open();
    // Its entry would be larger than an entry may be: it is settled, charged and then not written.
    let too_large = charged(&"x".repeat(crate::batch::BODY_BYTES_MAX), vec![charge(Window::Lifetime, LIMIT)]);
    let settled = journal.settle(vec![budgeted(), too_large, budgeted()]);
    assert!(settled[0].is_ok() && settled[1].is_err() && settled[2].is_ok(), "{settled:?}");
    assert_eq!(passed(&journal, 5), 1);
    assert_eq!(place.sound(), 7);
}

#[test]
fn the_end_of_a_session_ends_its_counters() {
    let place = Place::new();
    let journal = place.open();
    let end = |how: &str| {
        let body = SessionEndBody { session: session(1), how: how.to_owned(), lost_events: 0 };
        journal.append(vec![Draft::of(Kind::SessionEnd, &body)]).unwrap();
    };
    assert_eq!(passed(&journal, 3), 3);
    end("connection-lost");
    assert_eq!(passed(&journal, 1), 0, "it may be back");
    end("client-closed");
    assert_eq!(passed(&journal, 5), 3);
    drop(journal);
    assert_eq!(passed(&place.open(), 1), 0);
    place.sound();
}

#[test]
fn sliding_windows_follow_the_clock_that_nobody_sets() {
    let place = Place::new();
    let journal = place.open();
    let rate = || charged("x", vec![charge(Window::SlidingMs(1_000), 1)]);
    assert!(passes(&journal, rate()));
    place.clock.set(3_600_000);
    assert!(!passes(&journal, rate()), "an hour that was only set has not passed");
    place.clock.set(-7_200_000);
    place.clock.pass(999);
    assert!(!passes(&journal, rate()));
    place.clock.pass(1);
    assert!(passes(&journal, rate()));
    drop(journal);
    // Nobody knows what passed meanwhile but the wall clock, which stands before the newest entry: nothing.
    assert!(!passes(&place.open(), rate()));
    place.clock.set(3_600_000);
    let journal = place.open();
    assert!(!passes(&journal, rate()));
    place.clock.pass(1_000);
    assert!(passes(&journal, rate()));
    drop(journal);
    place.sound();
}

#[test]
fn a_session_that_ends_in_the_commit_that_writes_the_counters_down_is_not_among_them() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(passed(&journal, 3), 3);
    let plain = |_| case(0, "y");
    for _ in 0..19 {
        journal.settle((0..500).map(plain).collect());
    }
    let end = SessionEndBody { session: session(1), how: "client-closed".to_owned(), lost_events: 0 };
    // With it the journal comes to more than 10,000 entries.
    let mut drafts = vec![Draft::of(Kind::SessionEnd, &end)];
    drafts.extend((0..500).map(|_| super::support::anomaly("odd")));
    journal.append(drafts).unwrap();
    assert_eq!(passed(&journal, 5), 3);
    drop(journal);
    place.sound();
    assert_eq!(passed(&place.open(), 1), 0);
}

#[test]
fn counters_are_written_down_now_and_then_and_say_what_the_entries_say() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(passed(&journal, 1), 1);
    for _ in 0..21 {
        journal.settle(
            (0..500)
                .map(|_| charged("y", vec![Charge { key: "y".into(), ..charge(Window::Lifetime, u64::MAX >> 11) }]))
                .collect(),
        );
    }
    drop(journal);
    let counted = || -> i64 {
        rusqlite::Connection::open(place.database())
            .unwrap()
            .query_row("SELECT counted FROM meta", [], |row| row.get(0))
            .unwrap()
    };
    assert!(counted() >= 10_000, "{}", counted());
    place.sound();
    let journal = place.open();
    assert_eq!(passed(&journal, 5), 2);
    drop(journal);
    place.sound();

    place.tamper(r#"UPDATE counter SET value = replace(value, '"spent":1,', '"spent":0,')"#);
    let expected = Breach::Beside {
        table: "counter",
        why: "the counters come to something else when they are counted anew".to_owned(),
    };
    assert!(matches!(place.verify(), Verification::Broken { breach, .. } if breach == expected));
}

#[test]
fn what_would_come_of_a_call_is_told_and_nothing_of_it_written() {
    let place = Place::new();
    let journal = place.open();
    let would_pass =
        |journal: &Journal| matches!(journal.forecast(&budgeted()).unwrap().decision, Decision::Allowed { .. });
    let name = Name { plugin: "budget".into(), key: "calls".into(), window: Window::Lifetime };
    let spent = |journal: &Journal| journal.spent(std::slice::from_ref(&name)).unwrap();
    assert_eq!(spent(&journal), [vec![]]);
    for _ in 0..3 {
        assert!(would_pass(&journal) && would_pass(&journal));
        assert!(passes(&journal, budgeted()));
    }
    assert!(!would_pass(&journal));
    assert_eq!(spent(&journal), [vec![(Owner::Session(session(1)), 3)]]);
    assert_eq!(journal.status().head.entries, 3);
    // A commit whose answer is lost has spent: what is told is what the database says.
    journal.arm(Fault { point: Point::AfterCommit, act: Act::Io, commit: 1 });
    settle(&journal, charged("y", vec![Charge { key: "calls".into(), ..charge(Window::Lifetime, 9) }])).unwrap_err();
    assert_eq!(spent(&journal), [vec![(Owner::Session(session(1)), 4)]]);
    journal.close().unwrap();
    assert!(journal.forecast(&budgeted()).is_err() && journal.spent(&[]).is_err());
}

#[test]
fn a_verification_tells_what_the_counters_come_to() {
    let place = Place::new();
    let journal = place.open();
    let counted = |place: &Place| match place.verify() {
        Verification::Sound(sound) => sound.counted,
        unsound => panic!("{unsound:?}"),
    };
    assert_eq!(counted(&place), Counted::default());
    assert_eq!(passed(&journal, 5), 3);
    let everyone = Charge { subject: Subject::Everyone, ..charge(Window::SlidingMs(1_000), 9) };
    assert!(passes(&journal, charged("y", vec![everyone.clone()])));
    let state = |window: Window, owner, spent| CounterState {
        name: Name { plugin: "budget".into(), key: "calls".into(), window },
        owner,
        spent,
    };
    let of_session = state(Window::Lifetime, Owner::Session(session(1)), 3);
    let counters = vec![of_session.clone(), state(Window::SlidingMs(1_000), Owner::Everyone, 1)];
    assert_eq!(counted(&place), Counted { charges: 4, written_after: 0, counters });
    // As of the newest charge, what a window has forgotten says nothing.
    place.clock.pass(5_000);
    assert!(passes(&journal, charged("y", vec![Charge { key: "other".into(), ..charge(Window::Lifetime, 9) }])));
    let Counted { charges: 5, counters, .. } = counted(&place) else { panic!("{:?}", counted(&place)) };
    assert_eq!(counters.len(), 2);
    assert!(counters.contains(&of_session));
    drop(journal);

    // Counters that are said to be written down, and are not what the entries come to.
    let tampered = |sql: &str| {
        place.tamper(sql);
        assert!(matches!(place.verify(), Verification::Broken { seq: 0, .. }), "{sql}: {:?}", place.verify());
    };
    tampered("UPDATE meta SET counted = 100");
    place.tamper("UPDATE meta SET counted = 0");
    place.sound();
    let value = r#"{"spent":1,"since_ms":0,"charged_ms":0,"parts":[]}"#;
    let name = r#"{"plugin":"budget","key":"calls","window":"lifetime"}"#;
    tampered(&format!("INSERT INTO counter VALUES ('\"everyone\"', '{name}', '{value}')"));
}
