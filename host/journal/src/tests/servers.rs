//! Registered servers: one transaction with their entries, and never a half of it.

use callgate_core::server::{NotAdmitted, ServerStep};

use super::support::{Place, credential, full_journal, registered, with_connection};
use crate::ServersError;

#[test]
fn a_server_and_its_credential_are_registered_together() {
    let place = Place::new();
    let journal = place.open();
    let github = registered(1, "github");
    let set = credential(&github);
    let entries =
        journal.change_servers(vec![ServerStep::Add(github.clone()), ServerStep::SetCredential(set.clone())]).unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(place.kinds(), ["server.add", "credential.set"]);
    let registry = journal.registry().unwrap();
    assert_eq!(registry.servers, std::slice::from_ref(&github));
    assert_eq!(registry.credential(&github.id, &set.variable).map(|there| there.store), Some(set.store));
    assert_eq!(place.reader().registry().unwrap(), registry);
}

#[test]
fn steps_of_which_one_is_not_admitted_leave_nothing_behind() {
    let place = Place::new();
    let journal = place.open();
    let github = registered(1, "github");
    let steps = vec![ServerStep::Add(github.clone()), ServerStep::Add(registered(2, "github"))];
    let refused = journal.change_servers(steps).unwrap_err();
    assert_eq!(refused, ServersError::NotAdmitted(NotAdmitted::NameTaken(github.name)));
    assert!(place.kinds().is_empty());
    assert!(journal.registry().unwrap().servers.is_empty());
}

#[test]
fn a_table_that_says_something_else_than_the_entries_is_broken() {
    let changes = [
        ("server", "UPDATE server SET entry = replace(entry, 'npx', 'evil')"),
        ("server", "DELETE FROM server WHERE name = 'gitlab'"),
        ("credential", "UPDATE credential SET store = 'sealed-file'"),
        ("credential", "DELETE FROM credential"),
    ];
    for (table, change) in changes {
        let place = full_journal();
        let journal = place.open();
        with_connection(&journal, |connection| {
            connection.pragma_update(None, "foreign_keys", false).unwrap();
            assert!(connection.execute(change, []).unwrap() > 0, "{change}");
        });
        drop(journal);
        let told = format!("{:?}", place.verify());
        assert!(told.contains(&format!("table: {table:?}")), "{change}: {told}");
    }
}
