//! The operator's plugins: the list that is in force, changed only together with the entries that say so, in one transaction.

use callgate_core::identity::PluginName;
use callgate_core::plugin::{PluginEntry, PluginStep, steps};
use callgate_core::port::LedgerFailure;
use rusqlite::types::Type;
use rusqlite::{Connection, params};

use crate::batch::{Batch, Stop, signed};
use crate::policy::Swap;
use crate::work::Item;

/// How many plugins a list may hold: each is a place in the chain that every call is put before.
pub const PLUGINS_MAX: usize = 64;

/// The plugins in force, in the order in which they are asked, after the shipped ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plugins {
    /// The generation of the chain that they are part of.
    pub generation: u64,
    /// The plugins.
    pub entries: Vec<PluginEntry>,
}

/// What a change of the plugins came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PluginsChanged {
    /// The entries that say so; none when nothing differed.
    pub entries: Vec<u64>,
    /// The generation from the last of them on; the one before when nothing differed.
    pub generation: u64,
}

/// Why the plugins were not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PluginsError {
    /// The chain changed since the caller looked at it.
    #[error("the chain changed meanwhile (generation {present})")]
    Stale {
        /// The generation in force.
        present: u64,
    },
    /// It could not be written.
    #[error(transparent)]
    Unwritten(#[from] LedgerFailure),
}

/// A list that takes the place of the one in force, with what takes it into force.
pub(crate) struct Replacing {
    plugins: Vec<PluginEntry>,
    steps: Vec<PluginStep>,
    expected_generation: u64,
    swap: Option<Swap>,
}

impl Replacing {
    pub(crate) fn new(
        before: &[PluginEntry],
        plugins: Vec<PluginEntry>,
        renewed: Option<&PluginName>,
        expected_generation: u64,
        swap: Swap,
    ) -> Self {
        let steps = steps(before, &plugins, renewed);
        Self { plugins, steps, expected_generation, swap: Some(swap) }
    }
}

impl Item for Replacing {
    type Done = PluginsChanged;
    type Error = PluginsError;

    fn entries(&self) -> usize {
        self.steps.len()
    }

    fn write(&self, batch: &mut Batch) -> Result<PluginsChanged, Stop<PluginsError>> {
        let present = batch.generation();
        if present != self.expected_generation {
            return Err(Stop::Refused(PluginsError::Stale { present }));
        }
        if self.steps.is_empty() {
            return Ok(PluginsChanged { entries: Vec::new(), generation: present });
        }
        let generation = present + 1;
        let entries =
            self.steps.iter().map(|step| batch.append(&step.draft(generation))).collect::<Result<_, Stop<_>>>()?;
        batch.set_generation(generation)?;
        write(batch.connection(), &self.plugins)?;
        Ok(PluginsChanged { entries, generation })
    }

    fn committed(&mut self, changed: &PluginsChanged) {
        if let Some(swap) = self.swap.take() {
            swap(changed.generation);
        }
    }
}

/// The plugins as the database has them.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Vec<PluginEntry>> {
    let mut query = connection.prepare("SELECT entry FROM plugin ORDER BY position")?;
    let entry = |text: String| {
        serde_json::from_str(&text)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
    };
    query.query_map([], |row| entry(row.get(0)?))?.collect()
}

fn write(connection: &Connection, plugins: &[PluginEntry]) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM plugin")?.execute([])?;
    let mut insert = connection.prepare_cached("INSERT INTO plugin (position, name, entry) VALUES (?1, ?2, ?3)")?;
    for (position, plugin) in (0_u64..).zip(plugins) {
        let entry =
            serde_json::to_string(plugin).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        insert.execute(params![signed(position), plugin.name.as_str(), entry])?;
    }
    Ok(())
}
