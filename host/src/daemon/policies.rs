//! The plugins that Callgate ships, loaded, and the chain that the configuration makes of them.

use std::sync::Arc;

use callgate_core::digest::Digest;
use callgate_core::escape::visible;
use callgate_core::evaluate::{ChainDefault, Member};
use callgate_core::plugin::PluginEntry;
use callgate_core::rule::RuleEntry;
use callgate_plugin::{Chain, ConfigureError, Engine, Level, Life, Link, LogBatch, LogSink, Plugin};
use serde::Serialize;

use super::plugins::Plugins;
use crate::home::Home;
use crate::plugins;
use crate::plugins::shipped::RULES;

/// The loaded plugins, and how a chain is made of them.
pub(super) struct Policies {
    rules: Result<Plugin, String>,
    default: ChainDefault,
    /// The operator's own.
    pub(super) plugins: Plugins,
    /// One kept instance a core is as many as can be at work.
    cores: usize,
}

/// A chain, and what a person should look at in its settings.
pub(super) struct Made {
    pub(super) chain: Chain,
    pub(super) warnings: Vec<String>,
}

/// Why there is no chain for some rules.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMade {
    /// The plugin does not take the rules: whoever wrote them can mend that.
    #[error("{0}")]
    Refused(String),
    /// The plugin does not work, whatever the rules are.
    #[error("{0}")]
    Failed(String),
}

impl From<ConfigureError> for NotMade {
    fn from(error: ConfigureError) -> Self {
        match error {
            ConfigureError::Refused(_) | ConfigureError::TooLarge { .. } => Self::Refused(error.to_string()),
            ConfigureError::Failed(_) => Self::Failed(error.to_string()),
        }
    }
}

/// The settings document of the `rules` plugin.
#[derive(Serialize)]
struct RulesSettings<'a> {
    rules: &'a [RuleEntry],
}

impl Policies {
    /// Loads them. What cannot be loaded stays in the chain and denies.
    pub(super) fn load(home: &Home, default: ChainDefault) -> Self {
        let engine = engine(home);
        let load = |engine: &Engine| engine.load(RULES).map_err(|error| error.to_string());
        let rules = engine.as_ref().map_err(Clone::clone).and_then(load);
        if let Err(why) = &rules {
            log::error!("every call is refused: the plugin rules does not load: {why}");
        }
        Self::of(rules, default, Plugins::new(home.clone(), engine))
    }

    /// With the plugin as it is, or why there is none.
    pub(super) fn of(rules: Result<Plugin, String>, default: ChainDefault, plugins: Plugins) -> Self {
        Self { rules, default, plugins, cores: std::thread::available_parallelism().map_or(1, usize::from) }
    }

    /// The chain for these rules. An error leaves the chain that is in force as it is.
    pub(super) fn chain(&self, generation: u64, rules: &[RuleEntry]) -> Result<Made, NotMade> {
        let settings =
            serde_json::to_string(&RulesSettings { rules }).map_err(|error| NotMade::Failed(error.to_string()))?;
        let plugin = self.rules.as_ref().map_err(|why| NotMade::Failed(format!("it does not load: {why}")))?;
        let life = Life::Kept { instances: self.cores };
        let configured = plugin.configure("rules", &settings, life)?;
        let warnings =
            configured.warnings().iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect();
        Ok(Made { chain: Chain::new(generation, self.default, vec![Link::ready(configured, true)]), warnings })
    }

    /// The chain for these rules, or one that denies every call.
    pub(super) fn chain_or_broken(&self, generation: u64, rules: &[RuleEntry]) -> Chain {
        match self.chain(generation, rules) {
            Ok(made) => made.chain,
            Err(error) => {
                log::error!("every call is refused: the rules do not load: {error}");
                Self::broken_chain(generation, &error.to_string())
            }
        }
    }

    /// The same with the operator's plugins behind the shipped one.
    pub(super) fn whole_chain(&self, generation: u64, rules: &[RuleEntry], plugins: &[PluginEntry]) -> Chain {
        let made = self.plugins.make(plugins, None);
        self.plugins.keep(&made);
        self.chain_or_broken(generation, rules).followed_by(made.links())
    }

    /// A chain that denies every call and says why.
    fn broken_chain(generation: u64, why: &str) -> Chain {
        let member = Member { plugin: "rules".to_owned(), component: Digest::of(RULES), settings: Digest::of(b"") };
        Chain::new(generation, ChainDefault::Deny, vec![Link::broken(member, why)])
    }

    /// What is wrong, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        self.rules.as_ref().err().map(|why| format!("the plugin rules does not load: {why}"))
    }
}

fn engine(home: &Home) -> Result<Engine, String> {
    let warn = |why: &str| log::warn!("plugins are compiled anew at each start: {why}");
    plugins::engine(home, Arc::new(PluginLog), warn)
}

/// Hands what plugins write to the daemon's log.
struct PluginLog;

impl LogSink for PluginLog {
    fn take(&self, batch: LogBatch<'_>) {
        for line in batch.lines {
            let level = match line.level {
                Level::Debug => log::Level::Debug,
                Level::Info => log::Level::Info,
                Level::Warn => log::Level::Warn,
                Level::Error => log::Level::Error,
            };
            log::log!(level, "plugin {}: {}", batch.plugin, visible(&line.message));
        }
        if batch.dropped > 0 {
            log::warn!("plugin {}: {} more lines were dropped", batch.plugin, batch.dropped);
        }
    }
}
