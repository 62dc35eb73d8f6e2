//! Charges: what fits, what is said when it does not, and that the counters can be counted anew from the entries.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use callgate_core::charge::{Applied, CalendarUnit, Charge, Occasion, Owner, QUANTITY_MAX, Subject, Window, Zone};
use callgate_core::code::Code;
use callgate_core::counters::{COUNTERS_MAX, Counter, Counters, Moment, Name};
use callgate_core::entry::SessionEndBody;
use callgate_core::evaluate::{ChainDefault, Opinions, evaluate};
use callgate_core::identity::{Agent, SessionId};
use callgate_core::port::Case;
use callgate_core::refusal::Reason;
use callgate_core::settle::{Decision, Forecast, Foreseen, Present, Settled, forecast, settle};
use callgate_core::verdict::{Answer, Denial, Opinion, Retry, Rule, Verdict};
use proptest::prelude::*;

use crate::support::call;

const MINUTE_MS: u32 = 60_000;
/// 2026-03-04T10:00:00Z, a Wednesday.
const NOON_MS: i64 = 1_772_618_400_000;

fn charge(key: &str, limit: u64) -> Charge {
    Charge {
        key: key.into(),
        subject: Subject::Session,
        window: Window::Lifetime,
        occasion: Occasion::Forwarded,
        amount: 1,
        limit,
        rule: Rule { path: format!("/budgets/{key}"), policy: None, text: format!("{limit} a session") }.into(),
        code: "exhausted".into(),
        message: format!("the budget {key} is spent").into(),
    }
}

fn case(session: u8, agent: Option<&str>, verdict: Verdict, charges: Vec<Charge>) -> Case {
    let mut call = call(1, "{}");
    call.session = SessionId::from_random([session; 16]);
    let agent = agent.map(|name| Agent {
        id: format!("agt_{name}"),
        name: name.parse().unwrap(),
        evidence: "executable".to_owned(),
    });
    let caller = Arc::make_mut(&mut call.caller);
    caller.agent = agent;
    let opinion = |position: usize, plugin: &str, verdict, charges| Opinion {
        position,
        plugin: plugin.to_owned(),
        may_grant: true,
        outcome: Ok(Answer { verdict, rule: None, notes: Vec::new(), charges }),
    };
    let opinions = vec![opinion(0, "rules", verdict, Vec::new()), opinion(1, "budget", Verdict::Abstain, charges)];
    let evaluated = evaluate(Opinions { generation: 0, members: Arc::new([]), default: ChainDefault::Allow, opinions });
    Case { call, evaluated }
}

fn allowed(charges: Vec<Charge>) -> Case {
    case(1, None, Verdict::Allow, charges)
}

fn denied(charges: Vec<Charge>) -> Case {
    let denial = Denial { code: "no".to_owned(), message: "no".to_owned(), retry: Retry::Never };
    case(1, None, Verdict::Deny(denial), charges)
}

fn at(ms: i64) -> Moment {
    Moment { wall_ms: NOON_MS + ms, steady_ms: ms }
}

fn settled(case: &Case, counters: &mut Counters, ms: i64) -> Settled {
    settle(case, Present { generation: 0, now: at(ms) }, counters).unwrap()
}

fn passes(case: &Case, counters: &mut Counters, ms: i64) -> bool {
    matches!(settled(case, counters, ms).decision, Decision::Allowed { .. })
}

fn reason(case: &Case, counters: &mut Counters, ms: i64) -> Reason {
    match settled(case, counters, ms).decision {
        Decision::Refused(reason) => reason,
        Decision::Allowed { .. } => panic!("it is allowed"),
    }
}

#[test]
fn a_limit_is_reached_and_not_passed() {
    let mut counters = Counters::default();
    let call = allowed(vec![charge("calls", 2)]);
    assert!(passes(&call, &mut counters, 0) && passes(&call, &mut counters, 1));
    let reason = reason(&call, &mut counters, 2);
    assert_eq!(reason.message, "the budget calls is spent; 0 of 2 left");
    assert_eq!((reason.code_text().as_str(), reason.retry), ("budget/exhausted", Retry::Never));
    assert_eq!(reason.rule.unwrap().path, "/budgets/calls");
    assert!(passes(&case(2, None, Verdict::Allow, vec![charge("calls", 2)]), &mut counters, 3), "a new session");
    assert!(!passes(&allowed(vec![charge("none", 0)]), &mut counters, 4));
}

#[test]
fn a_forecast_is_what_settling_would_come_to_and_spends_nothing() {
    let mut counters = Counters::default();
    let call = || allowed(vec![charge("calls", 2), Charge { occasion: Occasion::Attempted, ..charge("attempts", 9) }]);
    for spent in 0..4 {
        let Forecast { decision, charges } = forecast(&call(), at(spent), &mut counters);
        assert_eq!(forecast(&call(), at(spent), &mut counters).decision, decision, "asking twice changes nothing");
        let spent = spent.unsigned_abs();
        let expected = [("calls", spent.min(2), 2), ("attempts", spent, 9)].map(|(key, spent, limit)| Foreseen {
            plugin: "budget".to_owned(),
            rule: Rule::clone(&charge(key, limit).rule),
            subject: Subject::Session,
            amount: 1,
            spent,
            limit,
        });
        assert_eq!(charges, expected);
        assert_eq!(settled(&call(), &mut counters, i64::try_from(spent).unwrap()).decision, decision);
    }
    // What a window has forgotten is not foreseen, though nobody has looked at the counter since.
    let sliding = || allowed(vec![Charge { window: Window::SlidingMs(MINUTE_MS), ..charge("rate", 1) }]);
    assert!(passes(&sliding(), &mut counters, 0));
    let minute = i64::from(MINUTE_MS);
    assert_eq!(forecast(&sliding(), at(minute - 1), &mut counters).charges[0].spent, 1);
    assert_eq!(forecast(&sliding(), at(minute), &mut counters).charges[0].spent, 0);
}

#[test]
fn what_is_spent_of_a_counter_is_told_by_owner() {
    let mut counters = Counters::default();
    let name = Name { plugin: "budget".into(), key: "calls".into(), window: Window::Lifetime };
    assert_eq!(counters.spent_by_owner(&name, at(0)), []);
    for session in [1, 2, 2] {
        assert!(passes(&case(session, None, Verdict::Allow, vec![charge("calls", 9)]), &mut counters, 0));
    }
    assert!(passes(&allowed(vec![charge("others", 9)]), &mut counters, 0));
    let mut spent = counters.spent_by_owner(&name, at(1));
    spent.sort();
    let owner = |session| Owner::Session(SessionId::from_random([session; 16]));
    assert_eq!(spent, [(owner(1), 1), (owner(2), 2)]);
}

#[test]
fn whose_counter_it_is_decides_who_shares_it() {
    let of = |subject| vec![Charge { subject, ..charge("calls", 1) }];
    let by = |session, agent, subject| case(session, agent, Verdict::Allow, of(subject));
    let mut counters = Counters::default();
    assert!(passes(&by(1, Some("a"), Subject::Agent), &mut counters, 0));
    assert!(!passes(&by(2, Some("a"), Subject::Agent), &mut counters, 0), "over all its sessions");
    assert!(passes(&by(2, Some("b"), Subject::Agent), &mut counters, 0));
    assert!(passes(&by(3, None, Subject::Agent), &mut counters, 0));
    assert!(!passes(&by(4, None, Subject::Agent), &mut counters, 0), "who is not known shares one");
    assert!(passes(&by(5, Some("a"), Subject::Everyone), &mut counters, 0));
    assert!(!passes(&by(6, None, Subject::Everyone), &mut counters, 0));
}

#[test]
fn a_refused_call_spends_nothing_but_an_attempt() {
    let mut counters = Counters::default();
    let attempts = || Charge { occasion: Occasion::Attempted, ..charge("attempts", 2) };
    let both = || vec![charge("calls", 1), attempts()];
    assert_eq!(settled(&denied(both()), &mut counters, 0).charges.len(), 1);
    assert!(passes(&allowed(both()), &mut counters, 1), "the denied call did not spend");
    // Refused by one charge: the other one counts the attempt.
    let refused = settled(&allowed(both()), &mut counters, 2);
    assert!(matches!(refused.decision, Decision::Refused(_)));
    assert_eq!(
        refused.charges.iter().map(|applied| (&*applied.key, applied.spent)).collect::<Vec<_>>(),
        [("attempts", 3)]
    );
    assert_eq!(
        reason(&allowed(vec![attempts()]), &mut counters, 3).message,
        "the budget attempts is spent; 0 of 2 left"
    );
}

#[test]
fn one_that_does_not_fit_leaves_the_others_unspent() {
    let mut counters = Counters::default();
    let wide = || charge("wide", 1);
    assert!(!passes(&allowed(vec![wide(), charge("none", 0)]), &mut counters, 0));
    assert!(passes(&allowed(vec![wide()]), &mut counters, 0));
    let twice = vec![charge("shared", 3), Charge { amount: 2, ..charge("shared", 3) }];
    assert!(passes(&allowed(twice.clone()), &mut counters, 0), "two charges of a call share a counter");
    assert!(!passes(&allowed(twice), &mut counters, 0));
}

#[test]
fn a_sliding_window_forgets_at_its_edge() {
    let mut counters = Counters::default();
    let call = allowed(vec![Charge { window: Window::SlidingMs(MINUTE_MS), ..charge("rate", 2) }]);
    let first = reason_free(&call, &mut counters, 60);
    assert_eq!(first[0].spent, 1);
    assert!(passes(&call, &mut counters, 30_060));
    let refused = reason(&call, &mut counters, 30_120);
    assert_eq!(refused.message, "the budget rate is spent; 0 of 2 left, more in 30s");
    assert_eq!(refused.retry, Retry::Later);
    assert!(!passes(&call, &mut counters, 60_059));
    assert!(passes(&call, &mut counters, 60_060), "a minute later to the millisecond");
    assert!(!passes(&call, &mut counters, 90_059));
    assert!(passes(&call, &mut counters, 90_060));
}

fn reason_free(case: &Case, counters: &mut Counters, ms: i64) -> Vec<Applied> {
    let Settled { decision, charges } = settled(case, counters, ms);
    assert!(matches!(decision, Decision::Allowed { .. }));
    charges
}

#[test]
fn a_part_of_a_sliding_window_is_forgotten_late_and_never_early() {
    let mut counters = Counters::default();
    let call = allowed(vec![Charge { window: Window::SlidingMs(MINUTE_MS), ..charge("rate", 1) }]);
    assert!(passes(&call, &mut counters, 1));
    assert!(!passes(&call, &mut counters, 60_059), "a thousandth of a minute late");
    assert!(passes(&call, &mut counters, 60_060));
}

#[test]
fn a_calendar_window_begins_anew_with_its_unit() {
    let mut counters = Counters::default();
    let zone = Zone::try_from("Europe/Berlin".to_owned()).unwrap();
    let window = Window::Calendar { unit: CalendarUnit::Day, zone };
    let call = allowed(vec![Charge { window, ..charge("day", 1) }]);
    let to_midnight = i64::from(13 * 60 * MINUTE_MS);
    assert_eq!(reason_free(&call, &mut counters, 0)[0].since_ms, Some(NOON_MS - i64::from(11 * 60 * MINUTE_MS)));
    assert_eq!(reason(&call, &mut counters, 1).message, "the budget day is spent; 0 of 1 left, more in 13h");
    assert!(!passes(&call, &mut counters, to_midnight - 1));
    assert!(passes(&call, &mut counters, to_midnight));
}

#[test]
fn an_amount_that_never_fits_may_be_changed() {
    let mut counters = Counters::default();
    let spend = |amount| allowed(vec![Charge { amount, window: Window::SlidingMs(1000), ..charge("cents", 100) }]);
    assert!(passes(&spend(60), &mut counters, 0));
    let refused = reason(&spend(41), &mut counters, 1);
    assert_eq!(refused.message, "the budget cents is spent; 40 of 100 left, more in 1s");
    assert_eq!(refused.retry, Retry::Later);
    let refused = reason(&spend(101), &mut counters, 1);
    assert_eq!(
        (refused.message.as_str(), refused.retry),
        ("the budget cents is spent; 40 of 100 left", Retry::Changed)
    );
    assert!(passes(&spend(40), &mut counters, 1));
    let largest = Charge { amount: QUANTITY_MAX, limit: QUANTITY_MAX, ..charge("all", 0) };
    assert!(passes(&allowed(vec![largest.clone()]), &mut counters, 1));
    assert!(!passes(&allowed(vec![largest]), &mut counters, 1), "nothing wraps around");
}

#[test]
fn a_session_that_ended_leaves_no_counter_and_one_that_may_be_back_does() {
    for (how, left) in [("client-closed", 0), ("connection-lost", 1)] {
        let mut counters = Counters::default();
        assert!(passes(&allowed(vec![charge("calls", 1)]), &mut counters, 0));
        counters.settle();
        let mark = counters.mark();
        let end = SessionEndBody { session: SessionId::from_random([1; 16]), how: how.to_owned(), lost_events: 0 };
        counters.end_session(&end);
        counters.roll_back(mark);
        counters.settle();
        assert_eq!(counters.all().count(), 1, "an end that was not written is none");
        counters.end_session(&end);
        counters.settle();
        assert_eq!(counters.all().count(), left);
        counters.collect(Moment { steady_ms: 32 * 24 * 3_600_000, ..at(0) });
        assert_eq!(counters.all().count(), 0, "nobody comes back after a month");
    }
}

#[test]
fn after_a_month_a_session_counts_anew_whether_its_counter_was_collected_or_not() {
    let month = 31 * 24 * 60 * i64::from(MINUTE_MS);
    let call = allowed(vec![charge("calls", 1)]);
    let everyones = allowed(vec![Charge { subject: Subject::Everyone, ..charge("calls", 1) }]);
    for is_collected in [false, true] {
        let (mut counters, mut again) = (Counters::default(), Counters::default());
        let mut replay = |charges: &[Applied], ms| again.replay(&call.call.session, None, charges, ms);
        assert_eq!(replay(&reason_free(&call, &mut counters, 0), 0), Ok(()));
        assert!(!passes(&call, &mut counters, month - 1));
        assert!(passes(&everyones, &mut counters, 0));
        counters.settle();
        if is_collected {
            counters.collect(at(month));
        }
        let charges = reason_free(&call, &mut counters, month);
        assert_eq!(charges[0].spent, 1);
        assert_eq!(replay(&charges, month), Ok(()), "it can be counted anew from the entries alone");
        assert!(!passes(&everyones, &mut counters, month), "what is shared stays spent");
    }
}

#[test]
fn a_call_that_needs_more_counters_than_there_is_room_for_is_refused_and_charged_nothing() {
    let mut counters = Counters::default();
    for number in 1..COUNTERS_MAX {
        let name = Name { plugin: "".into(), key: number.to_string().into(), window: Window::Lifetime };
        counters.restore(
            Owner::Everyone,
            name,
            Counter { spent: 1, since_ms: 0, charged_ms: 0, parts: VecDeque::new() },
        );
    }
    let (one, other) = (allowed(vec![charge("one", 1)]), allowed(vec![charge("other", 1)]));
    let both = allowed(vec![charge("one", 1), charge("other", 1)]);
    // There is room for either.
    assert_eq!(reason(&both, &mut counters, 0).code, Code::ChargeUncounted);
    assert!(passes(&one, &mut counters, 0));
    assert_eq!(reason(&other, &mut counters, 0).code, Code::ChargeUncounted);
    assert!(!passes(&one, &mut counters, 0), "what is counted stays counted");
}

fn any_charge() -> impl Strategy<Value = Charge> {
    let window = prop_oneof![
        Just(Window::Lifetime),
        (1_u32..2_000).prop_map(Window::SlidingMs),
        Just(Window::Calendar { unit: CalendarUnit::Hour, zone: Zone::try_from("Asia/Kolkata".to_owned()).unwrap() }),
    ];
    let subject = prop_oneof![Just(Subject::Session), Just(Subject::Agent), Just(Subject::Everyone)];
    let occasion = prop_oneof![3 => Just(Occasion::Forwarded), 1 => Just(Occasion::Attempted)];
    (window, subject, occasion, 0_usize..3, 0_u64..4, 0_u64..12).prop_map(
        |(window, subject, occasion, key, amount, limit)| Charge {
            window,
            subject,
            occasion,
            amount,
            ..charge(["a", "b", "c"][key], limit)
        },
    )
}

fn any_call() -> impl Strategy<Value = (Case, i64, bool)> {
    let agent = prop_oneof![Just(None), Just(Some("x")), Just(Some("y"))];
    (1_u8..4, agent, prop::bool::weighted(0.8), prop::collection::vec(any_charge(), 0..4), 0_i64..3_000, any::<bool>())
        .prop_map(|(session, agent, allow, charges, passed_ms, undone)| {
            let denial = Denial { code: "no".to_owned(), message: "no".to_owned(), retry: Retry::Never };
            let verdict = if allow { Verdict::Allow } else { Verdict::Deny(denial) };
            (case(session, agent, verdict, charges), passed_ms, undone)
        })
}

/// Every charge ever applied, and when: what a counter has to say at any time can be added up from it.
#[derive(Default)]
struct Model(HashMap<(String, String, Window), Vec<(i64, u64)>>);

impl Model {
    fn spent(&self, owner: &str, charge: &Charge, ms: i64) -> u64 {
        let events = self.0.get(&(owner.to_owned(), charge.key.to_string(), charge.window.clone()));
        let counts = |then: i64| match &charge.window {
            Window::Lifetime => true,
            Window::SlidingMs(window_ms) => then + i64::from(*window_ms) > ms,
            Window::Calendar { .. } => {
                let hour = |ms: i64| (NOON_MS + ms + i64::from(30 * MINUTE_MS)).div_euclid(3_600_000);
                hour(then) == hour(ms)
            }
        };
        events.into_iter().flatten().filter(|(then, _)| counts(*then)).map(|(_, amount)| amount).sum()
    }
}

fn owner_of(case: &Case, subject: Subject) -> String {
    match subject {
        Subject::Session => case.call.session.to_string(),
        Subject::Agent => case.call.caller.agent.as_ref().map_or("unknown".to_owned(), |agent| agent.id.clone()),
        Subject::Everyone => "everyone".to_owned(),
    }
}

proptest! {
    #[test]
    fn counters_are_what_a_plain_sum_says_and_can_be_counted_anew(
        calls in prop::collection::vec(any_call(), 1..60),
    ) {
        let (mut counters, mut again, mut model, mut ms) = (Counters::default(), Counters::default(), Model::default(), 0);
        for (case, passed_ms, undone) in &calls {
            ms += passed_ms;
            let mark = counters.mark();
            let Settled { decision, charges } = settled(case, &mut counters, ms);
            if *undone {
                counters.roll_back(mark);
                continue;
            }
            counters.settle();
            let asked: Vec<&Charge> = case
                .evaluated
                .opinions
                .iter()
                .flat_map(|opinion| &opinion.outcome.as_ref().unwrap().charges)
                .collect();
            let fits = asked.iter().enumerate().all(|(place, charge)| {
                let owner = owner_of(case, charge.subject);
                let same = |other: &&&Charge| {
                    (owner_of(case, other.subject), &other.key, &other.window) == (owner.clone(), &charge.key, &charge.window)
                };
                let pending: u64 = asked[..place].iter().filter(same).map(|other| other.amount).sum();
                model.spent(&owner, charge, ms) + pending + charge.amount <= charge.limit
            });
            let is_denied = case.evaluated.opinions.iter().any(|opinion| {
                matches!(opinion.outcome.as_ref().unwrap().verdict, Verdict::Deny(_))
            });
            let is_allowed = matches!(decision, Decision::Allowed { .. });
            prop_assert_eq!(is_allowed, fits && !is_denied);
            let due = asked.iter().filter(|charge| is_allowed || charge.occasion == Occasion::Attempted);
            prop_assert_eq!(charges.len(), due.clone().count());
            for (charge, applied) in due.zip(&charges) {
                let owner = owner_of(case, charge.subject);
                model.0.entry((owner.clone(), charge.key.to_string(), charge.window.clone())).or_default().push((ms, charge.amount));
                prop_assert_eq!(applied.spent, model.spent(&owner, charge, ms));
                let Case { call, .. } = case;
                prop_assert_eq!(again.replay(&call.session, call.caller.agent.as_ref(), std::slice::from_ref(applied), ms), Ok(()));
            }
        }
        let end = at(ms);
        counters.collect(end);
        again.collect(end);
        prop_assert!(counters == again, "{counters:?}\n{again:?}");
    }
}
