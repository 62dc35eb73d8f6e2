//! `decide` with a chain and a ledger made for the test.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::code::Code;
use callgate_core::counters::{Counters, Moment};
use callgate_core::decide::{EVALUATIONS_MAX, Verdict, decide};
use callgate_core::digest::Digest;
use callgate_core::evaluate::{ChainDefault, Member, Opinions};
use callgate_core::permit::{Binding, Mismatch};
use callgate_core::port::{Case, Evaluator, Ledger, LedgerFailure, Settlement};
use callgate_core::refusal::Reason;
use callgate_core::settle::{Decision, Present, Settled, settle};
use callgate_core::verdict::Retry;
use proptest::prelude::*;

use crate::support::call;

/// A chain with one member that abstains, so that the default decides. Calls with an `x` in their arguments are denied.
#[derive(Default)]
struct Chain {
    generation: Cell<u64>,
    asked: Cell<u32>,
}

impl Evaluator for Chain {
    fn opinions(&self, call: &Call) -> Opinions {
        self.asked.set(self.asked.get() + 1);
        let default = if call.arguments.text().contains('x') { ChainDefault::Deny } else { ChainDefault::Allow };
        let digest = Digest::of(b"");
        let member = Member { plugin: "rules".to_owned(), component: digest, settings: digest };
        Opinions { generation: self.generation.get(), members: Arc::new([member]), default, opinions: Vec::new() }
    }
}

/// What the ledger does with one group of cases.
#[derive(Clone, Debug)]
enum Act {
    /// Settles and commits.
    Commit,
    /// The chain changes first, so that nothing that was evaluated before holds.
    ChangeThenCommit,
    /// Calls everything stale, whatever it is.
    Stale,
    /// Cannot write.
    Fail(LedgerFailure),
    /// Commits, and answers so many too few.
    AnswerFewer(usize),
    /// Commits, and answers one too many.
    AnswerMore,
}

struct Book<'a> {
    chain: &'a Chain,
    /// What it does; afterwards it commits.
    acts: RefCell<VecDeque<Act>>,
    /// What was committed: the call's number, the generation, the decision. Its place, from 1, is the entry.
    entries: RefCell<Vec<(u64, u64, Decision)>>,
    asked: Cell<u32>,
}

impl<'a> Book<'a> {
    fn new(chain: &'a Chain, acts: impl Into<VecDeque<Act>>) -> Self {
        Self { chain, acts: RefCell::new(acts.into()), entries: RefCell::default(), asked: Cell::new(0) }
    }

    fn commit(&self, cases: Vec<Case>) -> Vec<Result<Settlement, LedgerFailure>> {
        let present = Present { generation: self.chain.generation.get(), now: Moment::default() };
        let mut counters = Counters::default();
        cases
            .into_iter()
            .map(|case| {
                Ok(match settle(&case, present, &mut counters) {
                    None => Settlement::Stale,
                    Some(Settled { decision, .. }) => {
                        let mut entries = self.entries.borrow_mut();
                        entries.push((case.call.binding.sequence, case.evaluated.generation, decision.clone()));
                        Settlement::Committed { entry: u64::try_from(entries.len()).unwrap(), decision }
                    }
                })
            })
            .collect()
    }
}

impl Ledger for Book<'_> {
    fn settle(&self, cases: Vec<Case>) -> Vec<Result<Settlement, LedgerFailure>> {
        self.asked.set(self.asked.get() + 1);
        let act = self.acts.borrow_mut().pop_front().unwrap_or(Act::Commit);
        match act {
            Act::Commit => self.commit(cases),
            Act::ChangeThenCommit => {
                self.chain.generation.set(self.chain.generation.get() + 1);
                self.commit(cases)
            }
            Act::Stale => cases.iter().map(|_| Ok(Settlement::Stale)).collect(),
            Act::Fail(failure) => cases.iter().map(|_| Err(failure.clone())).collect(),
            Act::AnswerFewer(by) => {
                let mut answers = self.commit(cases);
                answers.truncate(answers.len().saturating_sub(by));
                answers
            }
            Act::AnswerMore => {
                let mut answers = self.commit(cases);
                answers.push(Ok(Settlement::Stale));
                answers
            }
        }
    }
}

fn decided(acts: impl Into<VecDeque<Act>>, arguments: &[&str]) -> (Vec<Verdict>, Vec<(u64, u64, Decision)>, u32) {
    let chain = Chain::default();
    let book = Book::new(&chain, acts);
    let calls = (1..).zip(arguments).map(|(sequence, arguments)| call(sequence, arguments)).collect();
    let verdicts = decide(&chain, &book, calls);
    (verdicts, book.entries.take(), chain.asked.get())
}

fn refusal(verdict: &Verdict) -> (Code, Retry, Option<u64>) {
    match verdict {
        Verdict::Refused { reason: Reason { code, retry, .. }, entry } => (*code, *retry, *entry),
        Verdict::Permitted(permit) => panic!("{permit:?}"),
    }
}

#[test]
fn each_call_is_answered_in_its_place() {
    let (verdicts, entries, asked) = decided([], &["{}", r#"{"x":1}"#, "{}"]);
    assert_eq!(entries.len(), 3);
    assert_eq!(asked, 3);
    assert!(matches!(&verdicts[0], Verdict::Permitted(permit) if permit.sequence() == 1));
    assert_eq!(refusal(&verdicts[1]), (Code::DefaultDeny, Retry::Never, Some(2)));
    assert!(matches!(&verdicts[2], Verdict::Permitted(permit) if permit.sequence() == 3));
}

#[test]
fn nothing_to_decide_asks_nobody() {
    let chain = Chain::default();
    let book = Book::new(&chain, []);
    assert!(decide(&chain, &book, Vec::new()).is_empty());
    assert_eq!((chain.asked.get(), book.asked.get()), (0, 0));
}

#[test]
fn a_permit_is_for_its_frame_place_and_connection_only() {
    let (verdicts, ..) = decided([], &["{}"]);
    let binding = call(1, "{}").binding;
    for other in [
        Binding { connection: 2, ..binding },
        Binding { sequence: 2, ..binding },
        Binding { frame: Digest::of(b"another"), ..binding },
    ] {
        let (verdicts, ..) = decided([], &["{}"]);
        let Some(Verdict::Permitted(permit)) = verdicts.into_iter().next() else { panic!("not permitted") };
        assert_eq!(permit.spend(&other), Err(Mismatch { waiting: other, permitted: binding }));
    }
    let Some(Verdict::Permitted(permit)) = verdicts.into_iter().next() else { panic!("not permitted") };
    assert_eq!(permit.spend(&binding), Ok(1));
}

#[test]
fn a_call_whose_chain_changed_is_evaluated_again() {
    let (verdicts, entries, asked) = decided([Act::ChangeThenCommit], &["{}", "{}"]);
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Permitted(_))));
    assert_eq!(
        entries.iter().map(|(sequence, generation, _)| (*sequence, *generation)).collect::<Vec<_>>(),
        [(1, 1), (2, 1)]
    );
    assert_eq!(asked, 4);
}

#[test]
fn a_call_whose_chain_keeps_changing_is_given_up_on_and_written() {
    let (verdicts, entries, asked) = decided(vec![Act::ChangeThenCommit; 4], &["{}"]);
    assert_eq!(asked, EVALUATIONS_MAX);
    assert_eq!(refusal(&verdicts[0]), (Code::ChainUnsettled, Retry::Later, Some(1)));
    assert!(matches!(&entries[..], [(1, 2, Decision::Refused(reason))] if reason.code == Code::ChainUnsettled));
}

#[test]
fn a_ledger_that_never_settles_gets_no_permit_out() {
    let (verdicts, entries, asked) = decided(vec![Act::Stale; 9], &["{}", "{}"]);
    assert_eq!(asked, 2 * EVALUATIONS_MAX);
    for verdict in &verdicts {
        assert_eq!(refusal(verdict), (Code::ChainUnsettled, Retry::Later, None));
    }
    assert_eq!(entries, []);
}

#[test]
fn a_decision_that_cannot_be_written_is_a_refusal() {
    for (failure, code, retry) in [
        (LedgerFailure::WriteFailed("disk".to_owned()), Code::JournalWrite, Retry::Later),
        (LedgerFailure::Full, Code::JournalFull, Retry::Later),
        (LedgerFailure::Foreign("swapped".to_owned()), Code::JournalForeign, Retry::Never),
        (LedgerFailure::Overload, Code::JournalOverload, Retry::Later),
    ] {
        let (verdicts, ..) = decided([Act::Fail(failure.clone())], &["{}", r#"{"x":1}"#]);
        for verdict in &verdicts {
            assert_eq!(refusal(verdict), (code, retry, None), "{failure}");
        }
    }
}

#[test]
fn a_ledger_that_answers_another_number_of_calls_has_answered_none() {
    for act in [Act::AnswerFewer(1), Act::AnswerFewer(2), Act::AnswerMore] {
        let (verdicts, ..) = decided([act.clone()], &["{}", "{}"]);
        assert_eq!(verdicts.len(), 2);
        for verdict in &verdicts {
            assert_eq!(refusal(verdict), (Code::JournalWrite, Retry::Later, None), "{act:?}");
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Commit),
        2 => Just(Act::ChangeThenCommit),
        1 => Just(Act::Stale),
        1 => Just(Act::Fail(LedgerFailure::Full)),
        1 => (1_usize..4).prop_map(Act::AnswerFewer),
        1 => Just(Act::AnswerMore),
    ]
}

proptest! {
    #[test]
    fn a_permit_is_made_only_from_a_committed_allow(acts in prop::collection::vec(act(), 0..6), denied in prop::collection::vec(any::<bool>(), 0..6)) {
        let arguments: Vec<&str> = denied.iter().map(|denied| if *denied { r#"{"x":1}"# } else { "{}" }).collect();
        let (verdicts, entries, _) = decided(acts, &arguments);
        prop_assert_eq!(verdicts.len(), arguments.len());
        for ((sequence, verdict), arguments) in (1..).zip(verdicts).zip(arguments) {
            match verdict {
                Verdict::Permitted(permit) => {
                    let entry = permit.spend(&call(sequence, arguments).binding).unwrap();
                    let (of, _, decision) = &entries[usize::try_from(entry).unwrap() - 1];
                    prop_assert_eq!(*of, sequence);
                    prop_assert!(matches!(decision, Decision::Allowed { .. }), "{:?}", decision);
                }
                Verdict::Refused { reason, entry: Some(entry) } => {
                    let (of, _, decision) = &entries[usize::try_from(entry).unwrap() - 1];
                    prop_assert_eq!((*of, decision), (sequence, &Decision::Refused(reason)));
                }
                Verdict::Refused { entry: None, .. } => {}
            }
        }
    }
}
