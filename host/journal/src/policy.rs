//! The operator's policy: a table that is changed only together with entries, in one transaction.

use std::collections::BTreeMap;

use callgate_core::entry::{Draft, Kind, PolicyBody, PolicyStep};
use callgate_core::identity::ServerName;
use callgate_core::policy::{CHANGES_MAX, Conflict, PolicyChange, PolicyItem, PolicyKey, PolicyKind};
use callgate_core::port::LedgerFailure;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use crate::batch::{Batch, Stop, signed, unsigned};
use crate::work::Item;

/// The policy in force.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// The generation it makes.
    pub generation: u64,
    /// Its items, in the order in which they were added.
    pub items: Vec<PolicyItem>,
}

/// Changes that were made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyChanged {
    /// The items that were added or removed, each with the entry that says so.
    pub items: Vec<(u64, PolicyItem)>,
    /// The generation from the last of these entries on.
    pub generation: u64,
}

/// Why the policy was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// The policy there is does not admit it.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// No change was asked for, or more than are made together.
    #[error("{0} changes at once, where 1 to {CHANGES_MAX} are made together")]
    Count(usize),
    /// The policy changed since the caller looked at it.
    #[error("the policy changed meanwhile (generation {present})")]
    Stale {
        /// The generation in force.
        present: u64,
    },
    /// It could not be written.
    #[error(transparent)]
    Unwritten(#[from] LedgerFailure),
}

/// What runs once changes are committed, with the new generation.
pub type Swap = Box<dyn FnOnce(u64) + Send>;

/// Changes of the policy that are made together or not at all, with what takes them into force.
pub(crate) struct Changing {
    pub(crate) changes: Vec<PolicyChange>,
    pub(crate) expected_generation: u64,
    pub(crate) swap: Option<Swap>,
}

impl Item for Changing {
    type Done = PolicyChanged;
    type Error = PolicyError;

    fn write(&self, batch: &mut Batch) -> Result<PolicyChanged, Stop<PolicyError>> {
        let present = batch.generation();
        if present != self.expected_generation {
            return Err(Stop::Refused(PolicyError::Stale { present }));
        }
        if !(1..=CHANGES_MAX).contains(&self.changes.len()) {
            return Err(Stop::Refused(PolicyError::Count(self.changes.len())));
        }
        let generation = present + 1;
        let items = self.changes.iter().map(|change| make(batch, change, generation)).collect::<Result<_, _>>()?;
        batch.set_generation(generation)?;
        Ok(PolicyChanged { items, generation })
    }

    fn committed(&mut self, changed: &PolicyChanged) {
        if let Some(swap) = self.swap.take() {
            swap(changed.generation);
        }
    }
}

/// Makes one change, and tells its entry and the item it is about.
fn make(batch: &mut Batch, change: &PolicyChange, generation: u64) -> Result<(u64, PolicyItem), Stop<PolicyError>> {
    let refused = |conflict| Stop::Refused(PolicyError::Conflict(conflict));
    let (step, item) = match change {
        PolicyChange::Add(item) => match find(batch.connection(), &item.key())? {
            Some(there) => return Err(refused(Conflict::AlreadyThere(there))),
            None => (PolicyStep::Added, item.clone()),
        },
        PolicyChange::Remove(key) => match find(batch.connection(), key)? {
            Some(there) => (PolicyStep::Removed, there),
            None => return Err(refused(Conflict::NotThere(key.clone()))),
        },
    };
    let body = PolicyBody { item, generation };
    let entry = batch.append(&Draft::of(Kind::of_policy(body.item.kind(), step), &body))?;
    match step {
        PolicyStep::Added => insert(batch.connection(), entry, &body.item)?,
        PolicyStep::Removed => delete(batch.connection(), &body.item.key())?,
    }
    Ok((entry, body.item))
}

/// A row of the table, but for the entry that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    pub(crate) kind: String,
    pub(crate) key: String,
    pub(crate) item: String,
}

impl Stored {
    /// As an item is stored.
    pub(crate) fn of(item: &PolicyItem) -> Self {
        let text = match item {
            PolicyItem::Rule(rule) => json(rule),
            PolicyItem::Budget(budget) => json(budget),
            PolicyItem::Grant(grant) => json(grant),
        };
        Self { kind: item.kind().as_str().to_owned(), key: key_text(&item.key()), item: text }
    }
}

/// The policy as the database has it.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Policy> {
    let generation = generation(connection)?;
    let mut query = connection.prepare("SELECT kind, item FROM policy ORDER BY added")?;
    let items = query.query_map([], item)?.collect::<Result<_, _>>()?;
    Ok(Policy { generation, items })
}

/// The generation that the database has.
pub(crate) fn generation(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT generation FROM meta", [], |row| unsigned(row.get(0)?))
}

/// The table's rows by the entry that each names.
pub(crate) fn rows(connection: &Connection) -> rusqlite::Result<BTreeMap<u64, Stored>> {
    let mut query = connection.prepare("SELECT added, kind, key, item FROM policy")?;
    let row =
        |row: &Row| Ok((unsigned(row.get(0)?)?, Stored { kind: row.get(1)?, key: row.get(2)?, item: row.get(3)? }));
    query.query_map([], row)?.collect()
}

/// Whether a session was ever opened for this server.
pub(crate) fn has_seen(connection: &Connection, server: &ServerName) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (
             SELECT 1 FROM session JOIN entry ON seq = started
             WHERE json_extract(CAST(body AS TEXT), '$.server.name') = ?1
         )",
        [server.as_str()],
        |row| row.get(0),
    )
}

fn find(connection: &Connection, key: &PolicyKey) -> rusqlite::Result<Option<PolicyItem>> {
    connection
        .prepare_cached("SELECT kind, item FROM policy WHERE kind = ?1 AND key = ?2")?
        .query_row(params![key.kind().as_str(), key_text(key)], item)
        .optional()
}

fn insert(connection: &Connection, entry: u64, item: &PolicyItem) -> rusqlite::Result<()> {
    let Stored { kind, key, item } = Stored::of(item);
    connection
        .prepare_cached("INSERT INTO policy (added, kind, key, item) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![signed(entry), kind, key, item])?;
    Ok(())
}

fn delete(connection: &Connection, key: &PolicyKey) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM policy WHERE kind = ?1 AND key = ?2")?
        .execute(params![key.kind().as_str(), key_text(key)])?;
    Ok(())
}

/// The item in the columns `kind` and `item`.
fn item(row: &Row) -> rusqlite::Result<PolicyItem> {
    let kind = row.get_ref(0)?.as_str()?;
    let kind = PolicyKind::ALL.into_iter().find(|known| known.as_str() == kind);
    let kind = kind.ok_or(rusqlite::Error::InvalidColumnType(0, "kind".to_owned(), Type::Text))?;
    let text = row.get_ref(1)?.as_str()?;
    let read = match kind {
        PolicyKind::Rule => serde_json::from_str(text).map(PolicyItem::Rule),
        PolicyKind::Budget => serde_json::from_str(text).map(PolicyItem::Budget),
        PolicyKind::Grant => serde_json::from_str(text).map(PolicyItem::Grant),
    };
    read.map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, error.into()))
}

fn key_text(key: &PolicyKey) -> String {
    match key {
        PolicyKey::Rule(rule) => json(rule),
        PolicyKey::Budget(budget) => json(budget),
        PolicyKey::Grant(grant) => json(grant),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("an item is made of text and numbers")
}
