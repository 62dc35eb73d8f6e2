//! `callgate plugin remove` and `reset`, and what they share with `install`: asking the daemon for a change.

use std::time::Duration;

use callgate_core::digest::Digest;
use callgate_core::identity::PluginName;
use callgate_ipc::message::{ChangePlugins, Command, CommandReply};

use crate::client::{Client, unexpected};
use crate::config::{Config, edit};
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

/// A daemon that does not find the component in the cache compiles it, which it gives up after a minute.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(90);

/// A new configuration, to take the place of the one that was read.
pub(super) struct Change {
    /// The whole file.
    pub(super) config: String,
    /// The digest of the file as it was read.
    pub(super) before: Digest,
    /// A plugin that was accepted anew.
    pub(super) renewed: Option<PluginName>,
}

/// What was done.
pub(super) struct Changed {
    entries: Vec<u64>,
    pub(super) warnings: Vec<String>,
}

impl Changed {
    /// The entries that say so.
    pub(super) fn entries_text(&self) -> String {
        match self.entries[..] {
            [entry] => format!("entry {entry}"),
            _ => format!("entries {}", self.entries.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// What was not.
pub(super) struct NotChanged {
    pub(super) failure: Failure,
    /// Whether the old state is known to be in force.
    pub(super) nothing_changed: bool,
}

/// Has the daemon take a change into force.
pub(super) fn submit(home: &Home, change: Change) -> Result<Changed, NotChanged> {
    let Change { config, before, renewed } = change;
    let command = Command::ChangePlugins(ChangePlugins { before, config, renewed });
    let mut client = Client::connect(home).map_err(|failure| NotChanged { failure, nothing_changed: true })?;
    let reply = client.tell_within(&command, CHANGE_TIMEOUT);
    match reply.map_err(|failure| NotChanged { failure, nothing_changed: false })? {
        CommandReply::PluginsChanged { entries, warnings } => Ok(Changed { entries, warnings }),
        failed => Err(NotChanged { failure: Client::failure(failed), nothing_changed: true }),
    }
}

pub(super) fn remove(home: &Home, name: &PluginName) -> Outcome {
    let text = Config::read(&home.config_file())?;
    let config = Config::of(&home.config_file(), text.as_deref())?;
    let (Some(text), Some(entry)) = (text, config.plugins.iter().find(|there| there.name == *name)) else {
        return Err(not_there(name));
    };
    let change = Change { config: edit::without_plugin(&text, name)?, before: config.digest, renewed: None };
    let changed = submit(home, change).map_err(|not_changed| not_changed.failure)?;
    output::line(&format!("removed: {entry} ({}), from the next call on", changed.entries_text()))?;
    Ok(Exit::Done)
}

pub(super) fn reset(home: &Home, name: &PluginName) -> Outcome {
    let reply = Client::connect(home)?.ask(&Command::ResetPlugin(name.clone()))?;
    let CommandReply::PluginReset { entry, breakers } = reply else {
        return Err(unexpected());
    };
    match (breakers, entry) {
        (0, _) | (_, None) => output::line(&format!("{name} had no open breaker"))?,
        (breakers, Some(entry)) => {
            let s = if breakers == 1 { "" } else { "s" };
            output::line(&format!("reset: {name}, {breakers} breaker{s} closed (entry {entry})"))?;
        }
    }
    Ok(Exit::Done)
}

pub(super) fn not_there(name: &PluginName) -> Failure {
    Failure::usage(format!("there is no plugin named {name}")).hint("callgate plugin list")
}
