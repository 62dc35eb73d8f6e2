//! One decision, from a call to a permit or a refusal. The one path on which a permit is made.

use std::sync::Arc;

use crate::call::Call;
use crate::code::Code;
use crate::evaluate::{Evaluated, Member, Ruling, evaluate};
use crate::permit::Permit;
use crate::port::{Case, Evaluator, Ledger, LedgerFailure, Settlement};
use crate::refusal::Reason;
use crate::settle::Decision;
use crate::verdict::Retry;

/// How often a call is evaluated when the chain keeps changing under it.
pub const EVALUATIONS_MAX: u32 = 3;

/// What becomes of a call.
#[derive(Debug)]
pub enum Verdict {
    /// Its frame may be forwarded.
    Permitted(Permit),
    /// It is refused.
    Refused {
        /// Why.
        reason: Reason,
        /// The journal entry that says so; `None` when it could not be written.
        entry: Option<u64>,
    },
}

/// Decides calls that arrived together: evaluates each, settles all in one transaction, answers after its COMMIT; one
/// verdict a call, in order. A call whose chain changed meanwhile is evaluated again, at most [`EVALUATIONS_MAX`] times;
/// then it is given up on, and that is written like any other decision.
pub fn decide(evaluator: &impl Evaluator, ledger: &impl Ledger, calls: Vec<Call>) -> Vec<Verdict> {
    let mut verdicts: Vec<Option<Verdict>> = calls.iter().map(|_| None).collect();
    let mut open: Vec<Open> =
        calls.into_iter().enumerate().map(|(index, call)| Open { index, call, asked: None }).collect();
    for _ in 0..EVALUATIONS_MAX {
        let cases = open.iter_mut().map(|open| open.evaluated(evaluator)).collect();
        open = settle(ledger, cases, open, &mut verdicts);
    }
    let cases = open.iter().map(Open::given_up).collect();
    settle(ledger, cases, open, &mut verdicts);
    verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(unsettled)).collect()
}

/// What the chain makes of one call: what is decided, and what is only explained, both come through here.
pub fn evaluated(evaluator: &impl Evaluator, call: &Call) -> Evaluated {
    evaluate(evaluator.opinions(call))
}

/// A call that has no verdict yet.
struct Open {
    index: usize,
    call: Call,
    /// Who was asked at its last evaluation.
    asked: Option<(u64, Arc<[Member]>)>,
}

impl Open {
    fn evaluated(&mut self, evaluator: &impl Evaluator) -> Case {
        let evaluated = evaluated(evaluator, &self.call);
        self.asked = Some((evaluated.generation, Arc::clone(&evaluated.members)));
        Case { call: self.call.clone(), evaluated }
    }

    fn given_up(&self) -> Case {
        let (generation, members) = self.asked.clone().unwrap_or_default();
        let ruling = Ruling::Unsettled;
        let evaluated = Evaluated { generation, members, opinions: Vec::new(), ruling, notes: Vec::new() };
        Case { call: self.call.clone(), evaluated }
    }
}

/// Has the cases, one an open call, settled and written, and notes what became of them. Gives back those that are stale.
fn settle(ledger: &impl Ledger, cases: Vec<Case>, open: Vec<Open>, verdicts: &mut [Option<Verdict>]) -> Vec<Open> {
    if cases.is_empty() {
        return open;
    }
    let settlements = ledger.settle(cases);
    // A ledger that answers another number of cases than it was given has answered none of them.
    let mut settlements = if settlements.len() == open.len() { settlements } else { Vec::new() }.into_iter();
    let mut stale = Vec::new();
    for open in open {
        let verdict = match settlements.next() {
            Some(Ok(Settlement::Stale)) => {
                stale.push(open);
                continue;
            }
            Some(Ok(Settlement::Committed { entry, decision })) => committed(&open.call, entry, decision),
            Some(Err(failure)) => unwritten(&failure),
            None => unwritten(&LedgerFailure::WriteFailed("the journal gave no answer".to_owned())),
        };
        verdicts[open.index] = Some(verdict);
    }
    stale
}

fn committed(call: &Call, entry: u64, decision: Decision) -> Verdict {
    match decision {
        Decision::Allowed { .. } => Verdict::Permitted(Permit::committed(call.binding, entry)),
        Decision::Refused(reason) => Verdict::Refused { reason, entry: Some(entry) },
    }
}

/// What becomes of a call whose decision cannot be written.
pub fn unwritten(failure: &LedgerFailure) -> Verdict {
    let (code, retry) = match failure {
        LedgerFailure::WriteFailed(_) => (Code::JournalWrite, Retry::Later),
        LedgerFailure::Full => (Code::JournalFull, Retry::Later),
        LedgerFailure::Foreign(_) => (Code::JournalForeign, Retry::Never),
        LedgerFailure::Overload => (Code::JournalOverload, Retry::Later),
    };
    Verdict::Refused { reason: Reason::of(code, failure.to_string(), retry), entry: None }
}

/// For a call that even then was left open.
fn unsettled() -> Verdict {
    Verdict::Refused { reason: Reason::unsettled(), entry: None }
}
