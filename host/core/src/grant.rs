//! The operator's grants as values: what the journal stores and the `arguments` plugin is configured with.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::escape;
use crate::identity::{AgentName, ServerName};

/// What an agent may do with a server's tools. A call is allowed by any one grant whose tool and arguments fit it, so two
/// grants may differ in nothing but their patterns, and a grant is known by all that it says: it is its own key.
///
/// As JSON `{"agent":"a","server":"s","tool":"x"}`, with `args` from names to patterns where it has any.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantEntry {
    /// The agent that may call.
    pub agent: AgentName,
    /// The server whose tools it may call.
    pub server: ServerName,
    /// A tool's exact name, or a glob (`*` any text, `?` one character).
    pub tool: String,
    /// What an argument has to match where a call has it, by the argument's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
}

/// Some grants of one agent and server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrantsOf {
    /// The agent.
    pub agent: AgentName,
    /// The server.
    pub server: ServerName,
    /// Only those for this tool, as they name it.
    pub tool: Option<String>,
}

impl GrantsOf {
    /// Whether a grant is one of them.
    pub fn has(&self, grant: &GrantEntry) -> bool {
        let Self { agent, server, tool } = self;
        grant.agent == *agent && grant.server == *server && tool.as_ref().is_none_or(|tool| grant.tool == *tool)
    }
}

impl GrantEntry {
    /// What revokes it, for a shell: `my-agent git --tool 'git_log'`.
    pub fn as_arguments(&self) -> String {
        format!("{} {} --tool {}", self.agent, self.server, escape::for_shell(&self.tool))
    }
}

impl fmt::Display for GrantEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agent, server, tool, args } = self;
        write!(f, "{} on {server} (agent {agent}", escape::visible(tool))?;
        for (name, pattern) in args {
            write!(f, ", {}={}", escape::visible(name), escape::visible(pattern))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(args: &[(&str, &str)]) -> GrantEntry {
        GrantEntry {
            agent: "my-agent".parse().unwrap(),
            server: "git".parse().unwrap(),
            tool: "git_*".to_owned(),
            args: args.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned())).collect(),
        }
    }

    #[test]
    fn grants_have_one_json_form_and_read_it_back() {
        let forms = [
            (grant(&[]), r#"{"agent":"my-agent","server":"git","tool":"git_*"}"#),
            (
                grant(&[("b", "1"), ("a.b", "re:^x")]),
                r#"{"agent":"my-agent","server":"git","tool":"git_*","args":{"a.b":"re:^x","b":"1"}}"#,
            ),
        ];
        for (grant, json) in forms {
            assert_eq!(serde_json::to_string(&grant).unwrap(), json);
            assert_eq!(serde_json::from_str::<GrantEntry>(json).unwrap(), grant);
        }
    }

    #[test]
    fn a_grant_names_agent_server_and_tool_and_has_no_other_fields() {
        let odd = [
            r#"{"server":"git","tool":"*"}"#,
            r#"{"agent":"a","tool":"*"}"#,
            r#"{"agent":"a","server":"git"}"#,
            r#"{"agent":"*","server":"git","tool":"*"}"#,
            r#"{"agent":"a","server":"git","tool":"*","args":{"x":1}}"#,
            r#"{"agent":"a","server":"git","tool":"*","arguments":{}}"#,
        ];
        for json in odd {
            assert!(serde_json::from_str::<GrantEntry>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_grant_is_shown_as_a_person_would_say_it() {
        assert_eq!(grant(&[]).to_string(), "git_* on git (agent my-agent)");
        let constrained = grant(&[("path", "/srv/\u{202e}**"), ("a", "x")]);
        assert_eq!(constrained.to_string(), r"git_* on git (agent my-agent, a=x, path=/srv/\u{202e}**)");
        assert_eq!(constrained.as_arguments(), "my-agent git --tool 'git_*'");
    }

    #[test]
    fn grants_are_found_by_agent_server_and_the_tool_as_it_was_written() {
        let of = |agent: &str, server: &str, tool: Option<&str>| GrantsOf {
            agent: agent.parse().unwrap(),
            server: server.parse().unwrap(),
            tool: tool.map(str::to_owned),
        };
        let grant = grant(&[("path", "/x")]);
        assert!(of("my-agent", "git", None).has(&grant) && of("my-agent", "git", Some("git_*")).has(&grant));
        for other in [
            of("my-agent", "git", Some("git_log")),
            of("my-agent", "git", Some("*")),
            of("my-agent", "fs", None),
            of("other", "git", None),
        ] {
            assert!(!other.has(&grant), "{other:?}");
        }
    }
}
