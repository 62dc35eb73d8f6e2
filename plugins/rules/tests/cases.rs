//! The case table: every call's verdict and the rule that gave it.

use callgate_plugin_rules::Rules;
use callgate_sdk::testing::Table;

const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/rules.json"));

#[test]
fn every_case_of_the_table_holds() {
    let table = Table::read(CASES).unwrap();
    assert_eq!(table.calls(), 540);
    let mismatches: Vec<String> = table.run::<Rules>().iter().map(ToString::to_string).collect();
    assert_eq!(mismatches, [""; 0]);
}
