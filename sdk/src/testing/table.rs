//! Case tables: settings, calls and what is expected of each.
//!
//! A table is a JSON list. Each element is a settings document with one key more, `calls`: a list of `server`, `tool`,
//! `agent` (left out for an agent that is not established), `arguments`, and `expect`, the verdict as a word. Where a call
//! says `rule`, it is the index that the rule's pointer ends in, `null` for no rule. Other keys are the dialect's own.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Harness;
use crate::{Call, Decision, Policy, Verdict};

/// A case table, read.
#[derive(Debug)]
pub struct Table {
    sets: Vec<Set>,
}

#[derive(Debug)]
struct Set {
    settings: String,
    cases: Vec<Case>,
}

#[derive(Deserialize, Debug)]
struct Case {
    server: String,
    tool: String,
    agent: Option<String>,
    arguments: Option<Box<RawValue>>,
    expect: String,
    #[serde(default)]
    rule: ExpectedRule,
}

/// The rule that a case says has spoken.
#[derive(Deserialize, Debug, Default)]
#[serde(from = "Option<usize>")]
enum ExpectedRule {
    /// The case says nothing of it.
    #[default]
    Any,
    Index(usize),
    None,
}

impl From<Option<usize>> for ExpectedRule {
    fn from(index: Option<usize>) -> Self {
        index.map_or(Self::None, Self::Index)
    }
}

/// A case that came out otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The element of the table.
    pub set: usize,
    /// The call in it.
    pub call: usize,
    /// What was expected and what came.
    pub text: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {}, call {}: {}", self.set, self.call, self.text)
    }
}

impl Table {
    /// Reads a table from JSON text.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let elements: Vec<BTreeMap<String, Box<RawValue>>> = serde_json::from_str(json)?;
        let set = |mut element: BTreeMap<String, Box<RawValue>>| {
            let cases = element.remove("calls").map_or(Ok(Vec::new()), |calls| serde_json::from_str(calls.get()))?;
            Ok(Set { settings: serde_json::to_string(&element)?, cases })
        };
        Ok(Self { sets: elements.into_iter().map(set).collect::<Result<_, serde_json::Error>>()? })
    }

    /// How many calls the table holds.
    pub fn calls(&self) -> usize {
        self.sets.iter().map(|set| set.cases.len()).sum()
    }

    /// Runs every call; returns what came out otherwise.
    pub fn run<P: Policy>(&self) -> Vec<Mismatch> {
        let mut mismatches = Vec::new();
        for (number, set) in self.sets.iter().enumerate() {
            match Harness::<P>::new(&set.settings) {
                Ok(harness) => {
                    let mismatch = |(call, case): (usize, &Case)| {
                        case.mismatch(&harness.decide(&case.call())).map(|text| Mismatch { set: number, call, text })
                    };
                    mismatches.extend(set.cases.iter().enumerate().filter_map(mismatch));
                }
                Err(errors) => mismatches.push(Mismatch {
                    set: number,
                    call: 0,
                    text: format!("the settings do not load: {errors:?}"),
                }),
            }
        }
        mismatches
    }
}

impl Case {
    fn call(&self) -> Call {
        let mut call = Call::new(&self.server, &self.tool);
        if let Some(agent) = &self.agent {
            call = call.agent(agent);
        }
        match &self.arguments {
            Some(arguments) => call.arguments(arguments.get()),
            None => call,
        }
    }

    fn mismatch(&self, decision: &Decision) -> Option<String> {
        let verdict = match &decision.verdict {
            Verdict::Deny(_) => "deny",
            Verdict::Ask(_) => "ask",
            Verdict::Allow => "allow",
            Verdict::Abstain => "abstain",
        };
        if self.expect != verdict {
            return Some(format!("expected {}, not {verdict}, of {self:?}", self.expect));
        }
        let index = decision.rule.as_ref().map(|rule| rule.path.rsplit('/').next().unwrap_or_default());
        let as_expected = match self.rule {
            ExpectedRule::Any => true,
            ExpectedRule::Index(expected) => index == Some(expected.to_string().as_str()),
            ExpectedRule::None => index.is_none(),
        };
        if as_expected { None } else { Some(format!("expected another rule than {index:?}, of {self:?}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pointer, Rule, SettingsErrors, SettingsWarning};

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        allowed: Vec<String>,
    }

    struct Allowed(Settings);

    impl Policy for Allowed {
        type Settings = Settings;

        fn configure(settings: Settings, _: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors> {
            Ok(Self(settings))
        }

        fn decide(&self, call: &Call) -> Decision {
            match self.0.allowed.iter().position(|tool| *tool == call.tool.name) {
                Some(index) => Decision::allow().rule(Rule::new(Pointer::root().key("allowed").index(index), "allow")),
                None => Decision::deny("deny", "no"),
            }
        }
    }

    fn run(json: &str) -> Vec<Mismatch> {
        Table::read(json).unwrap().run::<Allowed>()
    }

    #[test]
    fn a_table_that_holds_has_no_mismatch() {
        let json = r#"[{"allowed": ["a", "b"], "calls": [
            {"server": "s", "tool": "b", "agent": "x", "arguments": {"n": 1.0}, "expect": "allow", "rule": 1},
            {"server": "s", "tool": "c", "expect": "deny", "rule": null}
        ]}]"#;
        assert_eq!(Table::read(json).unwrap().calls(), 2);
        assert_eq!(run(json), []);
    }

    #[test]
    fn another_verdict_or_rule_is_a_mismatch() {
        let found = run(r#"[{"allowed": ["a", "b"], "calls": [
            {"server": "s", "tool": "b", "expect": "deny"},
            {"server": "s", "tool": "b", "expect": "allow", "rule": 0},
            {"server": "s", "tool": "b", "expect": "allow", "rule": null},
            {"server": "s", "tool": "b", "expect": "allow"}
        ]}]"#);
        assert_eq!(found.iter().map(|mismatch| mismatch.call).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn settings_that_do_not_load_are_a_mismatch() {
        assert_eq!(run(r#"[{"alowed": [], "calls": [{"server": "s", "tool": "b", "expect": "deny"}]}]"#).len(), 1);
    }
}
