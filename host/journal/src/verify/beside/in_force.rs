//! What is in force, against what the entries come to.

use std::collections::BTreeMap;

use callgate_core::plugin::PluginEntry;
use rusqlite::Connection;

use super::Tables;
use crate::agents;
use crate::plugins;
use crate::policy::{self, Stored};
use crate::servers;
use crate::verify::{Breach, Flaw};

impl Tables<'_> {
    pub(super) fn plugins_in_force(&self, connection: &Connection) -> Result<(), Flaw> {
        let found = plugins::read(connection)?;
        if found == self.plugins {
            return Ok(());
        }
        let names = |plugins: &[PluginEntry]| {
            let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let why = format!(
            "it has {}, where the entries come to {}, or one of them differs",
            names(&found),
            names(&self.plugins)
        );
        Err(Flaw::Breach(0, Breach::Beside { table: "plugin", why }))
    }

    pub(super) fn servers_in_force(&self, connection: &Connection) -> Result<(), Flaw> {
        let found = servers::read(connection)?;
        let differs = |table, why: String| Err(Flaw::Breach(0, Breach::Beside { table, why }));
        if found.servers != self.registry.servers {
            let why = format!(
                "it has {} servers, where the entries come to {}, or one of them differs",
                found.servers.len(),
                self.registry.servers.len()
            );
            return differs("server", why);
        }
        if found.credentials != self.registry.credentials {
            return differs("credential", "its credentials are not the ones that the entries come to".to_owned());
        }
        Ok(())
    }

    pub(super) fn agents_in_force(&self, connection: &Connection) -> Result<(), Flaw> {
        if agents::read(connection)? == self.agents {
            return Ok(());
        }
        let why = "its agents are not the ones that the entries come to".to_owned();
        Err(Flaw::Breach(0, Breach::Beside { table: "agent", why }))
    }

    pub(super) fn policy_in_force(&self, connection: &Connection) -> Result<(), Flaw> {
        let expected: BTreeMap<u64, Stored> =
            self.policy.values().map(|(seq, item)| (*seq, Stored::of(item))).collect();
        let found = policy::rows(connection)?;
        let differs = |seq: u64, why: String| Flaw::Breach(seq, Breach::Beside { table: "policy", why });
        if let Some((seq, row)) = found.iter().find(|(seq, row)| expected.get(seq) != Some(row)) {
            return Err(differs(*seq, format!("it has the {} {} as {}", row.kind, row.item, row.key)));
        }
        if let Some((seq, row)) = expected.iter().find(|(seq, _)| !found.contains_key(seq)) {
            return Err(differs(*seq, format!("it lacks the {} {}", row.kind, row.item)));
        }
        let generation = policy::generation(connection)?;
        if generation != self.generation {
            let why = format!("generation {generation} instead of {}", self.generation);
            return Err(Flaw::Breach(0, Breach::Beside { table: "meta", why }));
        }
        Ok(())
    }
}
