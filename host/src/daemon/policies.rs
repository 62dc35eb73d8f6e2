//! The plugins that Callgate ships, loaded, and the chain that the operator's policy makes of them.

use std::sync::Arc;

use callgate_core::digest::Digest;
use callgate_core::escape::visible;
use callgate_core::evaluate::{ChainDefault, Member};
use callgate_core::plugin::PluginEntry;
use callgate_core::policy::{PolicyChange, PolicyItem, PolicyKind};
use callgate_ipc::message::Problem;
use callgate_journal::Policy;
use callgate_plugin::{
    Chain, ConfigureError, Engine, Level, Life, Limits, Link, LogBatch, LogSink, Plugin, SettingsError,
};
use serde_json::json;

use super::plugins::Plugins;
use crate::home::Home;
use crate::plugins::{self, shipped};

/// They are part of the program: what does not load is a folder that cannot be used, or a damaged program.
const LOADING_HINT: &str = "see the daemon's log; if it is not a full disk or a missing folder, install Callgate again";

/// The name of the plugin that charges what budgets count.
pub(super) const BUDGET: &str = "budget";

/// How many instances of a shipped plugin are kept at most. While the settings of all three change, there are twice as many,
/// and other plugins need room as well.
const KEPT_MAX: usize = Limits::SHIPPED.instances / 8;

/// A default plugin: its component, built from plugins/ and committed with a stamp of the sources it came from, and which part
/// of the policy its settings are.
#[derive(Clone, Copy)]
struct Shipped {
    name: &'static str,
    component: &'static [u8],
    /// The items that are its settings.
    kind: PolicyKind,
    /// The key of its settings that lists them.
    list: &'static str,
    /// Whether it has anything to say without an item. One that has not is in the chain once there is one: until then it would
    /// cost each call its asking, and the daemon its instances, to abstain.
    speaks_unasked: bool,
}

/// The default plugins in the order of the chain.
const SHIPPED: [Shipped; 3] = [
    Shipped { name: "rules", component: shipped::RULES, kind: PolicyKind::Rule, list: "rules", speaks_unasked: true },
    Shipped {
        name: BUDGET,
        component: shipped::BUDGET,
        kind: PolicyKind::Budget,
        list: "budgets",
        speaks_unasked: false,
    },
    Shipped {
        name: "arguments",
        component: shipped::ARGUMENTS,
        kind: PolicyKind::Grant,
        list: "grants",
        speaks_unasked: false,
    },
];

/// Where the budget of this number stands in the settings of the plugin that charges it.
pub(super) fn budget_pointer(place: usize) -> String {
    format!("/budgets/{place}")
}

/// The loaded plugins, and how a chain is made of them.
pub(super) struct Policies {
    loaded: Vec<Loaded>,
    default: ChainDefault,
    /// The operator's own.
    pub(super) plugins: Plugins,
    /// One kept instance a core is as many as can be at work.
    instances: usize,
}

struct Loaded {
    shipped: Shipped,
    plugin: Result<Plugin, String>,
}

/// A chain, and what a person should look at in what has changed.
pub(super) struct Made {
    pub(super) chain: Chain,
    pub(super) warnings: Vec<String>,
}

/// Why there is no chain for a changed policy.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMade {
    /// The plugin does not take it: whoever wrote it can mend that.
    #[error("the {plugin} plugin does not take this {kind}: {why}")]
    Refused {
        /// The plugin.
        plugin: &'static str,
        /// What changed.
        kind: PolicyKind,
        /// What is wrong with it.
        why: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// The plugin does not work, whatever the policy is.
    #[error("the {plugin} plugin does not work, so no {kind} can be changed: {why}")]
    Failed {
        /// The plugin.
        plugin: &'static str,
        /// What should have changed.
        kind: PolicyKind,
        /// Why it does not.
        why: String,
    },
}

impl Policies {
    /// Loads the plugins. What cannot be loaded stays in the chain and denies.
    pub(super) fn load(home: &Home, default: ChainDefault) -> Self {
        let engine = engine(home);
        let load = |component: &[u8]| {
            engine.clone().and_then(|engine| engine.load(component).map_err(|error| error.to_string()))
        };
        let policies = Self::of(load, default, Plugins::new(home.clone(), engine.clone()));
        for problem in policies.problems() {
            log::error!("{problem}");
        }
        policies
    }

    /// With the plugins as `load` makes them of their components, or why it does not.
    pub(super) fn of(load: impl Fn(&[u8]) -> Result<Plugin, String>, default: ChainDefault, plugins: Plugins) -> Self {
        let loaded = SHIPPED.into_iter().map(|shipped| Loaded { shipped, plugin: load(shipped.component) }).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { loaded, default, plugins, instances: cores.min(KEPT_MAX) }
    }

    /// The chain for a policy that `changes` made of the one that `current` is for. What they do not touch is taken over as it
    /// is. An error leaves the chain that is in force as it is.
    pub(super) fn changed(
        &self,
        policy: &Policy,
        changes: &[PolicyChange],
        plugins: &[PluginEntry],
        current: &Chain,
    ) -> Result<Made, NotMade> {
        let mut warnings = Vec::new();
        let links = self.asked(policy).map(|loaded| {
            if changes.iter().all(|change| change.kind() != loaded.shipped.kind) {
                return Ok(self.link(loaded, policy, current));
            }
            let link = self.configured(loaded, &loaded.shipped.settings(&policy.items));
            let link = link.map_err(|unready| loaded.shipped.not_made(unready, &policy.items))?;
            // What a removal leaves was looked at when it was added.
            if changes.iter().any(|change| matches!(change, PolicyChange::Add(_))) {
                warnings.extend(loaded.shipped.new_warnings(&link, current));
            }
            Ok(link)
        });
        let chain = Chain::new(policy.generation, self.default, links.collect::<Result<_, _>>()?);
        Ok(Made { chain: chain.followed_by(self.own(plugins)), warnings })
    }

    /// The chain for a policy and the operator's plugins; a plugin that is not ready for it denies every call. What `current` has
    /// of it is taken over.
    pub(super) fn chain(&self, policy: &Policy, plugins: &[PluginEntry], current: Option<&Chain>) -> Chain {
        self.shipped(policy, current).followed_by(self.own(plugins))
    }

    /// The operator's plugins, as they are or made ready.
    fn own(&self, plugins: &[PluginEntry]) -> Vec<Link> {
        let made = self.plugins.make(plugins, None);
        self.plugins.keep(&made);
        made.links().collect()
    }

    /// The default plugins' part of [`Self::chain`].
    pub(super) fn shipped(&self, policy: &Policy, current: Option<&Chain>) -> Chain {
        let nothing = Chain::new(0, self.default, Vec::new());
        let current = current.unwrap_or(&nothing);
        let links = self.asked(policy).map(|loaded| self.link(loaded, policy, current)).collect();
        Chain::new(policy.generation, self.default, links)
    }

    /// The default plugins that have anything to say under a policy.
    fn asked<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = &'a Loaded> {
        let has = |kind: PolicyKind| policy.items.iter().any(|item| item.kind() == kind);
        self.loaded.iter().filter(move |Loaded { shipped, .. }| shipped.speaks_unasked || has(shipped.kind))
    }

    fn link(&self, loaded: &Loaded, policy: &Policy, current: &Chain) -> Link {
        let Loaded { shipped, .. } = loaded;
        let settings = shipped.settings(&policy.items);
        let member = shipped.member(&settings);
        // An instance is a function of its component and its settings, so that one of the same is the same.
        let same = current.links().iter().find(|link| *link.member() == member && link.why_broken().is_none());
        if let Some(link) = same {
            return link.clone();
        }
        self.configured(loaded, &settings).unwrap_or_else(|unready| {
            let why = unready.to_string();
            log::error!("every call is refused: the plugin {} is not ready: {why}", shipped.name);
            Link::broken(member, why)
        })
    }

    fn configured(&self, Loaded { shipped, plugin }: &Loaded, settings: &str) -> Result<Link, Unready> {
        let plugin = plugin.as_ref().map_err(|why| Unready::NotLoaded(why.clone()))?;
        let life = Life::Kept { instances: self.instances };
        // They are part of Callgate: what they allow counts, though the budget plugin never does.
        Ok(Link::ready(plugin.configure(shipped.name, settings, life)?, true))
    }

    /// What is wrong, if anything.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.loaded.iter().filter_map(|Loaded { shipped, plugin }| {
            let problem = |why| format!("the plugin {} does not load: {why}", shipped.name);
            plugin.as_ref().err().map(|why| Problem { problem: problem(why), hint: LOADING_HINT.to_owned() })
        })
    }
}

/// Why a plugin is not ready.
#[derive(Debug, thiserror::Error)]
enum Unready {
    #[error("it does not load: {0}")]
    NotLoaded(String),
    #[error(transparent)]
    NotConfigured(#[from] ConfigureError),
}

impl Shipped {
    /// Its part of the policy as its settings document.
    fn settings(&self, items: &[PolicyItem]) -> String {
        let listed = items.iter().filter(|item| item.kind() == self.kind).map(|item| match item {
            PolicyItem::Rule(rule) => json!(rule),
            PolicyItem::Budget(budget) => json!(budget),
            PolicyItem::Grant(grant) => json!(grant),
        });
        json!({ self.list: listed.collect::<Vec<_>>() }).to_string()
    }

    fn member(&self, settings: &str) -> Member {
        Member {
            plugin: self.name.to_owned(),
            component: Digest::of(self.component),
            settings: Digest::of(settings.as_bytes()),
        }
    }

    /// What is said of a link's settings and was not said before. A change adds behind what was there, so that what is said of
    /// an older item is said in the same words.
    fn new_warnings(&self, link: &Link, current: &Chain) -> Vec<String> {
        let before = current.links().iter().find(|before| before.member().plugin == self.name);
        let before = before.map_or(&[][..], Link::warnings);
        let new = link.warnings().iter().filter(|warning| !before.contains(warning));
        new.map(|warning| format!("{}: {}", warning.path, warning.message)).collect()
    }

    fn not_made(&self, unready: Unready, items: &[PolicyItem]) -> NotMade {
        let Self { name: plugin, kind, .. } = *self;
        match unready {
            Unready::NotConfigured(ConfigureError::Refused(refused)) => {
                let newest = items.iter().filter(|item| item.kind() == kind).count().saturating_sub(1);
                let newest = format!("/{}/{newest}", self.list);
                let why: Vec<String> = refused.errors().iter().map(|error| told(error, &newest)).collect();
                let hint = refused.errors().iter().find_map(|error| error.hint.as_deref());
                NotMade::Refused {
                    plugin,
                    kind,
                    why: why.join("; "),
                    hint: hint.map(|hint| visible(hint).into_owned()),
                }
            }
            Unready::NotConfigured(error @ ConfigureError::TooLarge { .. }) => {
                NotMade::Refused { plugin, kind, why: error.to_string(), hint: None }
            }
            unready @ (Unready::NotLoaded(_) | Unready::NotConfigured(ConfigureError::Failed(_))) => {
                NotMade::Failed { plugin, kind, why: unready.to_string() }
            }
        }
    }
}

/// What is wrong, with its place in the newest item instead of in all settings.
fn told(SettingsError { path, message, .. }: &SettingsError, newest: &str) -> String {
    let place = path.strip_prefix(newest).map_or(path.as_str(), |place| place.trim_start_matches('/'));
    let place = if place.is_empty() { String::new() } else { format!("{}: ", visible(place)) };
    format!("{place}{}", visible(message))
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
