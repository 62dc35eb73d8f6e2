//! Calls: their decisions, settled inside the transaction that writes them, and what became of those that were allowed.

use std::convert::Infallible;

use callgate_core::entry::{self, Draft, Kind, Outcome, OutcomeBody, Record};
use callgate_core::identity::{ServerName, SessionId};
use callgate_core::port::{Case, LedgerFailure, Settlement};
use callgate_core::settle::{self, Decision, Present};
use rusqlite::{OptionalExtension, params};

use crate::batch::{Batch, Lost, Stop, signed};
use crate::work::Work;

/// How much is kept of the arguments of calls.
#[derive(Clone, Debug, Default)]
pub struct RecordPolicy {
    /// Of calls to every server.
    pub default: Record,
}

impl RecordPolicy {
    /// What is kept of calls to `server`.
    pub const fn of(&self, _server: &ServerName) -> Record {
        self.default
    }
}

/// Cases that are settled together.
pub(crate) struct Settling {
    cases: Vec<Case>,
    record: RecordPolicy,
    results: Vec<Result<Settlement, LedgerFailure>>,
}

impl Settling {
    pub(crate) const fn of(cases: Vec<Case>, record: RecordPolicy) -> Self {
        Self { cases, record, results: Vec::new() }
    }
}

impl Work for Settling {
    type Answer = Vec<Result<Settlement, LedgerFailure>>;

    fn items(&self) -> usize {
        self.cases.len()
    }

    fn takes_notes(&self) -> bool {
        false
    }

    fn write(&mut self, batch: &mut Batch) -> Result<(), Lost> {
        for case in &self.cases {
            let settled = settle(batch, case, self.record.of(&case.call.caller.server.name))?;
            self.results.push(settled);
        }
        Ok(())
    }

    fn committed(&mut self) {}

    fn fail(&mut self, failure: &LedgerFailure) {
        self.results = self.cases.iter().map(|_| Err(failure.clone())).collect();
    }

    fn answer(&mut self) -> Self::Answer {
        std::mem::take(&mut self.results)
    }
}

/// Settles one case and writes it. Its entry is all that it writes, and the last that can fail: a case that fails has written
/// nothing, or the whole transaction is lost. So it needs no savepoint, which would cost more than its row does.
fn settle(batch: &mut Batch, case: &Case, record: Record) -> Result<Result<Settlement, LedgerFailure>, Lost> {
    let (counters, _) = batch.counters();
    let mark = counters.mark();
    let written = match drafted(batch, case, record) {
        Ok(None) => return Ok(Ok(Settlement::Stale)),
        Ok(Some((draft, decision))) => batch.append::<Infallible>(&draft).map(|entry| (entry, decision)),
        Err(failure) => Err(Stop::Unwritable(failure)),
    };
    let failure = match written {
        Ok((entry, decision)) => {
            if matches!(decision, Decision::Allowed { .. }) {
                batch.open_calls().insert(entry, case.call.session.clone());
            }
            return Ok(Ok(Settlement::Committed { entry, decision }));
        }
        Err(Stop::Unwritable(failure)) => failure,
        Err(Stop::Storage(error) | Stop::Chain(error)) => return Err(Lost(error)),
        Err(Stop::Refused(never)) => match never {},
    };
    let (counters, _) = batch.counters();
    counters.roll_back(mark);
    Ok(Err(failure))
}

/// The entry of a case, and what it decides; `None` when the case is stale.
fn drafted(batch: &mut Batch, case: &Case, record: Record) -> Result<Option<(Draft, Decision)>, LedgerFailure> {
    let generation = batch.generation();
    let (counters, now) = batch.counters();
    let Some(settled) = settle::settle(case, Present { generation, now }, counters) else { return Ok(None) };
    let mut salt = [0; 16];
    getrandom::fill(&mut salt)
        .map_err(|error| LedgerFailure::WriteFailed(format!("there is no randomness for a salt: {error}")))?;
    let draft = entry::decision_draft(case, &settled, now.steady_ms, record, salt);
    Ok(Some((draft, settled.decision)))
}

/// The form of kept arguments as it is stored.
pub(crate) const fn form_text(form: Record) -> &'static str {
    match form {
        Record::Full => "full",
        Record::Summary => "summary",
        Record::Digest => "digest",
    }
}

/// The form that a stored text names.
pub(crate) fn form(text: &str) -> Option<Record> {
    [Record::Full, Record::Summary, Record::Digest].into_iter().find(|form| form_text(*form) == text)
}

/// What came back for an allowed call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answered {
    /// The session that reports it.
    pub(crate) session: SessionId,
    /// The entry that allowed the call.
    pub(crate) decision: u64,
    /// What came back.
    pub(crate) outcome: Outcome,
    /// How long that took.
    pub(crate) took_ms: Option<u64>,
}

/// The outcome belongs to no call of its session that still waits for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotAwaited;

/// Writes an outcome. One that comes after the call was given up as unknown is written all the same; a second one is not.
pub(crate) fn write_outcome(batch: &mut Batch, answered: &Answered) -> Result<u64, Stop<NotAwaited>> {
    let Answered { session, decision, outcome, took_ms } = answered;
    let awaited = match batch.open_calls().get(decision) {
        Some(of) => of == session,
        None => given_up(batch, *decision)?.is_some_and(|body| body.session == *session),
    };
    if !awaited {
        return Err(Stop::Refused(NotAwaited));
    }
    let body =
        OutcomeBody { session: session.clone(), decision: *decision, outcome: Some(*outcome), took_ms: *took_ms };
    let entry = batch.append(&Draft::of(Kind::CallOutcome, &body))?;
    close(batch, *decision, entry)?;
    Ok(entry)
}

/// The entry that gave a call up, if that is the last that is known of it.
fn given_up(batch: &Batch, decision: u64) -> rusqlite::Result<Option<OutcomeBody>> {
    let body: Option<Vec<u8>> = batch
        .connection()
        .prepare_cached(
            "SELECT body FROM outcome JOIN entry ON seq = entry WHERE decision = ?1 AND kind = 'outcome.unknown'",
        )?
        .query_row([signed(decision)], |row| row.get(0))
        .optional()?;
    Ok(body.and_then(|body| serde_json::from_slice(&body).ok()))
}

/// Gives up on calls that a process left open when it ended, and returns how many there were. Nobody can know what became
/// of them: the server may have run them.
pub(crate) fn give_up_open_calls(batch: &mut Batch) -> Result<usize, Lost> {
    let open = batch.open_calls().clone();
    let count = open.len();
    for (decision, session) in open {
        let body = OutcomeBody { session, decision, outcome: None, took_ms: None };
        let entry = batch.chain(&Draft::of(Kind::OutcomeUnknown, &body))?;
        close(batch, decision, entry)?;
    }
    Ok(count)
}

/// A call is open no more; `entry` is the last that is known of it.
fn close(batch: &mut Batch, decision: u64, entry: u64) -> rusqlite::Result<()> {
    batch
        .connection()
        .prepare_cached("INSERT INTO outcome VALUES (?1, ?2) ON CONFLICT DO UPDATE SET entry = excluded.entry")?
        .execute(params![signed(decision), signed(entry)])?;
    batch.open_calls().remove(&decision);
    Ok(())
}
