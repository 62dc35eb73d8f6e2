//! Entries as they are read: the stored bytes, and what they say.

use callgate_core::agent::AgentBody;
use callgate_core::digest::Digest;
use callgate_core::entry::{
    AnomalyBody, ClockBody, DaemonBody, DecisionBody, KeptArguments, Kind, Outcome, OutcomeBody, PolicyBody,
    PolicyStep, SessionEndBody, SessionStartBody,
};
use callgate_core::plugin::{PluginBody, PluginOrderBody, PluginResetBody};
use callgate_core::server::{CredentialBody, ServerBody};
use callgate_core::settle::Filing;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;

use crate::batch::{signed, unsigned};
use crate::calls;

/// One entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its number, from 1.
    pub seq: u64,
    /// When it was written, milliseconds since 1970-01-01 UTC; never before the entry in front of it.
    pub time_ms: i64,
    /// What it is about, as stored.
    pub kind: String,
    /// The body as stored: JSON text, and what is hashed.
    pub body: Vec<u8>,
    /// The chain's hash after it, as stored.
    pub chain: Digest,
    /// What the body says.
    pub content: Content,
}

/// What an entry says.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// `daemon.start`
    DaemonStart(DaemonBody),
    /// `daemon.stop`
    DaemonStop(DaemonBody),
    /// `clock.jump`
    ClockJump(ClockBody),
    /// `session.start`
    SessionStart(SessionStartBody),
    /// `session.end`
    SessionEnd(SessionEndBody),
    /// `call.decision`
    Decision(Box<DecisionView>),
    /// `call.outcome` and `outcome.unknown`
    Outcome(Box<OutcomeView>),
    /// `anomaly`
    Anomaly(AnomalyBody),
    /// `rule.add`, `budget.add` and `grant.add`
    PolicyAdd(PolicyBody),
    /// `rule.remove`, `budget.remove` and `grant.remove`
    PolicyRemove(PolicyBody),
    /// `plugin.add`
    PluginAdd(PluginBody),
    /// `plugin.change`
    PluginChange(PluginBody),
    /// `plugin.remove`
    PluginRemove(PluginBody),
    /// `plugin.order`
    PluginOrder(PluginOrderBody),
    /// `plugin.reset`
    PluginReset(PluginResetBody),
    /// `server.add`
    ServerAdd(ServerBody),
    /// `server.remove`
    ServerRemove(ServerBody),
    /// `credential.set`
    CredentialSet(CredentialBody),
    /// `credential.remove`
    CredentialRemove(CredentialBody),
    /// `agent.add`
    AgentAdd(AgentBody),
    /// `agent.refresh`
    AgentRefresh(AgentBody),
    /// `agent.remove`
    AgentRemove(AgentBody),
    /// The kind is not known, or the body is not one of its kind; why.
    Unreadable(String),
}

/// A decision, with what is known beside the chain.
#[derive(Clone, PartialEq, Debug)]
pub struct DecisionView {
    /// The decision.
    pub body: DecisionBody<'static>,
    /// What is kept of the arguments; `None` when they were pruned.
    pub arguments: Option<KeptArguments>,
    /// What became of the call; `None` when it was refused.
    pub call: Option<CallState>,
}

/// What became of an allowed call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallState {
    /// Nothing is known yet. That it was allowed does not say that it was run.
    Pending,
    /// It was answered, and not with an error.
    Ok,
    /// It was answered with an error, or never will be.
    Error,
    /// The daemon died before an answer came.
    Unknown,
}

/// What came back for a call, with the decision it belongs to.
#[derive(Clone, PartialEq, Debug)]
pub struct OutcomeView {
    /// The outcome.
    pub body: OutcomeBody,
    /// The decision; `None` when that entry cannot be read.
    pub decision: Option<DecisionBody<'static>>,
}

/// The columns that [`Entry::read`] reads.
pub(crate) const COLUMNS: &str = "seq, time_ms, kind, body, chain, salt, form, value";

impl Entry {
    pub(crate) fn read(connection: &Connection, row: &Row) -> rusqlite::Result<Self> {
        let seq = unsigned(row.get(0)?)?;
        let kind: String = row.get(2)?;
        let body: Vec<u8> = row.get(3)?;
        let chain = Digest::from_bytes(row.get(4)?);
        let content = match kind.parse() {
            Ok(kind) => content(connection, row, seq, kind, &body)?,
            Err(unknown) => Content::Unreadable(callgate_core::entry::UnknownKind::to_string(&unknown)),
        };
        Ok(Self { seq, time_ms: row.get(1)?, kind, body, chain, content })
    }
}

fn content(connection: &Connection, row: &Row, seq: u64, kind: Kind, body: &[u8]) -> rusqlite::Result<Content> {
    Ok(match kind {
        Kind::DaemonStart => read(body, Content::DaemonStart),
        Kind::DaemonStop => read(body, Content::DaemonStop),
        Kind::ClockJump => read(body, Content::ClockJump),
        Kind::SessionStart => read(body, Content::SessionStart),
        Kind::SessionEnd => read(body, Content::SessionEnd),
        Kind::Anomaly => read(body, Content::Anomaly),
        Kind::RuleAdd | Kind::BudgetAdd | Kind::GrantAdd => policy(kind, PolicyStep::Added, body),
        Kind::RuleRemove | Kind::BudgetRemove | Kind::GrantRemove => policy(kind, PolicyStep::Removed, body),
        Kind::PluginAdd => read(body, Content::PluginAdd),
        Kind::PluginChange => read(body, Content::PluginChange),
        Kind::PluginRemove => read(body, Content::PluginRemove),
        Kind::PluginOrder => read(body, Content::PluginOrder),
        Kind::PluginReset => read(body, Content::PluginReset),
        Kind::ServerAdd => read(body, Content::ServerAdd),
        Kind::ServerRemove => read(body, Content::ServerRemove),
        Kind::CredentialSet => read(body, Content::CredentialSet),
        Kind::CredentialRemove => read(body, Content::CredentialRemove),
        Kind::AgentAdd => read(body, Content::AgentAdd),
        Kind::AgentRefresh => read(body, Content::AgentRefresh),
        Kind::AgentRemove => read(body, Content::AgentRemove),
        Kind::CallDecision => match serde_json::from_slice::<DecisionBody>(body) {
            Ok(body) => {
                let call = match body.decision {
                    Filing::Allowed => Some(call_state(connection, seq)?),
                    Filing::Denied | Filing::Error => None,
                };
                Content::Decision(Box::new(DecisionView { body, arguments: arguments(row)?, call }))
            }
            Err(error) => Content::Unreadable(error.to_string()),
        },
        Kind::CallOutcome | Kind::OutcomeUnknown => match serde_json::from_slice::<OutcomeBody>(body) {
            Ok(body) => {
                let decision = decision(connection, body.decision)?;
                Content::Outcome(Box::new(OutcomeView { body, decision }))
            }
            Err(error) => Content::Unreadable(error.to_string()),
        },
    })
}

fn read<T: DeserializeOwned>(body: &[u8], content: impl FnOnce(T) -> Content) -> Content {
    serde_json::from_slice(body).map_or_else(|error| Content::Unreadable(error.to_string()), content)
}

fn policy(kind: Kind, step: PolicyStep, body: &[u8]) -> Content {
    match serde_json::from_slice::<PolicyBody>(body) {
        Ok(body) if Kind::of_policy(body.item.kind(), step) != kind => {
            Content::Unreadable(format!("it is about a {}", body.item.kind()))
        }
        Ok(body) => match step {
            PolicyStep::Added => Content::PolicyAdd(body),
            PolicyStep::Removed => Content::PolicyRemove(body),
        },
        Err(error) => Content::Unreadable(error.to_string()),
    }
}

/// What lies beside the chain in an entry's row.
pub(crate) fn arguments(row: &Row) -> rusqlite::Result<Option<KeptArguments>> {
    let Some(salt) = row.get(5)? else { return Ok(None) };
    let form = calls::form(row.get_ref(6)?.as_str()?);
    let form = form.ok_or(rusqlite::Error::InvalidColumnType(6, "form".to_owned(), Type::Text))?;
    Ok(Some(KeptArguments { salt, value: row.get(7)?, form }))
}

/// What is known of an allowed call.
fn call_state(connection: &Connection, decision: u64) -> rusqlite::Result<CallState> {
    let outcome: Option<(String, Vec<u8>)> = connection
        .prepare_cached("SELECT kind, body FROM outcome JOIN entry ON seq = entry WHERE decision = ?1")?
        .query_row([signed(decision)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match outcome {
        Some((kind, body)) if kind == Kind::CallOutcome.as_str() => answered(&body, decision),
        Some(_) => CallState::Unknown,
        None => CallState::Pending,
    })
}

fn answered(body: &[u8], decision: u64) -> CallState {
    match serde_json::from_slice::<OutcomeBody>(body) {
        Ok(OutcomeBody { outcome: Some(Outcome::Ok), decision: of, .. }) if of == decision => CallState::Ok,
        Ok(OutcomeBody { outcome: Some(Outcome::Error), decision: of, .. }) if of == decision => CallState::Error,
        _ => CallState::Unknown,
    }
}

/// The decision in entry `seq`; `None` when there is none or it cannot be read.
pub(crate) fn decision(connection: &Connection, seq: u64) -> rusqlite::Result<Option<DecisionBody<'static>>> {
    let body: Option<Vec<u8>> = connection
        .prepare_cached("SELECT body FROM entry WHERE seq = ?1 AND kind = 'call.decision'")?
        .query_row([signed(seq)], |row| row.get(0))
        .optional()?;
    Ok(body.and_then(|body| serde_json::from_slice(&body).ok()))
}
