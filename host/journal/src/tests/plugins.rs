use callgate_core::digest::Digest;
use callgate_core::identity::PluginName;
use callgate_core::plugin::PluginEntry;
use callgate_core::settle::Word;

use super::support::{Place, add, rule};
use crate::{Act, Breach, Fault, Journal, Plugins, PluginsChanged, PluginsError, Point, Verification};

fn plugin(name: &str, component: &str) -> PluginEntry {
    PluginEntry::new(name.parse().unwrap(), Digest::of(component.as_bytes()))
}

fn change(journal: &Journal, after: &[PluginEntry], renewed: Option<&PluginName>) -> PluginsChanged {
    let before = journal.plugins().unwrap();
    journal.change_plugins(&before, after.to_vec(), renewed, Box::new(|_| ())).unwrap()
}

#[test]
fn a_change_is_a_list_an_entry_for_every_step_and_generations() {
    let place = Place::new();
    let journal = place.open();
    add(&journal, rule(Word::Deny, "write_file"));
    let (a, b, b2) = (plugin("a", "1"), plugin("b", "1"), plugin("b", "2"));
    assert_eq!(change(&journal, &[a.clone(), b.clone()], None), PluginsChanged { entries: vec![2, 3], generation: 2 });
    assert_eq!(change(&journal, &[b2.clone(), a.clone()], None), PluginsChanged { entries: vec![4, 5], generation: 3 });
    assert_eq!(journal.plugins().unwrap(), Plugins { generation: 3, entries: vec![b2.clone(), a.clone()] });
    assert_eq!(change(&journal, &[b2.clone(), a.clone()], None), PluginsChanged { entries: vec![], generation: 3 });
    let renewed = change(&journal, &[b2.clone(), a.clone()], Some(&a.name));
    assert_eq!(renewed, PluginsChanged { entries: vec![6], generation: 4 });
    assert_eq!(change(&journal, &[a], None), PluginsChanged { entries: vec![7], generation: 5 });
    add(&journal, rule(Word::Deny, "read_file"));
    let kinds = ["rule.add", "plugin.add", "plugin.add", "plugin.change", "plugin.order", "plugin.change"];
    assert_eq!(place.kinds(), [&kinds[..], &["plugin.remove", "rule.add"]].concat());
    assert_eq!(place.sound(), 8);
}

#[test]
fn a_list_that_another_change_overtook_is_not_put_in_force() {
    let place = Place::new();
    let journal = place.open();
    let before = journal.plugins().unwrap();
    add(&journal, rule(Word::Deny, "write_file"));
    let stale =
        journal.change_plugins(&before, vec![plugin("a", "1")], None, Box::new(|_| panic!("it was swapped in")));
    assert_eq!(stale, Err(PluginsError::Stale { present: 1 }));
    assert_eq!(place.kinds(), ["rule.add"]);
}

#[test]
fn a_list_whose_commit_fails_is_neither_in_force_nor_in_the_journal() {
    let place = Place::new();
    let journal = place.open();
    change(&journal, &[plugin("a", "1")], None);
    let before = journal.plugins().unwrap();
    journal.arm(Fault { point: Point::BeforeCommit, act: Act::Full, commit: 1 });
    let failed = journal.change_plugins(&before, vec![], None, Box::new(|_| panic!("it was swapped in")));
    assert!(matches!(failed, Err(PluginsError::Unwritten(_))), "{failed:?}");
    assert_eq!(journal.plugins().unwrap(), before);
    assert_eq!(place.sound(), 1);
}

#[test]
fn a_table_that_says_something_else_is_found() {
    let place = Place::new();
    let journal = place.open();
    change(&journal, &[plugin("a", "1")], None);
    journal.close().unwrap();
    place.tamper("UPDATE plugin SET entry = replace(entry, '\"name\":\"a\"', '\"may_grant\":true,\"name\":\"a\"')");
    let Verification::Broken { breach: Breach::Beside { table, .. }, .. } = place.verify() else {
        panic!("the edit was not found");
    };
    assert_eq!(table, "plugin");
}
