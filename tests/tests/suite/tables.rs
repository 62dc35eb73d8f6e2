//! The case tables by live calls: relay, daemon, plugins as components, journal. The plugins' own tests run the same tables
//! natively and as components.

use std::collections::{BTreeMap, BTreeSet};

use callgate_tests::frame::call;
use callgate_tests::home::Home;
use callgate_tests::relay::{self, Relay};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kill::is_sound;

/// A call of a table.
#[derive(Deserialize, Debug)]
struct Case {
    agent: Option<String>,
    server: String,
    tool: String,
    arguments: Option<Box<RawValue>>,
    expect: String,
    /// Of a table of rules: the one that decides.
    #[serde(default)]
    rule: Value,
    /// Of a table of grants: what a denial is about.
    because: Option<String>,
}

/// The sessions of all agents with all servers, opened as they are needed and kept for all sets.
struct Sessions<'a> {
    home: &'a Home,
    open: BTreeMap<(Option<String>, String), Relay>,
}

impl Sessions<'_> {
    fn of(&mut self, case: &Case) -> &mut Relay {
        let home = self.home;
        self.open.entry((case.agent.clone(), case.server.clone())).or_insert_with(|| {
            let launch = home.relay(&case.server);
            let launch = match &case.agent {
                Some(agent) => launch.option("--agent").option(agent),
                None => launch,
            };
            launch.start(relay::fixture(&home.path().join("received")))
        })
    }

    /// Makes every call of a set, in no order among the sessions, and waits for all answers.
    fn make(&mut self, set: usize, cases: &[Case]) {
        for (number, case) in cases.iter().enumerate() {
            let arguments = case.arguments.as_ref().map_or("{}", |arguments| arguments.get());
            self.of(case).send_line(call(&id(set, number).to_string(), &case.tool, arguments));
        }
        for (number, case) in cases.iter().enumerate() {
            self.of(case).answer(&id(set, number));
        }
    }
}

fn id(set: usize, call: usize) -> Value {
    json!(format!("{set}/{call}"))
}

/// Runs the sets of a table: `begin` puts a set's policy in force, `end` takes it back. Returns the decisions' bodies by the
/// calls' ids.
fn run<Set>(
    sets: &[(Set, Vec<Case>)],
    begin: impl Fn(&Home, &Set, &[Case]),
    end: impl Fn(&Home, &Set, &[Case]),
) -> BTreeMap<String, Value> {
    let agents: BTreeSet<&str> =
        sets.iter().flat_map(|(_, cases)| cases).filter_map(|case| case.agent.as_deref()).collect();
    // A session that says nothing of itself could be any of them, and so is nobody's.
    let home = Home::knowing(&agents.into_iter().collect::<Vec<_>>());
    let mut sessions = Sessions { home: &home, open: BTreeMap::new() };
    for (number, (set, cases)) in sets.iter().enumerate() {
        begin(&home, set, cases);
        sessions.make(number, cases);
        end(&home, set, cases);
    }
    for relay in sessions.open.into_values() {
        assert_eq!(relay.close().code(), 0);
    }
    is_sound(&home);
    // Ids are journaled as the JSON text they are.
    home.decisions().into_iter().map(|body| (body["request_id"].as_str().unwrap().to_owned(), body)).collect()
}

/// The ways in which decisions are not what a table expects.
fn mismatches<Set>(
    sets: &[(Set, Vec<Case>)],
    decisions: &BTreeMap<String, Value>,
    fits: impl Fn(&Case, &Value) -> bool,
) -> Vec<String> {
    let mut mismatches = Vec::new();
    for (set, (_, cases)) in sets.iter().enumerate() {
        for (number, case) in cases.iter().enumerate() {
            let body = &decisions[&id(set, number).to_string()];
            assert_eq!(body["agent"]["name"], json!(case.agent), "the call is the agent's");
            if !fits(case, body) {
                mismatches.push(format!("set {set}: {case:?}: {body}"));
            }
        }
    }
    mismatches
}

#[derive(Deserialize)]
struct RuleSet {
    rules: Vec<Rule>,
    calls: Vec<Case>,
}

#[derive(Deserialize)]
struct Rule {
    effect: String,
    tool: Option<String>,
    agent: Option<String>,
    server: Option<String>,
}

impl Rule {
    fn scope(&self) -> Vec<&str> {
        let agent = self.agent.iter().flat_map(|agent| ["--agent", agent]);
        agent.chain(self.server.iter().flat_map(|server| ["--server", server])).collect()
    }

    fn add(&self) -> Vec<&str> {
        let what = match &self.tool {
            Some(tool) => vec!["policy", &self.effect, tool],
            None => vec!["policy", "default", &self.effect],
        };
        [what, self.scope()].concat()
    }

    fn remove(&self) -> Vec<&str> {
        [vec!["policy", "remove", self.tool.as_deref().unwrap_or("--default")], self.scope()].concat()
    }
}

#[test]
fn live_calls_are_decided_as_the_table_of_rules_says() {
    let sets: Vec<RuleSet> = serde_json::from_str(include_str!("../../cases/rules.json")).unwrap();
    let sets: Vec<_> = sets.into_iter().map(|set| (set.rules, set.calls)).collect();
    let each = |home: &Home, arguments: Vec<&str>| {
        let _ = home.ok(&arguments);
    };
    let decisions = run(
        &sets,
        |home, rules, _| rules.iter().for_each(|rule| each(home, rule.add())),
        |home, rules, _| rules.iter().for_each(|rule| each(home, rule.remove())),
    );
    assert_eq!(decisions.len(), 540);
    let wrong = mismatches(&sets, &decisions, |case, body| {
        let rule = body["rule"]["path"].as_str().and_then(|path| path.strip_prefix("/rules/")).map(str::parse::<u64>);
        let rule = json!(rule.transpose().unwrap());
        body["verdict"] == json!(case.expect)
            && rule == case.rule
            && (body["decision"] == "allowed") == (case.expect == "allow")
    });
    assert_eq!(wrong, [""; 0]);
}

#[derive(Deserialize)]
struct GrantSet {
    grants: Vec<Grant>,
    calls: Vec<Case>,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Grant {
    agent: String,
    server: String,
    tool: String,
    #[serde(default)]
    args: BTreeMap<String, String>,
}

/// A server that no call is made to.
const NOWHERE: &str = "nowhere";

/// The grants of a set, each once, and one that grants nothing to each agent: in the table every agent gets nothing but what is
/// granted, in a chain only those that have a grant.
fn granted(grants: &[Grant], cases: &[Case]) -> BTreeSet<Grant> {
    let nothing = |agent: &String| Grant {
        agent: agent.clone(),
        server: NOWHERE.to_owned(),
        tool: "nothing".to_owned(),
        args: BTreeMap::new(),
    };
    grants.iter().cloned().chain(cases.iter().filter_map(|case| case.agent.as_ref()).map(nothing)).collect()
}

#[test]
fn live_calls_are_decided_as_the_table_of_grants_says() {
    let sets: Vec<GrantSet> = serde_json::from_str(include_str!("../../cases/arguments.json")).unwrap();
    let sets: Vec<_> = sets.into_iter().map(|set| (set.grants, set.calls)).collect();
    let decisions = run(
        &sets,
        |home, grants, cases| {
            for Grant { agent, server, tool, args } in granted(grants, cases) {
                let args: Vec<String> = args.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
                let flag = (!args.is_empty()).then_some("--args");
                let args = flag.into_iter().chain(args.iter().map(String::as_str));
                let _ =
                    home.ok(&["grant", &agent, &server, "--tool", &tool].into_iter().chain(args).collect::<Vec<_>>());
            }
        },
        |home, grants, cases| {
            let owners: BTreeSet<_> =
                granted(grants, cases).into_iter().map(|grant| (grant.agent, grant.server)).collect();
            for (agent, server) in owners {
                let _ = home.ok(&["revoke", &agent, &server]);
            }
        },
    );
    assert_eq!(decisions.len(), 773);
    let wrong = mismatches(&sets, &decisions, |case, body| {
        let (expect, because) = match body["code"].as_str() {
            None => ("allow", None),
            Some("arguments/no-grant") => ("deny", Some("tool")),
            Some("arguments/argument") => ("deny", Some("argument")),
            Some(_) => return false,
        };
        (expect, because) == (&*case.expect, case.because.as_deref())
    });
    assert_eq!(wrong, [""; 0]);
}
