//! The settings, and what is wrong with them.

use callgate_sdk::matching::ToolPattern;
use callgate_sdk::{NAME_FORM, Pointer, SettingsError, SettingsErrors, is_name};
use serde::Deserialize;

use crate::order::Order;
use crate::rule::{Effect, Rule, Target};

/// The most rules: what an index takes stays far below the memory that a plugin may have.
pub const RULES_MAX: usize = 50_000;

/// The plugin's settings: `{"rules": [{"effect": "deny", "tool": "write_file", "agent": "cursor", "server": "fs"}, …]}`, where
/// `"default": true` stands in place of `tool` in a rule about every tool that no other rule names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default)]
    rules: Vec<Entry>,
}

/// A rule as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    effect: Effect,
    tool: Option<String>,
    default: Option<bool>,
    agent: Option<String>,
    server: Option<String>,
}

impl Settings {
    /// The rules and their order, or everything that is wrong with them.
    pub(crate) fn check(self) -> Result<(Vec<Rule>, Order), SettingsErrors> {
        let list = Pointer::root().key("rules");
        if self.rules.len() > RULES_MAX {
            let message = format!("{} rules, where {RULES_MAX} is the most", self.rules.len());
            return Err(vec![SettingsError::new(list, message)]);
        }
        let mut errors = Vec::new();
        let mut rules = Vec::with_capacity(self.rules.len());
        for (index, entry) in self.rules.into_iter().enumerate() {
            match entry.check(&list.clone().index(index)) {
                Ok(rule) => rules.push(rule),
                Err(error) => errors.push(error),
            }
        }
        let order = Order::new(&rules);
        if errors.is_empty() {
            errors = repeated(&rules, &order, &list);
        }
        if errors.is_empty() { Ok((rules, order)) } else { Err(errors) }
    }
}

impl Entry {
    fn check(self, path: &Pointer) -> Result<Rule, SettingsError> {
        for (key, name) in [("agent", &self.agent), ("server", &self.server)] {
            if let Some(name) = name.as_ref().filter(|name| !is_name(name)) {
                let message = format!("{name:?} is no name that {key}s have, so the rule could never fire");
                return Err(SettingsError::new(path.clone().key(key), message).hint(format!("a name is {NAME_FORM}")));
            }
        }
        Ok(Rule {
            effect: self.effect,
            target: target(self.tool, self.default, path)?,
            agent: self.agent,
            server: self.server,
        })
    }
}

fn target(tool: Option<String>, default: Option<bool>, path: &Pointer) -> Result<Target, SettingsError> {
    match (tool, default) {
        (Some(tool), None) => ToolPattern::parse(&tool).map(Target::Tool).map_err(|error| {
            let hint = error.hint();
            let error = SettingsError::new(path.clone().key("tool"), error.to_string());
            SettingsError { hint: hint.map(str::to_owned), ..error }
        }),
        (None, Some(true)) => Ok(Target::Default),
        (None, Some(false)) => Err(SettingsError::new(path.clone().key("default"), "`default` is true or left out")
            .hint("write `default`: true, or name a `tool`")),
        (Some(_), Some(_)) => {
            Err(SettingsError::new(path.clone(), "a rule names a `tool` or is the `default`, not both")
                .hint("write two rules"))
        }
        (None, None) => Err(SettingsError::new(path.clone(), "a rule names a `tool` or is the `default`")
            .hint("add `tool`, or `default`: true for every tool that no other rule names")),
    }
}

/// One rule a tool, agent and server: of two nobody could tell which is meant.
fn repeated(rules: &[Rule], order: &Order, list: &Pointer) -> SettingsErrors {
    // In the order they are written, each with the one before it.
    let mut earlier = vec![None; rules.len()];
    for pair in order.places().windows(2).filter(|pair| rules[pair[0]].key() == rules[pair[1]].key()) {
        earlier[pair[1]] = Some(pair[0]);
    }
    let error = |(place, earlier): (usize, Option<usize>)| {
        let earlier = earlier?;
        let message =
            format!("there is a rule for the same tool, agent and server already: `{}`", rules[earlier].text());
        let hint = format!("remove {} or this one", list.clone().index(earlier));
        Some(SettingsError::new(list.clone().index(place), message).hint(hint))
    };
    earlier.into_iter().enumerate().filter_map(error).collect()
}
