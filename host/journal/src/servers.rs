//! Registered servers and what credentials they have: tables that are changed only together with entries, in one transaction.
//! No secret ever comes here.

use callgate_core::port::LedgerFailure;
use callgate_core::server::{Credential, NotAdmitted, Registry, ServerEntry, ServerStep, StoreKind};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use crate::batch::{Batch, Stop, signed};
use crate::work::Item;

/// Why the registry was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ServersError {
    /// The registry there is does not admit it.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// It could not be written.
    #[error(transparent)]
    Unwritten(#[from] LedgerFailure),
}

/// Steps that are taken together or not at all.
pub(crate) struct Registering(pub(crate) Vec<ServerStep>);

impl Item for Registering {
    type Done = Vec<u64>;
    type Error = ServersError;

    fn entries(&self) -> usize {
        self.0.len()
    }

    fn write(&self, batch: &mut Batch) -> Result<Vec<u64>, Stop<ServersError>> {
        let mut registry = read(batch.connection())?;
        let take = |step: &ServerStep| {
            registry.apply(step).map_err(|error| Stop::Refused(ServersError::NotAdmitted(error)))?;
            let entry = batch.append(&step.draft())?;
            write(batch.connection(), entry, step)?;
            Ok(entry)
        };
        self.0.iter().map(take).collect()
    }
}

/// The registry as the database has it.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Registry> {
    let mut servers = connection.prepare_cached("SELECT entry FROM server ORDER BY added")?;
    let servers = servers.query_map([], server)?.collect::<Result<_, _>>()?;
    let mut credentials = connection.prepare_cached("SELECT server, variable, store FROM credential ORDER BY seq")?;
    let credentials = credentials.query_map([], credential)?.collect::<Result<_, _>>()?;
    Ok(Registry { servers, credentials })
}

fn server(row: &Row) -> rusqlite::Result<ServerEntry> {
    serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(|error| unlike(0, error))
}

fn credential(row: &Row) -> rusqlite::Result<Credential> {
    let store = row.get_ref(2)?.as_str()?;
    let store = [StoreKind::System, StoreKind::SealedFile].into_iter().find(|kind| kind.as_str() == store);
    Ok(Credential {
        server: row.get::<_, String>(0)?.try_into().map_err(|error| unlike(0, error))?,
        variable: row.get::<_, String>(1)?.try_into().map_err(|error| unlike(1, error))?,
        store: store.ok_or(rusqlite::Error::InvalidColumnType(2, "store".to_owned(), Type::Text))?,
    })
}

pub(crate) fn unlike(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

fn write(connection: &Connection, entry: u64, step: &ServerStep) -> rusqlite::Result<()> {
    match step {
        ServerStep::Add(server) => {
            let text = serde_json::to_string(server).map_err(|error| unlike(0, error))?;
            connection
                .prepare_cached("INSERT INTO server (added, id, name, entry) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![signed(entry), server.id.as_str(), server.name.as_str(), text])?;
        }
        ServerStep::Remove(server) => {
            connection.prepare_cached("DELETE FROM server WHERE id = ?1")?.execute([server.id.as_str()])?;
        }
        ServerStep::SetCredential(body) => {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO credential (seq, server, variable, store) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![signed(entry), body.server.id, body.variable.as_str(), body.store.as_str()])?;
        }
        ServerStep::RemoveCredential(body) => {
            connection
                .prepare_cached("DELETE FROM credential WHERE server = ?1 AND variable = ?2")?
                .execute([body.server.id.as_str(), body.variable.as_str()])?;
        }
    }
    Ok(())
}
