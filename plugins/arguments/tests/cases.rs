//! The case table: every call's verdict and what a denial is about.

use callgate_plugin_arguments::Grants;
use callgate_sdk::testing::Harness;
use callgate_sdk::{Call, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;

const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/arguments.json"));

#[derive(Deserialize)]
struct Set {
    grants: Box<RawValue>,
    calls: Vec<Case>,
}

#[derive(Deserialize, Debug)]
struct Case {
    agent: String,
    server: String,
    tool: String,
    arguments: Box<RawValue>,
    expect: String,
    because: Option<String>,
}

#[test]
fn every_case_of_the_table_holds() {
    let sets: Vec<Set> = serde_json::from_str(CASES).unwrap();
    let mut calls = 0;
    for (number, Set { grants, calls: cases }) in sets.iter().enumerate() {
        // In the table every agent is under the plugin, those without a grant too.
        let agents: Vec<&str> = cases.iter().map(|case| case.agent.as_str()).collect();
        let settings = format!(r#"{{"grants": {grants}, "agents": {}}}"#, serde_json::to_string(&agents).unwrap());
        let harness = Harness::<Grants>::new(&settings).unwrap();
        for case in cases {
            calls += 1;
            let call = Call::new(&case.server, &case.tool).agent(&case.agent).arguments(case.arguments.get());
            let (verdict, because) = match harness.decide(&call).verdict {
                Verdict::Allow => ("allow", None),
                Verdict::Deny(denial) if denial.code == "no-grant" => ("deny", Some("tool")),
                Verdict::Deny(denial) if denial.code == "argument" => ("deny", Some("argument")),
                other => panic!("set {number}: {other:?} for {case:?}"),
            };
            assert_eq!((verdict, because), (&*case.expect, case.because.as_deref()), "set {number}: {case:?}");
        }
    }
    assert_eq!(calls, 773);
}
