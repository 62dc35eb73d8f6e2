//! The operator's plugins as values: what the configuration says, the journal stores and the chain is made of.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::entry::{Draft, Kind};
use crate::identity::PluginName;

/// Every agent, or every server: a scope that leaves nobody out.
pub const EVERYBODY: &str = "*";

/// How long an instance lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstanceLife {
    /// A fresh one for every call, so that nothing of one call can be seen in the next.
    #[default]
    Fresh,
    /// Kept between calls: faster, for plugins that are trusted to forget.
    Kept,
}

/// One plugin instance that the operator put into the chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// What it is called, in the chain and in every decision of it.
    pub name: PluginName,
    /// The digest of the very component that was accepted; another file is another plugin.
    pub digest: Digest,
    /// Where the component is, from the configuration's folder; without it, in the home's own plugin folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its settings, given to it as JSON text.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// Globs: the agents whose calls it is asked about.
    #[serde(default = "everybody", skip_serializing_if = "is_everybody")]
    pub agents: Vec<String>,
    /// Globs: the servers whose calls it is asked about.
    #[serde(default = "everybody", skip_serializing_if = "is_everybody")]
    pub servers: Vec<String>,
    /// Whether its `allow` counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_grant: bool,
    /// How long its instances live.
    #[serde(default, skip_serializing_if = "is_fresh")]
    pub instance: InstanceLife,
}

/// In words: what it is, whom it is asked about, and whether it may grant.
impl fmt::Display for PluginEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, digest, agents, servers, may_grant, .. } = self;
        write!(f, "{name} ({digest:?})")?;
        for (what, globs) in [("agents", agents), ("servers", servers)] {
            if !is_everybody(globs) {
                write!(f, ", {what} {}", globs.join(" "))?;
            }
        }
        f.write_str(if *may_grant { ", may grant" } else { "" })
    }
}

/// A scope that leaves nobody out.
pub fn everybody() -> Vec<String> {
    vec![EVERYBODY.to_owned()]
}

fn is_everybody(globs: &[String]) -> bool {
    globs == [EVERYBODY]
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_fresh(life: &InstanceLife) -> bool {
    matches!(life, InstanceLife::Fresh)
}

impl PluginEntry {
    /// A component under a name, with everything else as it is unless the operator says otherwise.
    pub fn new(name: PluginName, digest: Digest) -> Self {
        Self {
            name,
            digest,
            file: None,
            settings: Map::new(),
            agents: everybody(),
            servers: everybody(),
            may_grant: false,
            instance: InstanceLife::Fresh,
        }
    }

    /// The settings document that the plugin is configured with. The same settings give the same text, so that its digest
    /// says which they were.
    pub fn settings_text(&self) -> String {
        serde_json::to_string(&self.settings).expect("a JSON object is text")
    }
}

/// One step from one list of plugins to another: an entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PluginStep {
    /// It joins at the end.
    Add(PluginEntry),
    /// It takes the place of the one of its name.
    Change(PluginEntry),
    /// It goes.
    Remove(PluginEntry),
    /// The same plugins in another order.
    Order(Vec<PluginName>),
}

/// The body of a [`Kind::PluginAdd`], [`Kind::PluginChange`] or [`Kind::PluginRemove`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PluginBody {
    /// The plugin as it is from now on; of one that left, as it was.
    pub plugin: PluginEntry,
    /// The chain's generation from the last entry of the same change on.
    pub generation: u64,
}

/// The body of a [`Kind::PluginOrder`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PluginOrderBody {
    /// All of them, in the order they are asked in.
    pub order: Vec<PluginName>,
    /// The chain's generation from the last entry of the same change on.
    pub generation: u64,
}

/// The body of a [`Kind::PluginReset`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PluginResetBody {
    /// The plugin's name in the chain; a shipped one's as well.
    pub plugin: PluginName,
}

/// A list of plugins does not admit a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the plugins before it do not admit this change")]
pub struct NotAdmitted;

impl PluginStep {
    /// The step as an entry of the journal.
    pub fn draft(&self, generation: u64) -> Draft {
        let body = |plugin: &PluginEntry| PluginBody { plugin: plugin.clone(), generation };
        match self {
            Self::Add(plugin) => Draft::of(Kind::PluginAdd, &body(plugin)),
            Self::Change(plugin) => Draft::of(Kind::PluginChange, &body(plugin)),
            Self::Remove(plugin) => Draft::of(Kind::PluginRemove, &body(plugin)),
            Self::Order(order) => Draft::of(Kind::PluginOrder, &PluginOrderBody { order: order.clone(), generation }),
        }
    }

    /// Takes the step.
    pub fn apply(&self, plugins: &mut Vec<PluginEntry>) -> Result<(), NotAdmitted> {
        match self {
            Self::Add(plugin) if place(plugins, &plugin.name).is_err() => plugins.push(plugin.clone()),
            Self::Change(plugin) => {
                let place = place(plugins, &plugin.name)?;
                plugins[place].clone_from(plugin);
            }
            Self::Remove(plugin) => {
                let place = place(plugins, &plugin.name)?;
                if plugins[place] != *plugin {
                    return Err(NotAdmitted);
                }
                plugins.remove(place);
            }
            Self::Order(names) => *plugins = ordered(plugins, names)?,
            Self::Add(_) => return Err(NotAdmitted),
        }
        Ok(())
    }
}

fn place(plugins: &[PluginEntry], name: &PluginName) -> Result<usize, NotAdmitted> {
    plugins.iter().position(|plugin| plugin.name == *name).ok_or(NotAdmitted)
}

/// All of them, in the order of their names.
fn ordered(plugins: &[PluginEntry], names: &[PluginName]) -> Result<Vec<PluginEntry>, NotAdmitted> {
    let places: Vec<usize> = names.iter().map(|name| place(plugins, name)).collect::<Result<_, _>>()?;
    let each_once = places.iter().collect::<BTreeSet<_>>().len() == places.len();
    if !each_once || places.len() != plugins.len() {
        return Err(NotAdmitted);
    }
    Ok(places.into_iter().map(|place| plugins[place].clone()).collect())
}

/// The steps from one list to another. `renewed` was accepted anew and counts as changed even where it is equal.
pub fn steps(before: &[PluginEntry], after: &[PluginEntry], renewed: Option<&PluginName>) -> Vec<PluginStep> {
    let named = |list: &[PluginEntry], name: &PluginName| list.iter().find(|plugin| plugin.name == *name).cloned();
    let gone = before.iter().filter(|plugin| named(after, &plugin.name).is_none());
    let mut steps: Vec<PluginStep> = gone.cloned().map(PluginStep::Remove).collect();
    for plugin in after {
        match named(before, &plugin.name) {
            Some(same) if same == *plugin && renewed != Some(&plugin.name) => {}
            Some(_) => steps.push(PluginStep::Change(plugin.clone())),
            None => steps.push(PluginStep::Add(plugin.clone())),
        }
    }
    let mut reached = before.to_vec();
    let admitted = steps.iter().try_for_each(|step| step.apply(&mut reached));
    debug_assert_eq!(admitted, Ok(()), "steps are made of what differs");
    if !reached.iter().map(|plugin| &plugin.name).eq(after.iter().map(|plugin| &plugin.name)) {
        steps.push(PluginStep::Order(after.iter().map(|plugin| plugin.name.clone()).collect()));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(name: &str, component: &str) -> PluginEntry {
        PluginEntry::new(name.parse().unwrap(), Digest::of(component.as_bytes()))
    }

    fn reached(before: &[PluginEntry], steps: &[PluginStep]) -> Vec<PluginEntry> {
        let mut plugins = before.to_vec();
        for step in steps {
            step.apply(&mut plugins).unwrap();
        }
        plugins
    }

    #[test]
    fn steps_lead_from_any_list_to_any_other() {
        let (a, b, c) = (plugin("a", "1"), plugin("b", "1"), plugin("c", "1"));
        let (a2, b2) = (plugin("a", "2"), plugin("b", "2"));
        let lists = [
            vec![],
            vec![a.clone()],
            vec![a.clone(), b.clone()],
            vec![b.clone(), a.clone()],
            vec![c.clone(), a2.clone()],
            vec![a2, c.clone(), b2],
            vec![b, c, a],
        ];
        for before in &lists {
            for after in &lists {
                let steps = steps(before, after, None);
                assert_eq!(reached(before, &steps), *after, "{steps:?}");
                assert_eq!(steps.is_empty(), before == after);
            }
        }
    }

    #[test]
    fn a_renewed_plugin_is_a_step_although_it_is_the_same() {
        let a = plugin("a", "1");
        let list = std::slice::from_ref(&a);
        assert_eq!(steps(list, list, Some(&a.name)), [PluginStep::Change(a.clone())]);
    }

    #[test]
    fn a_step_that_does_not_follow_is_not_admitted() {
        let (a, b) = (plugin("a", "1"), plugin("b", "1"));
        let odd = [
            PluginStep::Add(a.clone()),
            PluginStep::Change(b.clone()),
            PluginStep::Remove(b.clone()),
            PluginStep::Remove(plugin("a", "2")),
            PluginStep::Order(vec![]),
            PluginStep::Order(vec![b.name]),
        ];
        for step in odd {
            assert_eq!(step.apply(&mut vec![a.clone()]), Err(NotAdmitted), "{step:?}");
        }
    }

    #[test]
    fn only_what_differs_from_the_default_is_written() {
        let mut plugin = plugin("a", "1");
        let digest = plugin.digest;
        assert_eq!(serde_json::to_string(&plugin).unwrap(), format!(r#"{{"name":"a","digest":"{digest}"}}"#));
        plugin.settings.insert("z".to_owned(), 1.into());
        plugin.settings.insert("b".to_owned(), 2.into());
        plugin.agents = vec!["cursor".to_owned()];
        plugin.may_grant = true;
        plugin.instance = InstanceLife::Kept;
        let json = format!(
            r#"{{"name":"a","digest":"{digest}","settings":{{"b":2,"z":1}},"agents":["cursor"],"may_grant":true,"instance":"kept"}}"#
        );
        assert_eq!(serde_json::to_string(&plugin).unwrap(), json);
        assert_eq!(serde_json::from_str::<PluginEntry>(&json).unwrap(), plugin);
        assert_eq!(plugin.settings_text(), r#"{"b":2,"z":1}"#);
    }
}
