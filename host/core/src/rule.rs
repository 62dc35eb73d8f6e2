//! The operator's rules as values: what the journal stores and the `rules` plugin is configured with.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::escape;
use crate::identity::{AgentName, ServerName};
use crate::settle::Word;

/// What a rule is about.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Target {
    /// A tool's exact name, or a glob (`*` any text, `?` one character).
    Tool(String),
    /// Every tool that no other rule names.
    Default,
}

/// What makes a rule one of a kind: at most one rule per target, agent and server.
///
/// As JSON `{"tool":"x"}` or `{"default":true}`, with `agent` and `server` where it names them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "KeyForm", into = "KeyForm")]
pub struct RuleKey {
    /// What it is about.
    pub target: Target,
    /// Only this agent.
    pub agent: Option<AgentName>,
    /// Only this server.
    pub server: Option<ServerName>,
}

/// One rule. As JSON its key's with an `effect` before it: `{"effect":"deny","tool":"x"}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "EntryForm", into = "EntryForm")]
pub struct RuleEntry {
    /// allow, deny or ask
    pub effect: Word,
    /// What it is about.
    pub key: RuleKey,
}

/// A rule that is about a tool and is the default as well, or neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a rule has either a `tool` or `default: true`")]
pub struct NotOneTarget;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    default: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<AgentName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<ServerName>,
}

/// Written out beside [`KeyForm`]: serde's `flatten` knows no unknown fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryForm {
    effect: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    default: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<AgentName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<ServerName>,
}

impl From<RuleKey> for KeyForm {
    fn from(RuleKey { target, agent, server }: RuleKey) -> Self {
        let (tool, default) = match target {
            Target::Tool(tool) => (Some(tool), false),
            Target::Default => (None, true),
        };
        Self { tool, default, agent, server }
    }
}

impl TryFrom<KeyForm> for RuleKey {
    type Error = NotOneTarget;

    fn try_from(KeyForm { tool, default, agent, server }: KeyForm) -> Result<Self, NotOneTarget> {
        let target = match (tool, default) {
            (Some(tool), false) => Target::Tool(tool),
            (None, true) => Target::Default,
            (Some(_), true) | (None, false) => return Err(NotOneTarget),
        };
        Ok(Self { target, agent, server })
    }
}

impl From<RuleEntry> for EntryForm {
    fn from(RuleEntry { effect, key }: RuleEntry) -> Self {
        let KeyForm { tool, default, agent, server } = key.into();
        Self { effect, tool, default, agent, server }
    }
}

impl TryFrom<EntryForm> for RuleEntry {
    type Error = NotOneTarget;

    fn try_from(EntryForm { effect, tool, default, agent, server }: EntryForm) -> Result<Self, NotOneTarget> {
        Ok(Self { effect, key: KeyForm { tool, default, agent, server }.try_into()? })
    }
}

impl RuleKey {
    /// The key as the command line takes it, for a shell: `'write_*' --server fs`, `--default --agent cursor`.
    pub fn as_arguments(&self) -> String {
        let target = match &self.target {
            Target::Tool(tool) => escape::for_shell(tool),
            Target::Default => "--default".to_owned(),
        };
        format!("{target}{}", scope_arguments(self.agent.as_ref(), self.server.as_ref()))
    }
}

/// What an item is for, as the command line takes it behind something else.
pub(crate) fn scope_arguments(agent: Option<&AgentName>, server: Option<&ServerName>) -> String {
    let agent = agent.map(|agent| format!(" --agent {agent}")).unwrap_or_default();
    let server = server.map(|server| format!(" --server {server}")).unwrap_or_default();
    agent + &server
}

/// What an item is for, as a person would say it behind something else.
pub(crate) fn scope_text(agent: Option<&AgentName>, server: Option<&ServerName>) -> String {
    match (agent, server) {
        (None, None) => String::new(),
        (Some(agent), None) => format!(" (agent {agent})"),
        (None, Some(server)) => format!(" (server {server})"),
        (Some(agent), Some(server)) => format!(" (agent {agent}, server {server})"),
    }
}

impl fmt::Display for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Tool(tool) => f.write_str(&escape::visible(tool))?,
            Target::Default => f.write_str("every other tool")?,
        }
        f.write_str(&scope_text(self.agent.as_ref(), self.server.as_ref()))
    }
}

impl fmt::Display for RuleEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Word::Deny => "deny",
            Word::Ask => "ask",
            Word::Allow => "allow",
        };
        write!(f, "{effect} {}", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(target: Target, agent: Option<&str>, server: Option<&str>) -> RuleEntry {
        let agent = agent.map(|name| name.parse().unwrap());
        let server = server.map(|name| name.parse().unwrap());
        RuleEntry { effect: Word::Deny, key: RuleKey { target, agent, server } }
    }

    #[test]
    fn rules_have_one_json_form_and_read_it_back() {
        let x = || Target::Tool("x*".to_owned());
        let forms = [
            (rule(x(), None, None), r#"{"effect":"deny","tool":"x*"}"#),
            (rule(x(), Some("a"), Some("s")), r#"{"effect":"deny","tool":"x*","agent":"a","server":"s"}"#),
            (rule(Target::Default, None, None), r#"{"effect":"deny","default":true}"#),
            (rule(Target::Default, None, Some("s")), r#"{"effect":"deny","default":true,"server":"s"}"#),
            (rule(Target::Tool("default".to_owned()), None, None), r#"{"effect":"deny","tool":"default"}"#),
        ];
        for (rule, json) in forms {
            assert_eq!(serde_json::to_string(&rule).unwrap(), json);
            assert_eq!(serde_json::from_str::<RuleEntry>(json).unwrap(), rule);
            let key = json.replace(r#""effect":"deny","#, "");
            assert_eq!(serde_json::to_string(&rule.key).unwrap(), key);
            assert_eq!(serde_json::from_str::<RuleKey>(&key).unwrap(), rule.key);
        }
    }

    #[test]
    fn a_rule_has_one_target_and_no_other_fields() {
        let odd = [
            r#"{"effect":"deny"}"#,
            r#"{"effect":"deny","default":false}"#,
            r#"{"effect":"deny","tool":"x","default":true}"#,
            r#"{"effect":"deny","tool":null}"#,
            r#"{"effect":"deny","tool":"x","toool":"y"}"#,
            r#"{"effect":"deny","tool":"x","server":"-"}"#,
            r#"{"effect":"never","tool":"x"}"#,
            r#"{"tool":"x"}"#,
        ];
        for json in odd {
            assert!(serde_json::from_str::<RuleEntry>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_rule_is_shown_as_a_person_would_say_it() {
        assert_eq!(rule(Target::Tool("x".to_owned()), Some("a"), Some("s")).to_string(), "deny x (agent a, server s)");
        assert_eq!(rule(Target::Default, None, None).to_string(), "deny every other tool");
        assert_eq!(rule(Target::Tool("x\u{202e}".to_owned()), None, None).to_string(), r"deny x\u{202e}");
    }
}
