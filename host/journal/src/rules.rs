//! The operator's rules: a table that is changed only together with an entry, in one transaction.

use std::collections::BTreeMap;

use callgate_core::entry::{Draft, Kind, RuleBody};
use callgate_core::identity::{AgentName, ServerName};
use callgate_core::port::LedgerFailure;
use callgate_core::rule::{RuleEntry, RuleKey, Target};
use callgate_core::settle::Word;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::batch::{Batch, Stop, signed, unsigned};
use crate::work::Item;

/// The rules in force, in the order in which they were added.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// The generation they make.
    pub generation: u64,
    /// The rules.
    pub entries: Vec<RuleEntry>,
}

/// A change of the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleChange {
    /// Adds a rule. There is at most one of a key, whatever its effect.
    Add(RuleEntry),
    /// Removes the rule of this key.
    Remove(RuleKey),
}

/// A change that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleChanged {
    /// The entry that says so.
    pub entry: u64,
    /// The rule that was added or removed.
    pub rule: RuleEntry,
    /// The generation from this entry on.
    pub generation: u64,
}

/// Why the rules were not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// There is a rule of this key.
    #[error("there is a rule for that already: {0}")]
    AlreadyThere(RuleEntry),
    /// There is no rule of this key.
    #[error("there is no rule for {0}")]
    NotThere(RuleKey),
    /// The rules changed since the caller looked at them.
    #[error("the rules changed meanwhile (generation {present})")]
    Stale {
        /// The generation in force.
        present: u64,
    },
    /// It could not be written.
    #[error(transparent)]
    Unwritten(#[from] LedgerFailure),
}

/// What runs once a change is committed, with the new generation.
pub type Swap = Box<dyn FnOnce(u64) + Send>;

/// A change of the rules, with what takes it into force.
pub(crate) struct Changing {
    pub(crate) change: RuleChange,
    pub(crate) expected_generation: u64,
    pub(crate) swap: Option<Swap>,
}

impl Item for Changing {
    type Done = RuleChanged;
    type Error = RuleError;

    fn write(&self, batch: &mut Batch) -> Result<RuleChanged, Stop<RuleError>> {
        let present = batch.generation();
        if present != self.expected_generation {
            return Err(Stop::Refused(RuleError::Stale { present }));
        }
        let (kind, rule) = match &self.change {
            RuleChange::Add(rule) => match find(batch.connection(), &rule.key)? {
                Some(there) => return Err(Stop::Refused(RuleError::AlreadyThere(there))),
                None => (Kind::RuleAdd, rule.clone()),
            },
            RuleChange::Remove(key) => match find(batch.connection(), key)? {
                Some(there) => (Kind::RuleRemove, there),
                None => return Err(Stop::Refused(RuleError::NotThere(key.clone()))),
            },
        };
        let generation = present + 1;
        let entry = batch.append(&Draft::of(kind, &RuleBody { rule: rule.clone(), generation }))?;
        batch.set_generation(generation)?;
        match &self.change {
            RuleChange::Add(rule) => insert(batch.connection(), entry, rule)?,
            RuleChange::Remove(key) => delete(batch.connection(), key)?,
        }
        Ok(RuleChanged { entry, rule, generation })
    }

    fn committed(&mut self, changed: &RuleChanged) {
        if let Some(swap) = self.swap.take() {
            swap(changed.generation);
        }
    }
}

/// The rules as the database has them.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Rules> {
    let generation = connection.query_row("SELECT generation FROM meta", [], |row| unsigned(row.get(0)?))?;
    let entries = read_by_entry(connection)?.into_values().collect();
    Ok(Rules { generation, entries })
}

/// The rules by the entry that added them.
pub(crate) fn read_by_entry(connection: &Connection) -> rusqlite::Result<BTreeMap<u64, RuleEntry>> {
    let mut query = connection.prepare("SELECT effect, tool, agent, server, added FROM rule")?;
    query.query_map([], |row| Ok((unsigned(row.get(4)?)?, rule(row)?)))?.collect()
}

fn find(connection: &Connection, key: &RuleKey) -> rusqlite::Result<Option<RuleEntry>> {
    connection
        .prepare_cached(
            "SELECT effect, tool, agent, server FROM rule WHERE tool IS ?1 AND agent IS ?2 AND server IS ?3",
        )?
        .query_row(columns(key), rule)
        .optional()
}

fn insert(connection: &Connection, entry: u64, rule: &RuleEntry) -> rusqlite::Result<()> {
    let (tool, agent, server) = columns(&rule.key);
    connection
        .prepare_cached("INSERT INTO rule (added, effect, tool, agent, server) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![signed(entry), effect_text(rule.effect), tool, agent, server])?;
    Ok(())
}

fn delete(connection: &Connection, key: &RuleKey) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM rule WHERE tool IS ?1 AND agent IS ?2 AND server IS ?3")?
        .execute(columns(key))?;
    Ok(())
}

/// A key as its columns; what it does not name is NULL.
fn columns(key: &RuleKey) -> (Option<&str>, Option<&str>, Option<&str>) {
    let tool = match &key.target {
        Target::Tool(tool) => Some(tool.as_str()),
        Target::Default => None,
    };
    (tool, key.agent.as_ref().map(AgentName::as_str), key.server.as_ref().map(ServerName::as_str))
}

fn rule(row: &Row) -> rusqlite::Result<RuleEntry> {
    let text = |column| row.get::<_, Option<String>>(column);
    let effect = row.get_ref(0)?.as_str()?;
    let effect = [Word::Deny, Word::Ask, Word::Allow].into_iter().find(|word| effect_text(*word) == effect);
    Ok(RuleEntry {
        effect: effect.ok_or(rusqlite::Error::InvalidColumnType(0, "effect".to_owned(), Type::Text))?,
        key: RuleKey {
            target: text(1)?.map_or(Target::Default, Target::Tool),
            agent: text(2)?.map(AgentName::try_from).transpose().map_err(|error| bad_name(2, error))?,
            server: text(3)?.map(ServerName::try_from).transpose().map_err(|error| bad_name(3, error))?,
        },
    })
}

fn bad_name(column: usize, error: callgate_core::identity::BadName) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

const fn effect_text(effect: Word) -> &'static str {
    match effect {
        Word::Deny => "deny",
        Word::Ask => "ask",
        Word::Allow => "allow",
    }
}
