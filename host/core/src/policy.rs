//! What the operator has decided, as items that are added and removed: rules, budgets and grants. The policy in force is a
//! fold over its changes, and nothing else.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetEntry, BudgetKey, Tools};
use crate::grant::GrantEntry;
use crate::identity::{AgentName, ServerName};
use crate::rule::{RuleEntry, RuleKey, Target};

/// How many changes are made together at most: more than any default plugin's settings hold of what is removed together.
pub const CHANGES_MAX: usize = 10_000;

/// One thing that the operator has decided. As JSON `{"rule":{…}}`, `{"budget":{…}}` or `{"grant":{…}}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyItem {
    /// What is allowed, denied or asked.
    Rule(RuleEntry),
    /// How many calls go through.
    Budget(BudgetEntry),
    /// What an agent may do.
    Grant(GrantEntry),
}

/// What makes an item one of a kind: there is at most one of a key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyKey {
    /// A rule's.
    Rule(RuleKey),
    /// A budget's.
    Budget(BudgetKey),
    /// A grant's, which is the grant.
    Grant(GrantEntry),
}

/// The kinds of items.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PolicyKind {
    /// [`PolicyItem::Rule`]
    Rule,
    /// [`PolicyItem::Budget`]
    Budget,
    /// [`PolicyItem::Grant`]
    Grant,
}

/// One change of the policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyChange {
    /// Adds an item.
    Add(PolicyItem),
    /// Removes the item of this key.
    Remove(PolicyKey),
}

/// A change that cannot be made of the policy there is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Conflict {
    /// There is an item of this key, whatever else it says.
    #[error("{}", already_there(.0))]
    AlreadyThere(PolicyItem),
    /// There is no item of this key.
    #[error("{}", not_there(.0))]
    NotThere(PolicyKey),
}

fn already_there(item: &PolicyItem) -> String {
    match item {
        PolicyItem::Rule(_) | PolicyItem::Budget(_) => {
            format!("there is a {} for that already: {item}", item.kind())
        }
        PolicyItem::Grant(_) => format!("there is that grant already: {item}"),
    }
}

fn not_there(key: &PolicyKey) -> String {
    match key {
        PolicyKey::Rule(rule) => format!("there is no rule for {rule}"),
        PolicyKey::Budget(budget) => format!("there is no budget for {budget}"),
        PolicyKey::Grant(grant) => format!("there is no grant {grant}"),
    }
}

impl PolicyKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Rule, Self::Budget, Self::Grant];

    /// The kind as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Budget => "budget",
            Self::Grant => "grant",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PolicyItem {
    /// What makes it one of a kind.
    pub fn key(&self) -> PolicyKey {
        match self {
            Self::Rule(rule) => PolicyKey::Rule(rule.key.clone()),
            Self::Budget(budget) => PolicyKey::Budget(budget.key.clone()),
            Self::Grant(grant) => PolicyKey::Grant(grant.clone()),
        }
    }

    /// Which kind it is of.
    pub const fn kind(&self) -> PolicyKind {
        match self {
            Self::Rule(_) => PolicyKind::Rule,
            Self::Budget(_) => PolicyKind::Budget,
            Self::Grant(_) => PolicyKind::Grant,
        }
    }

    /// The tool that it names.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Rule(rule) => match &rule.key.target {
                Target::Tool(tool) => Some(tool),
                Target::Default => None,
            },
            Self::Budget(budget) => match &budget.key.tools {
                Tools::Named(tool) => Some(tool),
                Tools::All => None,
            },
            Self::Grant(grant) => Some(&grant.tool),
        }
    }

    /// The agent that it names.
    pub const fn agent(&self) -> Option<&AgentName> {
        match self {
            Self::Rule(rule) => rule.key.agent.as_ref(),
            Self::Budget(budget) => budget.key.agent.as_ref(),
            Self::Grant(grant) => Some(&grant.agent),
        }
    }

    /// The server that it names.
    pub const fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Rule(rule) => rule.key.server.as_ref(),
            Self::Budget(budget) => budget.key.server.as_ref(),
            Self::Grant(grant) => Some(&grant.server),
        }
    }
}

impl PolicyKey {
    /// Which kind of item it is of.
    pub const fn kind(&self) -> PolicyKind {
        match self {
            Self::Rule(_) => PolicyKind::Rule,
            Self::Budget(_) => PolicyKind::Budget,
            Self::Grant(_) => PolicyKind::Grant,
        }
    }
}

impl PolicyChange {
    /// The kind of item that changes.
    pub const fn kind(&self) -> PolicyKind {
        match self {
            Self::Add(item) => item.kind(),
            Self::Remove(key) => key.kind(),
        }
    }
}

impl From<RuleEntry> for PolicyItem {
    fn from(rule: RuleEntry) -> Self {
        Self::Rule(rule)
    }
}

impl From<BudgetEntry> for PolicyItem {
    fn from(budget: BudgetEntry) -> Self {
        Self::Budget(budget)
    }
}

impl From<GrantEntry> for PolicyItem {
    fn from(grant: GrantEntry) -> Self {
        Self::Grant(grant)
    }
}

impl fmt::Display for PolicyItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => rule.fmt(f),
            Self::Budget(budget) => budget.fmt(f),
            Self::Grant(grant) => grant.fmt(f),
        }
    }
}

/// Makes changes, one after the other, of the items in force, which stay in the order in which they were added. On a conflict
/// the items are as they were.
pub fn apply(items: &mut Vec<PolicyItem>, changes: &[PolicyChange]) -> Result<(), Conflict> {
    let mut places: HashMap<PolicyKey, usize> =
        items.iter().enumerate().map(|(place, item)| (item.key(), place)).collect();
    // Places stay what they are until all changes are made: a removal leaves a gap.
    let mut changed: Vec<Option<PolicyItem>> = items.iter().cloned().map(Some).collect();
    for change in changes {
        match change {
            PolicyChange::Add(item) => {
                let there = places.get(&item.key()).and_then(|place| changed[*place].as_ref());
                if let Some(there) = there {
                    return Err(Conflict::AlreadyThere(there.clone()));
                }
                places.insert(item.key(), changed.len());
                changed.push(Some(item.clone()));
            }
            PolicyChange::Remove(key) => match places.remove(key) {
                Some(place) => changed[place] = None,
                None => return Err(Conflict::NotThere(key.clone())),
            },
        }
    }
    *items = changed.into_iter().flatten().collect();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(json: &str) -> PolicyItem {
        serde_json::from_str(json).unwrap()
    }

    const ITEMS: [&str; 5] = [
        r#"{"rule":{"effect":"deny","tool":"x"}}"#,
        r#"{"budget":{"limit":3,"tool":"x"}}"#,
        r#"{"grant":{"agent":"a","server":"s","tool":"x"}}"#,
        r#"{"grant":{"agent":"a","server":"s","tool":"x","args":{"p":"1"}}}"#,
        r#"{"budget":{"limit":3,"tool":"x","per":"everyone"}}"#,
    ];

    #[test]
    fn an_item_says_of_which_kind_it_is() {
        for json in ITEMS {
            assert_eq!(serde_json::to_string(&item(json)).unwrap(), json);
            assert_eq!(item(json).kind(), item(json).key().kind());
            assert!(json.contains(item(json).kind().as_str()));
        }
        for odd in [r#"{"role":{}}"#, r#"{"rule":{"effect":"deny","tool":"x"},"budget":{"limit":3,"tool":"x"}}"#, "{}"]
        {
            assert!(serde_json::from_str::<PolicyItem>(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn there_is_one_item_of_a_key_and_the_order_is_that_of_adding() {
        let mut items = Vec::new();
        let added: Vec<PolicyItem> = ITEMS.iter().map(|json| item(json)).collect();
        let add = |item: &PolicyItem| PolicyChange::Add(item.clone());
        apply(&mut items, &added.iter().map(add).collect::<Vec<_>>()).unwrap();
        assert_eq!(items, added);

        let other = item(r#"{"budget":{"limit":4,"tool":"x"}}"#);
        let conflict = apply(&mut items, &[PolicyChange::Remove(added[0].key()), add(&other)]).unwrap_err();
        assert_eq!(conflict, Conflict::AlreadyThere(added[1].clone()));
        assert_eq!(items, added, "nothing is changed when something cannot be");
        assert_eq!(
            apply(
                &mut items,
                &[PolicyChange::Remove(item(ITEMS[0]).key()), PolicyChange::Remove(item(ITEMS[0]).key())]
            ),
            Err(Conflict::NotThere(added[0].key()))
        );

        // A key that was freed can be taken in the same change.
        apply(&mut items, &[PolicyChange::Remove(other.key()), add(&other)]).unwrap();
        assert_eq!(items[items.len() - 1], other);
        assert_eq!(items.len(), added.len());
    }

    #[test]
    fn conflicts_are_told_as_a_person_would() {
        let already = |json| Conflict::AlreadyThere(item(json)).to_string();
        let not_there = |json| Conflict::NotThere(item(json).key()).to_string();
        assert_eq!(already(ITEMS[0]), "there is a rule for that already: deny x");
        assert_eq!(already(ITEMS[1]), "there is a budget for that already: at most 3 calls of x a session");
        assert_eq!(already(ITEMS[2]), "there is that grant already: x on s (agent a)");
        assert_eq!(not_there(ITEMS[0]), "there is no rule for x");
        assert_eq!(not_there(ITEMS[4]), "there is no budget for calls of x for everyone");
        assert_eq!(not_there(ITEMS[3]), "there is no grant x on s (agent a, p=1)");
    }
}
