//! Scopes: whose calls, and of which servers, a plugin of the chain is asked about.

use callgate_core::identity::Caller;
use callgate_match::{PatternError, ToolPattern};

/// Whose calls, and of which servers. A list of patterns each, of which one has to fit: `*` and `?` as in the names of tools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// `None` for every caller, one whose agent is not established too.
    agents: Option<Vec<ToolPattern>>,
    /// `None` for every server.
    servers: Option<Vec<ToolPattern>>,
}

/// Why a scope is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScopeError {
    /// No call would ever be in it, which could only be meant otherwise.
    #[error("`{list}` names nobody; write [\"*\"] for all")]
    Empty {
        /// `agents` or `servers`.
        list: &'static str,
    },
    /// A pattern is malformed.
    #[error("the pattern {pattern:?} in `{list}`: {cause}")]
    Pattern {
        /// `agents` or `servers`.
        list: &'static str,
        /// As it was written.
        pattern: String,
        /// What is wrong with it.
        cause: PatternError,
    },
}

impl Scope {
    /// Every call.
    pub const EVERYTHING: Self = Self { agents: None, servers: None };

    /// The scope of these patterns. Where `*` is among the `agents`, callers whose agent is not established are in it, and
    /// only then: no other pattern can be meant to name them.
    pub fn new(agents: &[String], servers: &[String]) -> Result<Self, ScopeError> {
        Ok(Self { agents: patterns("agents", agents)?, servers: patterns("servers", servers)? })
    }

    /// Whether a call of this caller is in it.
    pub fn covers(&self, caller: &Caller) -> bool {
        let agent = caller.agent.as_ref().map(|agent| agent.name.as_str());
        fits(self.agents.as_deref(), agent) && fits(self.servers.as_deref(), Some(caller.server.name.as_str()))
    }
}

/// `None` where everything fits.
fn patterns(list: &'static str, written: &[String]) -> Result<Option<Vec<ToolPattern>>, ScopeError> {
    if written.is_empty() {
        return Err(ScopeError::Empty { list });
    }
    let parse = |pattern: &String| {
        ToolPattern::parse(pattern).map_err(|cause| ScopeError::Pattern { list, pattern: pattern.clone(), cause })
    };
    let patterns = written.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    // No name is empty, so what matches the empty one matches all.
    let is_everything = patterns.iter().any(|pattern| pattern.matches(""));
    Ok((!is_everything).then_some(patterns))
}

fn fits(patterns: Option<&[ToolPattern]>, name: Option<&str>) -> bool {
    match (patterns, name) {
        (None, _) => true,
        (Some(patterns), Some(name)) => patterns.iter().any(|pattern| pattern.matches(name)),
        (Some(_), None) => false,
    }
}
