//! The settings, and what is wrong with them.

use std::collections::BTreeMap;

use callgate_sdk::matching::{PatternError, ToolPattern, ValuePattern};
use callgate_sdk::{NAME_FORM, Pointer, SettingsError, SettingsErrors, is_name};
use serde::Deserialize;

use crate::grant::{Constraint, Grant};
use crate::pointer;

/// The most grants: compiled patterns take more time and memory than rules do, and so many, each with a glob and a regex, take
/// half of what configuring may.
pub const GRANTS_MAX: usize = 5_000;

/// The most agents that are named without a grant.
pub const AGENTS_MAX: usize = 10_000;

/// The most arguments that one grant constrains: every one of them is looked for in every call that the grant may allow.
pub const ARGS_MAX: usize = 64;

/// The plugin's settings:
/// `{"grants": [{"agent": "my-agent", "server": "git", "tool": "git_log", "args": {"repo_path": "/home/user/projects/**"}}, …],
/// "agents": ["other-agent", …]}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default)]
    grants: Vec<Entry>,
    /// Agents that get nothing but what is granted, even while nothing is.
    #[serde(default)]
    agents: Vec<String>,
}

/// A grant as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    agent: String,
    server: String,
    #[serde(default = "every_tool")]
    tool: String,
    #[serde(default)]
    args: BTreeMap<String, String>,
}

fn every_tool() -> String {
    "*".to_owned()
}

impl Settings {
    /// The grants and the agents named without one, or everything that is wrong with them.
    pub(crate) fn check(self) -> Result<(Vec<Grant>, Vec<String>), SettingsErrors> {
        let mut errors = Vec::new();
        for (key, count, count_max) in
            [("grants", self.grants.len(), GRANTS_MAX), ("agents", self.agents.len(), AGENTS_MAX)]
        {
            if count > count_max {
                let message = format!("{count} {key}, where {count_max} is the most");
                errors.push(SettingsError::new(Pointer::root().key(key), message));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut grants = Vec::with_capacity(self.grants.len());
        for (place, entry) in self.grants.into_iter().enumerate() {
            grants.extend(entry.check(&pointer(place), &mut errors));
        }
        for (index, agent) in self.agents.iter().enumerate() {
            errors.extend(check_name("agent", agent, Pointer::root().key("agents").index(index)));
        }
        if errors.is_empty() { Ok((grants, self.agents)) } else { Err(errors) }
    }
}

impl Entry {
    /// The grant, unless something is wrong with it.
    fn check(self, path: &Pointer, errors: &mut SettingsErrors) -> Option<Grant> {
        let before = errors.len();
        for (key, name) in [("agent", &self.agent), ("server", &self.server)] {
            errors.extend(check_name(key, name, path.clone().key(key)));
        }
        let tool = ToolPattern::parse(&self.tool);
        let tool = tool.map_err(|error| errors.push(malformed(&error, path.clone().key("tool")))).ok();
        let list = path.clone().key("args");
        if self.args.len() > ARGS_MAX {
            let message = format!("{} arguments, where {ARGS_MAX} is the most", self.args.len());
            errors.push(SettingsError::new(list.clone(), message));
        }
        let mut args = Vec::with_capacity(self.args.len());
        for (name, text) in self.args {
            match ValuePattern::parse(&text) {
                Ok(pattern) => args.push(Constraint { name, pattern }),
                Err(error) => errors.push(malformed(&error, list.clone().key(&name))),
            }
        }
        let grant = Grant { agent: self.agent, server: self.server, tool: tool?, args };
        (errors.len() == before).then_some(grant)
    }
}

fn check_name(what: &str, name: &str, path: Pointer) -> Option<SettingsError> {
    if is_name(name) {
        return None;
    }
    let message = format!("{name:?} is no name that {what}s have, so no call could be meant");
    Some(SettingsError::new(path, message).hint(format!("a name is {NAME_FORM}")))
}

fn malformed(error: &PatternError, path: Pointer) -> SettingsError {
    SettingsError { hint: error.hint().map(str::to_owned), ..SettingsError::new(path, error.to_string()) }
}
