//! The enrolled agents: a table that is changed only together with entries, in one transaction.

use callgate_core::agent::{AgentEntry, AgentStep, Agents, NotAdmitted};
use callgate_core::port::LedgerFailure;
use rusqlite::{Connection, Row, params};

use crate::batch::{Batch, Stop, signed};
use crate::servers::unlike;
use crate::work::Item;

/// Why the enrolments were not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AgentsError {
    /// The enrolments there are do not admit it.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// It could not be written.
    #[error(transparent)]
    Unwritten(#[from] LedgerFailure),
}

/// A step that is taken or not.
pub(crate) struct Enrolling(pub(crate) AgentStep);

impl Item for Enrolling {
    type Done = u64;
    type Error = AgentsError;

    fn write(&self, batch: &mut Batch) -> Result<u64, Stop<AgentsError>> {
        let mut agents = read(batch.connection())?;
        agents.apply(&self.0).map_err(|error| Stop::Refused(AgentsError::NotAdmitted(error)))?;
        let entry = batch.append(&self.0.draft())?;
        write(batch.connection(), entry, &self.0)?;
        Ok(entry)
    }
}

/// The enrolments as the database has them.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Agents> {
    let mut agents = connection.prepare_cached("SELECT entry FROM agent ORDER BY added")?;
    Ok(Agents(agents.query_map([], agent)?.collect::<Result<_, _>>()?))
}

fn agent(row: &Row) -> rusqlite::Result<AgentEntry> {
    serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(|error| unlike(0, error))
}

fn write(connection: &Connection, entry: u64, step: &AgentStep) -> rusqlite::Result<()> {
    let text = |agent: &AgentEntry| serde_json::to_string(agent).map_err(|error| unlike(0, error));
    match step {
        AgentStep::Add(agent) => connection
            .prepare_cached("INSERT INTO agent (added, id, name, entry) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![signed(entry), agent.id.as_str(), agent.name.as_str(), text(agent)?])?,
        AgentStep::Refresh(agent) => connection
            .prepare_cached("UPDATE agent SET entry = ?2 WHERE id = ?1")?
            .execute(params![agent.id.as_str(), text(agent)?])?,
        AgentStep::Remove(agent) => {
            connection.prepare_cached("DELETE FROM agent WHERE id = ?1")?.execute([agent.id.as_str()])?
        }
    };
    Ok(())
}
