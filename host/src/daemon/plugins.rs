//! The operator's plugins, made into links of the chain. One that cannot be made stays in its place and denies, with the reason.

use std::sync::{Mutex, PoisonError};

use callgate_core::digest::Digest;
use callgate_core::evaluate::Member;
use callgate_core::identity::PluginName;
use callgate_core::plugin::{InstanceLife, PluginEntry};
use callgate_plugin::{Configured, Engine, Life, Link, Scope};

use crate::home::Home;
use crate::plugins::store;

/// How many fresh instances of a plugin wait ready: calls of one relay come in bursts of a few.
const INSTANCES_READY: usize = 2;

/// The operator's plugins of one daemon.
pub(super) struct Plugins {
    home: Home,
    engine: Result<Engine, String>,
    /// One kept instance a core is as many as can be at work.
    cores: usize,
    /// Those that are ready. A chain that is made anew takes them over: what they know of their failures stays, and no file is
    /// read again.
    ready: Mutex<Vec<(PluginEntry, Configured)>>,
}

/// The links for a list of plugins, and what a person should look at in their settings.
pub(super) struct Made {
    links: Vec<(PluginEntry, Result<Configured, String>)>,
    pub(super) warnings: Vec<String>,
}

impl Made {
    /// Why a plugin is not ready.
    pub(super) fn why_broken(&self, name: &PluginName) -> Option<&str> {
        let (_, made) = self.links.iter().find(|(entry, _)| entry.name == *name)?;
        made.as_ref().err().map(String::as_str)
    }

    /// The links of the chain.
    pub(super) fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.links.iter().map(|(entry, made)| {
            let link = match made {
                Ok(configured) => Link::ready(configured.clone(), entry.may_grant),
                Err(why) => Link::broken(member(entry), why.clone()),
            };
            // The configuration was read only because its scopes are some; what is none here is asked about everything.
            match Scope::new(&entry.agents, &entry.servers) {
                Ok(scope) => link.scoped(scope),
                Err(why) => Link::broken(member(entry), why.to_string()),
            }
        })
    }
}

fn member(entry: &PluginEntry) -> Member {
    Member {
        plugin: entry.name.to_string(),
        component: entry.digest,
        settings: Digest::of(entry.settings_text().as_bytes()),
    }
}

impl Plugins {
    pub(super) fn new(home: Home, engine: Result<Engine, String>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { home, engine, cores, ready: Mutex::default() }
    }

    /// Makes the links for a list. What is ready and set just so is taken over, except what was accepted anew.
    pub(super) fn make(&self, entries: &[PluginEntry], renewed: Option<&PluginName>) -> Made {
        let mut warnings = Vec::new();
        let link = |entry: &PluginEntry| {
            let again = renewed == Some(&entry.name);
            let made = match self.is_ready(entry).filter(|_| !again) {
                Some(configured) => Ok(configured),
                None => self.configure(entry),
            };
            match &made {
                Ok(configured) => warnings.extend(
                    configured
                        .warnings()
                        .iter()
                        .map(|warning| format!("{}: {}: {}", entry.name, warning.path, warning.message)),
                ),
                Err(why) => log::error!("every call that the plugin {} is asked about is refused: {why}", entry.name),
            }
            (entry.clone(), made)
        };
        let links = entries.iter().map(link).collect();
        Made { links, warnings }
    }

    /// Keeps what is in force, for the next chain, and lets go of what is not.
    pub(super) fn keep(&self, made: &Made) {
        let ready = made.links.iter().filter_map(|(entry, made)| Some((entry.clone(), made.clone().ok()?)));
        *self.lock() = ready.collect();
    }

    fn is_ready(&self, entry: &PluginEntry) -> Option<Configured> {
        self.lock().iter().find(|(ready, _)| ready == entry).map(|(_, configured)| configured.clone())
    }

    fn configure(&self, entry: &PluginEntry) -> Result<Configured, String> {
        let engine = self.engine.as_ref().map_err(Clone::clone)?;
        let component = store::read(&self.home, entry).map_err(|error| error.to_string())?;
        let plugin = engine.load(&component).map_err(|error| format!("it does not load: {error}"))?;
        let life = match entry.instance {
            InstanceLife::Fresh => Life::Fresh { ready: INSTANCES_READY },
            InstanceLife::Kept => Life::Kept { instances: self.cores },
        };
        plugin
            .configure(entry.name.as_str(), &entry.settings_text(), life)
            .map_err(|error| format!("its settings do not load: {error}"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(PluginEntry, Configured)>> {
        // What it guards is whole between any two statements.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
