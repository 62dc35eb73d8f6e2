use callgate_core::budget::{BudgetEntry, BudgetKey, Tools};
use callgate_core::charge::Subject;
use callgate_core::entry::{Draft, Kind, PolicyBody};
use callgate_core::policy::{CHANGES_MAX, Conflict, PolicyItem};
use callgate_core::rule::{RuleEntry, RuleKey, Target};
use callgate_core::settle::Word;

use super::support::{Place, add, adding, allow, budget, change, grant, on_server, removing, rule, start};
use crate::{Breach, PolicyChanged, PolicyError, Verification};

fn default(effect: Word) -> RuleEntry {
    RuleEntry { effect, key: RuleKey { target: Target::Default, agent: None, server: None } }
}

fn conflict(there: impl Into<PolicyItem>) -> PolicyError {
    PolicyError::Conflict(Conflict::AlreadyThere(there.into()))
}

fn missing(item: impl Into<PolicyItem>) -> PolicyError {
    PolicyError::Conflict(Conflict::NotThere(item.into().key()))
}

#[test]
fn a_change_is_an_item_an_entry_and_a_generation() {
    let place = Place::new();
    let journal = place.open();
    let denied: PolicyItem = rule(Word::Deny, "write_file").into();
    let added = change(&journal, &[adding(denied.clone())]).unwrap();
    assert_eq!(added, PolicyChanged { items: vec![(1, denied.clone())], generation: 1 });
    let removed = change(&journal, &[removing(rule(Word::Allow, "write_file"))]).unwrap();
    let expected = PolicyChanged { items: vec![(2, denied.clone())], generation: 2 };
    assert_eq!(removed, expected, "a removal tells what was removed");
    let bodies: Vec<PolicyBody> =
        place.entries().entries.iter().map(|entry| serde_json::from_slice(&entry.body).unwrap()).collect();
    assert_eq!(bodies[1], PolicyBody { item: denied, generation: 2 });
    assert_eq!(place.kinds(), ["rule.add", "rule.remove"]);
    assert_eq!(place.sound(), 2);
}

#[test]
fn every_kind_of_item_has_entries_of_its_own() {
    let place = Place::new();
    let journal = place.open();
    let items = [rule(Word::Deny, "x").into(), budget(r#"{"limit":3,"tool":"x"}"#), grant("x", &[("path", "/srv/**")])];
    for item in &items {
        add(&journal, item.clone());
    }
    assert_eq!(journal.policy().unwrap().items, items);
    for item in items {
        change(&journal, &[removing(item)]).unwrap();
    }
    assert_eq!(journal.policy().unwrap().items, []);
    let kinds = ["rule.add", "budget.add", "grant.add", "rule.remove", "budget.remove", "grant.remove"];
    assert_eq!(place.kinds(), kinds);
    let texts: Vec<String> =
        place.entries().entries.into_iter().map(|entry| String::from_utf8(entry.body).unwrap()).collect();
    assert_eq!(texts[0], r#"{"rule":{"effect":"deny","tool":"x"},"generation":1}"#);
    assert_eq!(texts[4], r#"{"budget":{"limit":3,"tool":"x"},"generation":5}"#);
    let expected = r#"{"grant":{"agent":"a","server":"fs","tool":"x","args":{"path":"/srv/**"}},"generation":3}"#;
    assert_eq!(texts[2], expected);
    assert_eq!(place.sound(), 6);
}

#[test]
fn changes_are_made_together_or_not_at_all() {
    let place = Place::new();
    let journal = place.open();
    let (free, bound) = (grant("x", &[]), grant("x", &[("path", "/srv/**")]));
    let granted = change(&journal, &[adding(free.clone()), adding(bound.clone())]).unwrap();
    assert_eq!(granted, PolicyChanged { items: vec![(1, free.clone()), (2, bound.clone())], generation: 1 });

    let error = change(&journal, &[removing(free.clone()), removing(grant("y", &[]))]).unwrap_err();
    assert_eq!(error, missing(grant("y", &[])));
    let policy = journal.policy().unwrap();
    assert_eq!((policy.generation, &policy.items[..]), (1, &[free.clone(), bound.clone()][..]));
    assert_eq!(journal.status().head.entries, 2, "nor is there an entry of what was not done");

    let revoked = change(&journal, &[removing(free.clone()), removing(bound.clone()), adding(free.clone())]).unwrap();
    assert_eq!((revoked.generation, revoked.items.len()), (2, 3));
    assert_eq!(journal.policy().unwrap().items, [free]);
    allow(&journal, "x").unwrap();
    add(&journal, bound);
    assert_eq!(place.sound(), 7);
}

#[test]
fn a_change_of_nothing_or_of_too_much_is_refused() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(change(&journal, &[]), Err(PolicyError::Count(0)));
    let many = vec![adding(grant("x", &[])); CHANGES_MAX + 1];
    assert_eq!(change(&journal, &many), Err(PolicyError::Count(CHANGES_MAX + 1)));
    assert_eq!(journal.status().generation, 0);
    let numbered = |number: usize| grant(&number.to_string(), &[]);
    let most: Vec<_> = (0..CHANGES_MAX).map(|number| adding(numbered(number))).collect();
    assert_eq!(change(&journal, &most).unwrap().generation, 1);
    let rest: Vec<_> = (1..CHANGES_MAX).map(|number| removing(numbered(number))).collect();
    change(&journal, &rest).unwrap();
    assert_eq!(journal.policy().unwrap().items, [numbered(0)]);
    assert_eq!(place.sound(), 2 * CHANGES_MAX as u64 - 1);
}

#[test]
fn there_is_one_rule_of_a_key_whatever_its_effect_and_one_budget_whatever_its_limit() {
    let place = Place::new();
    let journal = place.open();
    add(&journal, rule(Word::Deny, "write_file"));
    let error = change(&journal, &[adding(rule(Word::Allow, "write_file"))]).unwrap_err();
    assert_eq!(error, conflict(rule(Word::Deny, "write_file")));
    assert_eq!(error.to_string(), "there is a rule for that already: deny write_file");
    let (three, four) = (budget(r#"{"limit":3,"all_tools":true}"#), budget(r#"{"limit":4,"all_tools":true}"#));
    add(&journal, three.clone());
    assert_eq!(change(&journal, &[adding(four.clone())]), Err(conflict(three.clone())));
    assert_eq!((journal.status().generation, journal.status().head.entries), (2, 2));
    change(&journal, &[removing(four)]).unwrap();
    assert_eq!(journal.policy().unwrap().items, [rule(Word::Deny, "write_file").into()]);
}

#[test]
fn what_is_not_there_cannot_be_removed() {
    let place = Place::new();
    let journal = place.open();
    add(&journal, on_server(rule(Word::Deny, "write_file"), "fs"));
    add(&journal, budget(r#"{"limit":3,"tool":"x"}"#));
    add(&journal, grant("x", &[]));
    for item in [
        rule(Word::Deny, "write_file").into(),
        budget(r#"{"limit":3,"tool":"x","server":"fs"}"#),
        budget(r#"{"limit":3,"tool":"x","per":"everyone"}"#),
        grant("x", &[("path", "/srv")]),
    ] {
        assert_eq!(change(&journal, &[removing(item.clone())]), Err(missing(item)));
    }
}

#[test]
fn items_of_different_keys_live_side_by_side() {
    let place = Place::new();
    let journal = place.open();
    let mut for_agent = rule(Word::Allow, "write_file");
    for_agent.key.agent = Some("cursor".parse().unwrap());
    let counted = |tools: Tools, agent: Option<&str>, server: Option<&str>, per: Subject| {
        let (agent, server) = (agent.map(|name| name.parse().unwrap()), server.map(|name| name.parse().unwrap()));
        PolicyItem::Budget(BudgetEntry { limit: 3.try_into().unwrap(), key: BudgetKey { tools, agent, server, per } })
    };
    let named = |tool: &str| Tools::Named(tool.to_owned());
    let items: Vec<PolicyItem> = vec![
        rule(Word::Deny, "write_file").into(),
        on_server(rule(Word::Allow, "write_file"), "fs").into(),
        for_agent.clone().into(),
        on_server(for_agent, "fs").into(),
        default(Word::Ask).into(),
        on_server(default(Word::Deny), "fs").into(),
        rule(Word::Deny, "").into(),
        rule(Word::Deny, "*").into(),
        rule(Word::Deny, "default").into(),
        rule(Word::Deny, "nul\0and ünïcode\n").into(),
        rule(Word::Deny, "nul\0and more").into(),
        counted(named("write_file"), None, None, Subject::Session),
        counted(named("write_file"), None, None, Subject::Agent),
        counted(named("write_file"), Some("cursor"), None, Subject::Session),
        counted(named("write_file"), None, Some("cursor"), Subject::Session),
        counted(Tools::All, None, None, Subject::Session),
        counted(named("all_tools"), None, None, Subject::Session),
        grant("write_file", &[]),
        grant("write_file", &[("path", "/srv")]),
        grant("write_file", &[("path", "/srv"), ("mode", "r")]),
        grant("write_*", &[("path", "/srv")]),
    ];
    for item in &items {
        add(&journal, item.clone());
        assert_eq!(change(&journal, &[adding(item.clone())]), Err(conflict(item.clone())));
    }
    let found = journal.policy().unwrap();
    assert_eq!((found.generation, &found.items), (21, &items), "in the order in which they were added");
    drop(journal);
    assert_eq!(place.open().policy().unwrap(), found, "after a restart too");
    assert_eq!(place.reader().policy().unwrap(), found);
    for item in items {
        change(&place.open(), &[removing(item)]).unwrap();
    }
    assert_eq!(place.sound(), 42);
}

#[test]
fn a_change_made_of_an_old_policy_is_refused() {
    let place = Place::new();
    let journal = place.open();
    add(&journal, rule(Word::Deny, "a"));
    let stale = |generation| {
        let never = Box::new(|_| panic!("it must not be taken into force"));
        journal.change_policy(vec![adding(rule(Word::Deny, "b"))], generation, never)
    };
    assert_eq!(stale(0), Err(PolicyError::Stale { present: 1 }));
    assert_eq!(stale(2), Err(PolicyError::Stale { present: 1 }));
    assert_eq!(journal.policy().unwrap().items.len(), 1);
}

/// Rows and entries that hash rightly and say what no journal says.
#[test]
fn entries_that_no_change_leaves_are_found() {
    let body = |item: PolicyItem, generation| PolicyBody { item, generation };
    let denied = || -> PolicyItem { rule(Word::Deny, "x").into() };
    let wrong = [
        ("it is about a grant", vec![(Kind::RuleAdd, body(grant("x", &[]), 1))]),
        ("generation 2 does not follow 0", vec![(Kind::RuleAdd, body(denied(), 2))]),
        ("generation 0 does not follow 0", vec![(Kind::RuleAdd, body(denied(), 0))]),
        (
            "generation 1 does not follow 1",
            vec![
                (Kind::RuleAdd, body(denied(), 1)),
                (Kind::Anomaly, body(denied(), 1)),
                (Kind::GrantAdd, body(grant("x", &[]), 1)),
            ],
        ),
        (
            "does not admit this change of the rule deny x",
            vec![(Kind::RuleAdd, body(denied(), 1)), (Kind::RuleAdd, body(denied(), 1))],
        ),
        (
            "does not admit this change of the rule allow x",
            vec![(Kind::RuleAdd, body(denied(), 1)), (Kind::RuleRemove, body(rule(Word::Allow, "x").into(), 2))],
        ),
    ];
    for (expected, entries) in wrong {
        let place = Place::new();
        drop(place.open());
        for (kind, body) in &entries {
            place.append_by_hand(&Draft::of(*kind, body));
        }
        let Verification::Broken { seq, breach: Breach::Body(why) } = place.verify() else {
            panic!("{expected}: {:?}", place.verify())
        };
        assert_eq!(seq, entries.len() as u64);
        assert!(why.contains(expected), "{why:?} is not {expected:?}");
    }
}

#[test]
fn a_server_is_known_once_a_session_was_opened_for_it() {
    let place = Place::new();
    let journal = place.open();
    let seen = |server: &str| place.reader().has_seen(&server.parse().unwrap()).unwrap();
    assert!(!seen("fs"));
    journal.open_session(start(1)).unwrap();
    assert!(seen("fs") && !seen("f") && !seen("FS"));
    add(&journal, grant("x", &[]));
    assert!(!seen("a"));
}
