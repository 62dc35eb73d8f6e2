use callgate_core::entry::RuleBody;
use callgate_core::rule::{RuleEntry, RuleKey, Target};
use callgate_core::settle::Word;

use super::support::{Place, add_rule, key, on_server, rule};
use crate::{Journal, RuleChange, RuleError};

fn change(journal: &Journal, change: RuleChange) -> Result<crate::RuleChanged, RuleError> {
    journal.change_rule(change, journal.status().generation, Box::new(|_| ()))
}

fn default(effect: Word) -> RuleEntry {
    RuleEntry { effect, key: RuleKey { target: Target::Default, agent: None, server: None } }
}

#[test]
fn a_change_is_a_rule_an_entry_and_a_generation() {
    let place = Place::new();
    let journal = place.open();
    let added = change(&journal, RuleChange::Add(rule(Word::Deny, "write_file"))).unwrap();
    assert_eq!((added.entry, added.generation, &added.rule), (1, 1, &rule(Word::Deny, "write_file")));
    let removed = change(&journal, RuleChange::Remove(key("write_file"))).unwrap();
    assert_eq!((removed.entry, removed.generation), (2, 2));
    assert_eq!(removed.rule.effect, Word::Deny, "a removal tells what was removed");
    let bodies: Vec<RuleBody> =
        place.entries().entries.iter().map(|entry| serde_json::from_slice(&entry.body).unwrap()).collect();
    assert_eq!(bodies[1], RuleBody { rule: rule(Word::Deny, "write_file"), generation: 2 });
    assert_eq!(place.kinds(), ["rule.add", "rule.remove"]);
    assert_eq!(place.sound(), 2);
}

#[test]
fn there_is_one_rule_of_a_key_whatever_its_effect() {
    let place = Place::new();
    let journal = place.open();
    add_rule(&journal, rule(Word::Deny, "write_file"));
    let error = change(&journal, RuleChange::Add(rule(Word::Allow, "write_file"))).unwrap_err();
    assert_eq!(error, RuleError::AlreadyThere(rule(Word::Deny, "write_file")));
    assert_eq!(error.to_string(), "there is a rule for that already: deny write_file");
    assert_eq!(journal.status().generation, 1);
    assert_eq!(journal.status().head.entries, 1);
}

#[test]
fn a_rule_that_is_not_there_cannot_be_removed() {
    let place = Place::new();
    let journal = place.open();
    add_rule(&journal, on_server(rule(Word::Deny, "write_file"), "fs"));
    let error = change(&journal, RuleChange::Remove(key("write_file"))).unwrap_err();
    assert_eq!(error, RuleError::NotThere(key("write_file")));
}

#[test]
fn rules_of_different_keys_live_side_by_side() {
    let place = Place::new();
    let journal = place.open();
    let mut for_agent = rule(Word::Allow, "write_file");
    for_agent.key.agent = Some("cursor".parse().unwrap());
    let rules = [
        rule(Word::Deny, "write_file"),
        on_server(rule(Word::Allow, "write_file"), "fs"),
        for_agent.clone(),
        on_server(for_agent, "fs"),
        default(Word::Ask),
        on_server(default(Word::Deny), "fs"),
        rule(Word::Deny, ""),
        rule(Word::Deny, "*"),
        rule(Word::Deny, "default"),
        rule(Word::Deny, "nul\0and ünïcode\n"),
        rule(Word::Deny, "nul\0and more"),
    ];
    for rule in &rules {
        add_rule(&journal, rule.clone());
        let error = change(&journal, RuleChange::Add(rule.clone())).unwrap_err();
        assert_eq!(error, RuleError::AlreadyThere(rule.clone()));
    }
    let found = journal.rules().unwrap();
    assert_eq!((found.generation, &found.entries[..]), (11, &rules[..]), "in the order in which they were added");
    drop(journal);
    assert_eq!(place.open().rules().unwrap(), found, "after a restart too");
    assert_eq!(place.reader().rules().unwrap(), found);
    for rule in rules {
        change(&place.open(), RuleChange::Remove(rule.key)).unwrap();
    }
    assert_eq!(place.sound(), 22);
}

#[test]
fn a_change_made_of_old_rules_is_refused() {
    let place = Place::new();
    let journal = place.open();
    add_rule(&journal, rule(Word::Deny, "a"));
    let stale = |generation| {
        let never = Box::new(|_| panic!("it must not be taken into force"));
        journal.change_rule(RuleChange::Add(rule(Word::Deny, "b")), generation, never)
    };
    assert_eq!(stale(0), Err(RuleError::Stale { present: 1 }));
    assert_eq!(stale(2), Err(RuleError::Stale { present: 1 }));
    assert_eq!(journal.rules().unwrap().entries.len(), 1);
}
