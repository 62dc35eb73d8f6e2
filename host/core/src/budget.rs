//! The operator's budgets as values: what the journal stores and the `budget` plugin is configured with.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::charge::{QUANTITY_MAX, Subject};
use crate::escape;
use crate::identity::{AgentName, ServerName};
use crate::rule;

/// Which tools' calls a budget counts together.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Tools {
    /// Those of a tool's exact name, or of a glob (`*` any text, `?` one character).
    Named(String),
    /// Those of every tool.
    All,
}

/// What makes a budget one of a kind: at most one limit on what is counted.
///
/// As JSON `{"tool":"x"}` or `{"all_tools":true}`, with `agent` and `server` where it names them, and `per` where what is
/// counted is not each session's own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "KeyForm", into = "KeyForm")]
pub struct BudgetKey {
    /// Which tools' calls.
    pub tools: Tools,
    /// Only this agent's.
    pub agent: Option<AgentName>,
    /// Only those to this server.
    pub server: Option<ServerName>,
    /// Whose calls are counted together.
    pub per: Subject,
}

/// One budget. As JSON its key's with a `limit` before it: `{"limit":20,"tool":"x"}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "EntryForm", into = "EntryForm")]
pub struct BudgetEntry {
    /// How many calls may be forwarded.
    pub limit: Limit,
    /// Which calls.
    pub key: BudgetKey,
}

/// How many calls a budget lets through: 1 to [`QUANTITY_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Limit(u64);

/// No limit of a budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLimit {
    /// It lets nothing through, which is a rule's to say.
    #[error("a budget of 0 lets no call through")]
    Zero,
    /// It is no whole number, or out of bounds.
    #[error("{0:?} is no limit: a limit is a whole number from 1 to {QUANTITY_MAX}")]
    NotALimit(String),
}

impl TryFrom<u64> for Limit {
    type Error = BadLimit;

    fn try_from(limit: u64) -> Result<Self, BadLimit> {
        match limit {
            0 => Err(BadLimit::Zero),
            1..=QUANTITY_MAX => Ok(Self(limit)),
            _ => Err(BadLimit::NotALimit(limit.to_string())),
        }
    }
}

impl std::str::FromStr for Limit {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let limit = text.parse::<u64>().ok().filter(|_| digits);
        limit.ok_or_else(|| BadLimit::NotALimit(text.to_owned())).and_then(Self::try_from)
    }
}

impl From<Limit> for u64 {
    fn from(limit: Limit) -> Self {
        limit.0
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A budget that counts one tool's calls and all tools' as well, or neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a budget has either a `tool` or `all_tools: true`")]
pub struct NotOneCount;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    all_tools: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<AgentName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<ServerName>,
    #[serde(default = "each_session", skip_serializing_if = "is_each_session")]
    per: Subject,
}

/// Written out beside [`KeyForm`]: serde's `flatten` knows no unknown fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryForm {
    limit: Limit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    all_tools: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<AgentName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<ServerName>,
    #[serde(default = "each_session", skip_serializing_if = "is_each_session")]
    per: Subject,
}

const fn each_session() -> Subject {
    Subject::Session
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_each_session(per: &Subject) -> bool {
    matches!(per, Subject::Session)
}

impl From<BudgetKey> for KeyForm {
    fn from(BudgetKey { tools, agent, server, per }: BudgetKey) -> Self {
        let (tool, all_tools) = match tools {
            Tools::Named(tool) => (Some(tool), false),
            Tools::All => (None, true),
        };
        Self { tool, all_tools, agent, server, per }
    }
}

impl TryFrom<KeyForm> for BudgetKey {
    type Error = NotOneCount;

    fn try_from(KeyForm { tool, all_tools, agent, server, per }: KeyForm) -> Result<Self, NotOneCount> {
        let tools = match (tool, all_tools) {
            (Some(tool), false) => Tools::Named(tool),
            (None, true) => Tools::All,
            (Some(_), true) | (None, false) => return Err(NotOneCount),
        };
        Ok(Self { tools, agent, server, per })
    }
}

impl From<BudgetEntry> for EntryForm {
    fn from(BudgetEntry { limit, key }: BudgetEntry) -> Self {
        let KeyForm { tool, all_tools, agent, server, per } = key.into();
        Self { limit, tool, all_tools, agent, server, per }
    }
}

impl TryFrom<EntryForm> for BudgetEntry {
    type Error = NotOneCount;

    fn try_from(form: EntryForm) -> Result<Self, NotOneCount> {
        let EntryForm { limit, tool, all_tools, agent, server, per } = form;
        Ok(Self { limit, key: KeyForm { tool, all_tools, agent, server, per }.try_into()? })
    }
}

impl BudgetKey {
    /// The key as the command line takes it, for a shell: `--tool 'list_*' --server fs`, `--all-tools --shared-by everyone`.
    pub fn as_arguments(&self) -> String {
        let tools = match &self.tools {
            Tools::Named(tool) => format!("--tool {}", escape::for_shell(tool)),
            Tools::All => "--all-tools".to_owned(),
        };
        let shared_by = match self.per {
            Subject::Session => "",
            Subject::Agent => " --shared-by agent",
            Subject::Everyone => " --shared-by everyone",
        };
        format!("{tools}{}{shared_by}", rule::scope_arguments(self.agent.as_ref(), self.server.as_ref()))
    }

    /// What is counted, behind a number of it.
    fn counted(&self) -> String {
        let tool = match &self.tools {
            Tools::Named(tool) => format!(" of {}", escape::visible(tool)),
            Tools::All => String::new(),
        };
        let whose = match self.per {
            Subject::Session => "a session",
            Subject::Agent => "an agent",
            Subject::Everyone => "for everyone",
        };
        format!("{tool} {whose}{}", rule::scope_text(self.agent.as_ref(), self.server.as_ref()))
    }
}

impl fmt::Display for BudgetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "calls{}", self.counted())
    }
}

impl fmt::Display for BudgetEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = if self.limit.0 == 1 { "call" } else { "calls" };
        write!(f, "at most {} {calls}{}", self.limit, self.key.counted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(tools: Tools, agent: Option<&str>, server: Option<&str>, per: Subject) -> BudgetEntry {
        let agent = agent.map(|name| name.parse().unwrap());
        let server = server.map(|name| name.parse().unwrap());
        BudgetEntry { limit: Limit(20), key: BudgetKey { tools, agent, server, per } }
    }

    fn named(tool: &str) -> Tools {
        Tools::Named(tool.to_owned())
    }

    #[test]
    fn budgets_have_one_json_form_and_read_it_back() {
        let forms = [
            (budget(named("x*"), None, None, Subject::Session), r#"{"limit":20,"tool":"x*"}"#),
            (budget(Tools::All, None, None, Subject::Session), r#"{"limit":20,"all_tools":true}"#),
            (
                budget(named("x"), Some("a"), Some("s"), Subject::Agent),
                r#"{"limit":20,"tool":"x","agent":"a","server":"s","per":"agent"}"#,
            ),
            (
                budget(Tools::All, None, Some("s"), Subject::Everyone),
                r#"{"limit":20,"all_tools":true,"server":"s","per":"everyone"}"#,
            ),
        ];
        for (budget, json) in forms {
            assert_eq!(serde_json::to_string(&budget).unwrap(), json);
            assert_eq!(serde_json::from_str::<BudgetEntry>(json).unwrap(), budget);
            let key = json.replace(r#""limit":20,"#, "");
            assert_eq!(serde_json::to_string(&budget.key).unwrap(), key);
            assert_eq!(serde_json::from_str::<BudgetKey>(&key).unwrap(), budget.key);
        }
    }

    #[test]
    fn a_budget_has_a_limit_one_count_and_no_other_fields() {
        let odd = [
            r#"{"tool":"x"}"#,
            r#"{"limit":20}"#,
            r#"{"limit":20,"all_tools":false}"#,
            r#"{"limit":20,"tool":"x","all_tools":true}"#,
            r#"{"limit":20,"tool":null}"#,
            r#"{"limit":0,"tool":"x"}"#,
            r#"{"limit":-1,"tool":"x"}"#,
            r#"{"limit":1.5,"tool":"x"}"#,
            r#"{"limit":"20","tool":"x"}"#,
            r#"{"limit":9007199254740993,"tool":"x"}"#,
            r#"{"limit":20,"tool":"x","per":"nobody"}"#,
            r#"{"limit":20,"tool":"x","window":"lifetime"}"#,
            r#"{"limit":20,"tool":"x","agent":"-"}"#,
        ];
        for json in odd {
            assert!(serde_json::from_str::<BudgetEntry>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_limit_is_a_whole_number_that_lets_something_through() {
        assert_eq!("20".parse(), Ok(Limit(20)));
        assert_eq!("9007199254740992".parse(), Ok(Limit(QUANTITY_MAX)));
        assert_eq!("0".parse::<Limit>(), Err(BadLimit::Zero));
        for odd in ["", "-1", "+1", "1.5", "1e3", " 1", "ten", "9007199254740993", "99999999999999999999"] {
            assert_eq!(odd.parse::<Limit>(), Err(BadLimit::NotALimit(odd.to_owned())));
        }
    }

    #[test]
    fn a_budget_is_shown_as_a_person_would_say_it() {
        let one = BudgetEntry { limit: Limit(1), ..budget(named("x"), Some("a"), Some("s"), Subject::Session) };
        assert_eq!(one.to_string(), "at most 1 call of x a session (agent a, server s)");
        assert_eq!(one.key.to_string(), "calls of x a session (agent a, server s)");
        let shared = budget(Tools::All, None, None, Subject::Everyone);
        assert_eq!(shared.to_string(), "at most 20 calls for everyone");
        assert_eq!(shared.key.as_arguments(), "--all-tools --shared-by everyone");
        assert_eq!(one.key.as_arguments(), "--tool 'x' --agent a --server s");
    }
}
