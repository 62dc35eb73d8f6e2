//! Entries that stand for themselves: no table beside the chain has a say in them.

use callgate_core::entry::{Draft, Kind, SessionEndBody};
use callgate_core::port::LedgerFailure;

use crate::batch::{Batch, Stop};
use crate::work::Item;

/// Why entries were not appended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AppendError {
    /// Entries of this kind are written only together with what they speak of.
    #[error("an entry of kind {} is written by the operation it records, not by itself", .0.as_str())]
    NotByItself(Kind),
    /// They could not be written.
    #[error(transparent)]
    Unwritten(#[from] LedgerFailure),
}

/// Whether an entry of this kind stands for itself.
const fn stands_alone(kind: Kind) -> bool {
    match kind {
        Kind::DaemonStart | Kind::DaemonStop | Kind::SessionEnd | Kind::Anomaly | Kind::PluginReset => true,
        Kind::ClockJump
        | Kind::SessionStart
        | Kind::CallDecision
        | Kind::CallOutcome
        | Kind::OutcomeUnknown
        | Kind::RuleAdd
        | Kind::RuleRemove
        | Kind::BudgetAdd
        | Kind::BudgetRemove
        | Kind::GrantAdd
        | Kind::GrantRemove
        | Kind::PluginAdd
        | Kind::PluginChange
        | Kind::PluginRemove
        | Kind::PluginOrder
        | Kind::ServerAdd
        | Kind::ServerRemove
        | Kind::CredentialSet
        | Kind::CredentialRemove
        | Kind::AgentAdd
        | Kind::AgentRefresh
        | Kind::AgentRemove => false,
    }
}

/// Entries that are appended together or not at all.
pub(crate) struct Entries(pub(crate) Vec<Draft>);

impl Item for Entries {
    type Done = Vec<u64>;
    type Error = AppendError;

    fn entries(&self) -> usize {
        self.0.len()
    }

    fn write(&self, batch: &mut Batch) -> Result<Vec<u64>, Stop<AppendError>> {
        self.0.iter().map(|draft| append(batch, draft)).collect()
    }
}

/// Appends one entry that stands for itself.
pub(crate) fn append(batch: &mut Batch, draft: &Draft) -> Result<u64, Stop<AppendError>> {
    if !stands_alone(draft.kind) {
        return Err(Stop::Refused(AppendError::NotByItself(draft.kind)));
    }
    let entry = batch.append(draft)?;
    if draft.kind == Kind::SessionEnd
        && let Ok(body) = serde_json::from_slice::<SessionEndBody>(&draft.body)
    {
        let (counters, _) = batch.counters();
        counters.end_session(&body);
    }
    Ok(entry)
}
