//! `callgate plugin list` and `show`: what the configuration says, what the files are, and, of a daemon that runs, how each is.

use callgate_core::digest::Digest;
use callgate_core::escape::visible;
use callgate_core::identity::PluginName;
use callgate_core::plugin::PluginEntry;
use callgate_ipc::message::{Command, CommandReply, PluginState, Problem};
use serde::Serialize;

use super::load;
use super::remove::not_there;
use crate::cli::Json;
use crate::client::{Client, Reached, unexpected};
use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;
use crate::plugins::asks::{Asks, terms};
use crate::plugins::{shipped, store};

/// One plugin of the chain.
#[derive(Serialize)]
pub(in crate::command) struct Listed {
    pub(in crate::command) name: String,
    shipped: bool,
    digest: Digest,
    /// How the configuration has it; a shipped one is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<PluginEntry>,
    /// Whether the daemon that runs has this very plugin in its chain; absent when none runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<bool>,
    /// What is wrong with it.
    pub(in crate::command) problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Plugins {
    plugins: Vec<Listed>,
}

pub(super) fn list(home: &Home, json: Json) -> Outcome {
    let plugins = all(home)?;
    let exit = if plugins.iter().all(|plugin| plugin.problems.is_empty()) { Exit::Done } else { Exit::No };
    if json.json {
        output::json(&Plugins { plugins })?;
        return Ok(exit);
    }
    for plugin in &plugins {
        output::line(&plugin.text())?;
    }
    Ok(exit)
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    plugin: Listed,
    /// What it says of itself; absent when its file is not the one that was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<Asks>,
}

pub(super) fn show(home: &Home, name: &PluginName, json: Json) -> Outcome {
    let plugin = all(home)?.into_iter().find(|plugin| plugin.name == name.as_str()).ok_or_else(|| not_there(name))?;
    let component = match &plugin.config {
        Some(entry) => store::read(home, entry).ok(),
        None => shipped::component(&plugin.name).map(<[u8]>::to_vec),
    };
    let asks = component.map(|component| load::plugin(&load::engine(home)?, &plugin.name, &component));
    let asks = asks.transpose()?.map(|plugin| Asks::of(&plugin));
    let exit = if plugin.problems.is_empty() { Exit::Done } else { Exit::No };
    let shown = Shown { plugin, asks };
    if json.json {
        output::json(&shown)?;
    } else {
        shown.print()?;
    }
    Ok(exit)
}

/// The chain, in order.
pub(in crate::command) fn all(home: &Home) -> Result<Vec<Listed>, Failure> {
    let config = Config::load(&home.config_file())?;
    let states = match Client::reach(home)? {
        Reached::Ready(mut client) => match client.ask(&Command::Plugins)? {
            CommandReply::Plugins(states) => Some(states),
            _ => return Err(unexpected()),
        },
        Reached::Absent => None,
        other => return Err(other.ready().err().unwrap_or_else(|| Failure::internal("the daemon is not there"))),
    };
    // Of a daemon that runs, those that are in its chain.
    let is_asked = |name: &&str| states.as_ref().is_none_or(|states| states.iter().any(|state| state.name == **name));
    let shipped = shipped::names().filter(is_asked).filter_map(|name| Some((name, shipped::component(name)?)));
    let shipped = shipped.map(|(name, component)| Listed::new(name, Digest::of(component), None, states.as_deref()));
    let own = config.plugins.into_iter().map(|entry| {
        let why = store::read(home, &entry).err();
        let hint = format!("callgate plugin install FILE --name {}", entry.name);
        let mut listed = Listed::new(entry.name.as_str(), entry.digest, Some(entry.clone()), states.as_deref());
        listed.problems.extend(why.map(|why| Problem { problem: why.to_string(), hint }));
        listed
    });
    Ok(shipped.chain(own).collect())
}

impl Listed {
    fn new(name: &str, digest: Digest, config: Option<PluginEntry>, states: Option<&[PluginState]>) -> Self {
        let state = states.and_then(|states| states.iter().find(|state| state.name == name));
        let in_force =
            states.map(|_| state.is_some_and(|state| state.digest == digest && state.is_set_as(config.as_ref())));
        let mut problems = state.map(|state| state.problems.clone()).unwrap_or_default();
        if in_force == Some(false) && config.is_some() {
            problems.push(Problem {
                problem: "it is not in force as callgate.yaml has it".to_owned(),
                hint: "callgate daemon restart".to_owned(),
            });
        }
        Self { name: name.to_owned(), shipped: config.is_none(), digest, config, in_force, problems }
    }

    fn text(&self) -> String {
        let what = match &self.config {
            Some(entry) => entry.to_string(),
            None => format!("{} (shipped)", self.name),
        };
        let problems: Vec<String> =
            self.problems.iter().map(|problem| format!("\n  problem: {}", visible(&problem.to_string()))).collect();
        format!("{}{}", visible(&what), problems.concat())
    }
}

impl Shown {
    fn print(&self) -> Result<(), Failure> {
        output::line(&self.plugin.text())?;
        let asks = self.asks.iter().flat_map(Asks::lines);
        let config = self.plugin.config.iter();
        let terms = config.flat_map(|entry| terms(entry, if entry.may_grant { "yes" } else { "no" }));
        asks.chain(terms).try_for_each(|(word, text)| output::line(&format!("  {word:<9} {text}")))
    }
}
