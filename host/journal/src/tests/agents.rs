//! Enrolled agents: one transaction with their entries, and never a half of it.

use callgate_core::agent::{AgentStep, NotAdmitted};

use super::support::{Place, enrolled, full_journal, with_connection};
use crate::AgentsError;

#[test]
fn an_agent_is_enrolled_refreshed_and_removed_with_an_entry_each() {
    let place = Place::new();
    let journal = place.open();
    let (first, second) = (enrolled(1, "cursor", 1), enrolled(1, "cursor", 2));
    assert_eq!(journal.change_agents(AgentStep::Add(first.clone())).unwrap(), 1);
    assert_eq!(journal.agents().unwrap().0, std::slice::from_ref(&first));
    journal.change_agents(AgentStep::Refresh(second.clone())).unwrap();
    assert_eq!(place.reader().agents().unwrap().0, std::slice::from_ref(&second));
    // What is removed is what is there, and not what was.
    let gone = journal.change_agents(AgentStep::Remove(first)).unwrap_err();
    assert_eq!(gone, AgentsError::NotAdmitted(NotAdmitted::NoAgent(second.name.clone())));
    journal.change_agents(AgentStep::Remove(second)).unwrap();
    assert!(journal.agents().unwrap().0.is_empty());
    assert_eq!(place.kinds(), ["agent.add", "agent.refresh", "agent.remove"]);
}

#[test]
fn a_step_that_is_not_admitted_leaves_nothing_behind() {
    let place = Place::new();
    let journal = place.open();
    journal.change_agents(AgentStep::Add(enrolled(1, "cursor", 1))).unwrap();
    let refused = journal.change_agents(AgentStep::Add(enrolled(2, "cursor", 1))).unwrap_err();
    assert_eq!(refused, AgentsError::NotAdmitted(NotAdmitted::NameTaken("cursor".parse().unwrap())));
    assert_eq!(place.kinds(), ["agent.add"]);
}

#[test]
fn a_table_that_says_something_else_than_the_entries_is_broken() {
    for change in ["UPDATE agent SET entry = replace(entry, '/opt/', '/tmp/')", "DELETE FROM agent"] {
        let place = full_journal();
        let journal = place.open();
        with_connection(&journal, |connection| assert!(connection.execute(change, []).unwrap() > 0, "{change}"));
        drop(journal);
        let told = format!("{:?}", place.verify());
        assert!(told.contains("table: \"agent\""), "{change}: {told}");
    }
}
