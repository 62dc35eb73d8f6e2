//! Case tables: settings, calls and what is expected of each, held against a plugin as it answers here.
//!
//! A table is a JSON list. Each element is a settings document with one key more, `calls`: a list of `server`, `tool`,
//! `agent` (left out for one that is not established), `arguments`, and `expect`, the verdict as a word. Where a call says
//! `rule`, it is the index that the rule's pointer ends in, null for no rule; `policy` is the rule's policy; `because` is
//! what a denial of the plugin `arguments` is about.

use callgate_core::call::Call;
use callgate_core::identity::{AgentName, ServerName};
use callgate_core::verdict::{Answer, Failure, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::asked::Asked;

/// One element of a table.
#[derive(Debug)]
pub(crate) struct Set {
    /// The settings document.
    pub(crate) settings: String,
    /// What is expected under these.
    pub(crate) cases: Vec<Case>,
}

/// One call and what is expected of it.
#[derive(Deserialize, Debug)]
pub(crate) struct Case {
    server: ServerName,
    tool: String,
    agent: Option<AgentName>,
    arguments: Option<Box<RawValue>>,
    expect: String,
    #[serde(default)]
    rule: Expected<usize>,
    #[serde(default)]
    policy: Expected<String>,
    because: Option<String>,
}

/// Something that a case may say, and may say is not there.
#[derive(Deserialize, Debug, Default)]
#[serde(from = "Option<T>", bound = "T: Deserialize<'de>")]
enum Expected<T> {
    /// The case says nothing of it.
    #[default]
    Any,
    Just(T),
    Nothing,
}

impl<T> From<Option<T>> for Expected<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Self::Just)
    }
}

/// How the settings of a set stand in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// As they are.
    Plain,
    /// Of the plugin `arguments`, whose tables take every agent that calls for one under the plugin.
    Arguments,
}

/// What a denial of `arguments` is about, and its code.
const BECAUSE: [(&str, &str); 2] = [("tool", "no-grant"), ("argument", "argument")];

/// Reads a table from JSON text.
pub(crate) fn read(json: &str, dialect: Dialect) -> Result<Vec<Set>, serde_json::Error> {
    let elements: Vec<Map<String, Value>> = serde_json::from_str(json)?;
    // The calls once more, from the text: their arguments are what they are, down to the spelling of a number.
    let written: Vec<Calls> = serde_json::from_str(json)?;
    let set = |(mut settings, Calls { calls }): (Map<String, Value>, Calls)| {
        settings.remove("calls");
        if dialect == Dialect::Arguments && !settings.contains_key("agents") {
            let mut agents: Vec<&str> = calls.iter().filter_map(|case| Some(case.agent.as_ref()?.as_str())).collect();
            agents.sort_unstable();
            agents.dedup();
            settings.insert("agents".to_owned(), agents.into());
        }
        Ok(Set { settings: serde_json::to_string(&settings)?, cases: calls })
    };
    elements.into_iter().zip(written).map(set).collect()
}

#[derive(Deserialize)]
struct Calls {
    #[serde(default)]
    calls: Vec<Case>,
}

impl Case {
    /// The call.
    pub(crate) fn call(&self) -> Result<Call, String> {
        let Self { server, tool, agent, arguments, .. } = self;
        let (server, agent) = (Some(server.clone()), agent.clone());
        Asked { server, tool: tool.clone(), agent, arguments: arguments.clone() }.call()
    }

    /// In what the answer differs from what is expected; `None` when it does not.
    pub(crate) fn mismatch(&self, outcome: &Result<Answer, Failure>) -> Option<String> {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(failure) => return Some(format!("expected {}, but {failure}", self.expect)),
        };
        let verdict = word(&answer.verdict);
        // `human_approval` is what the dialect `policies` calls an ask.
        let expected = if self.expect == "human_approval" { "ask" } else { &self.expect };
        if expected != verdict {
            return Some(format!("expected {}, not {verdict}", self.expect));
        }
        let rule = answer.rule.as_ref();
        let index = rule.map(|rule| rule.path.rsplit('/').next().unwrap_or_default());
        let policy = rule.and_then(|rule| rule.policy.as_deref());
        self.rule
            .mismatch("the rule", index)
            .or_else(|| self.policy.mismatch("the policy", policy))
            .or_else(|| self.other_cause(&answer.verdict))
    }

    fn other_cause(&self, verdict: &Verdict) -> Option<String> {
        let because = self.because.as_deref()?;
        let code = match verdict {
            Verdict::Deny(denial) => denial.code.as_str(),
            Verdict::Ask(_) | Verdict::Allow | Verdict::Abstain => "",
        };
        (!BECAUSE.contains(&(because, code)))
            .then(|| format!("expected a denial because of the {because}, not {code:?}"))
    }
}

impl<T: ToString> Expected<T> {
    fn mismatch(&self, what: &str, found: Option<&str>) -> Option<String> {
        let expected = match self {
            Self::Any => return None,
            Self::Just(expected) => Some(expected.to_string()),
            Self::Nothing => None,
        };
        let said = |text: Option<&str>| text.map_or_else(|| "none".to_owned(), |text| format!("{text:?}"));
        (expected.as_deref() != found)
            .then(|| format!("expected {what} {}, not {}", said(expected.as_deref()), said(found)))
    }
}

/// A verdict as a word.
pub(crate) const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Deny(_) => "deny",
        Verdict::Ask(_) => "ask",
        Verdict::Allow => "allow",
        Verdict::Abstain => "abstain",
    }
}

#[cfg(test)]
mod tests {
    use callgate_core::verdict::{Denial, Retry, Rule};

    use super::*;

    fn case(json: &str) -> Case {
        let json = format!(r#"[{{"calls": [{{"server": "s", "tool": "t", {json}}}]}}]"#);
        read(&json, Dialect::Plain).unwrap().pop().unwrap().cases.pop().unwrap()
    }

    fn deny(code: &str, path: &str, policy: Option<&str>) -> Answer {
        let denial = Denial { code: code.to_owned(), message: String::new(), retry: Retry::Never };
        let rule = Rule { path: path.to_owned(), policy: policy.map(str::to_owned), text: String::new() };
        let rule = (!path.is_empty()).then_some(rule);
        Answer { verdict: Verdict::Deny(denial), rule, notes: Vec::new(), charges: Vec::new() }
    }

    #[test]
    fn what_a_case_says_has_to_hold_and_nothing_else() {
        let answer = Ok(deny("argument", "/rules/3", Some("p")));
        for holds in [
            r#""expect": "deny""#,
            r#""expect": "deny", "rule": 3, "policy": "p""#,
            r#""expect": "deny", "because": "argument""#,
        ] {
            assert_eq!(case(holds).mismatch(&answer), None, "{holds}");
        }
        for (differs, how) in [
            (r#""expect": "allow""#, "expected allow, not deny"),
            (r#""expect": "deny", "rule": 1"#, "expected the rule \"1\", not \"3\""),
            (r#""expect": "deny", "rule": null"#, "expected the rule none, not \"3\""),
            (r#""expect": "deny", "policy": null"#, "expected the policy none, not \"p\""),
            (r#""expect": "deny", "because": "tool""#, "expected a denial because of the tool, not \"argument\""),
        ] {
            assert_eq!(case(differs).mismatch(&answer).as_deref(), Some(how));
        }
        assert_eq!(case(r#""expect": "deny", "rule": null, "policy": null"#).mismatch(&Ok(deny("x", "", None))), None);
        let failed = case(r#""expect": "deny""#).mismatch(&Err(Failure::Overload));
        assert!(failed.is_some(), "a failure is no deny of the plugin's own");
    }

    #[test]
    fn a_table_of_grants_takes_everybody_in_it_for_one_under_grants() {
        let json = r#"[{"grants": [], "calls": [
            {"server": "s", "tool": "t", "agent": "b", "expect": "deny"},
            {"server": "s", "tool": "t", "agent": "a", "expect": "deny"},
            {"server": "s", "tool": "t", "agent": "b", "expect": "deny"}
        ]}]"#;
        let sets = read(json, Dialect::Arguments).unwrap();
        assert_eq!(sets[0].settings, r#"{"agents":["a","b"],"grants":[]}"#);
        assert_eq!(read(json, Dialect::Plain).unwrap()[0].settings, r#"{"grants":[]}"#);
    }

    #[test]
    fn the_arguments_of_a_case_are_what_stands_there() {
        let call = case(r#""arguments": {"n": 1.0, "big": 123456789012345678901234567890}, "expect": "deny""#).call();
        assert_eq!(call.unwrap().arguments.text(), r#"{"n": 1.0, "big": 123456789012345678901234567890}"#);
    }
}
