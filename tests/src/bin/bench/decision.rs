//! The decision alone, as the daemon makes it: the chain's opinions, the ruling, the charges, what becomes of it. No journal.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate_core::call::{Call, Listed};
use callgate_core::counters::{Counters, Moment};
use callgate_core::digest::Digest;
use callgate_core::evaluate::{ChainDefault, evaluate};
use callgate_core::identity::{Agent, Caller, Server, SessionId};
use callgate_core::permit::Binding;
use callgate_core::port::{Case, Evaluator};
use callgate_core::settle::{Decision, Present, settle};
use callgate_plugin::{Chain, Engine, Life, Limits, Link, LogBatch, LogSink, Plugin};
use serde_json::{Value, json};

use crate::report::{Report, median};
use crate::subject::micros;
use crate::{bars, policy};

const DECISIONS: usize = 2_000;
const RULE_COUNTS: [usize; 3] = [10, 1_000, 10_000];

/// Calls that come one after the other have more than this between them; fresh instances are made in it.
const PAUSE: Duration = Duration::from_micros(300);
const DECISIONS_APART: usize = 200;
const FRESH_READY: usize = 4;
const TOOL: &str = "read_file";
const SERVER: &str = "fs";

/// How the calls of a round differ from each other.
#[derive(Clone, Copy)]
enum Calls {
    /// In their arguments, like those of an agent that calls one tool again and again. What does not rest on them is given again.
    OfOneTool,
    /// In what their server said of the tool as well, so that nothing can be given again and every plugin is asked.
    AllNew,
}

pub(crate) fn measure(report: &mut Report, rounds: usize) {
    let plugins = Plugins::load();
    let rules = |count: usize| vec![plugins.rules(count)];
    let three = || vec![plugins.rules(policy::RULES), plugins.budget(), plugins.arguments()];
    let four = three().into_iter().chain([plugins.third_party()]).collect();
    let [few, many, most] = RULE_COUNTS.map(rules);
    let chains = [
        (few, Calls::AllNew, None),
        (many, Calls::AllNew, None),
        (most, Calls::AllNew, None),
        (rules(policy::RULES), Calls::OfOneTool, None),
        (three(), Calls::OfOneTool, None),
        (three(), Calls::AllNew, None),
        (three(), Calls::OfOneTool, Some(PAUSE)),
        (four, Calls::OfOneTool, Some(PAUSE)),
    ];
    let chains = chains.map(|(links, calls, pause)| (Chain::new(1, ChainDefault::Deny, links), calls, pause));
    let mut times = [const { Vec::new() }; 8];
    for round in 0..rounds {
        for ((chain, calls, pause), times) in chains.iter().zip(&mut times) {
            times.push(round_us(chain, *calls, round, *pause));
        }
    }
    let [few, many, most, again, three, asked, paused, four] = times.map(|mut times| median(&mut times));
    report.figure("10 rules, asked", few);
    report.barred("1,000 rules, asked", many, bars::DECISION_US);
    report.figure("10,000 rules, asked", most);
    report.barred("  10,000 rules, times 10 rules", most / few, bars::DECISION_GROWTH);
    report.figure("1,000 rules, given again", again);
    report.barred("1,000 rules, 100 grants, 20 budgets of which 3 match", three, bars::DECISION_OF_THREE_US);
    report.figure("  the same, all three plugins asked", asked);
    report.figure("  the same with 300 µs between calls", paused);
    report.figure("  and with a third party's plugin, fresh for every call", four);
    report.barred("  added by that plugin", four - paused, bars::DECISION_THIRD_PARTY_US);
}

/// The default plugins, as places in a chain.
struct Plugins {
    rules: Plugin,
    budget: Plugin,
    arguments: Plugin,
}

impl Plugins {
    fn load() -> Self {
        let engine = Engine::new(Limits::SHIPPED, None, Arc::new(Silence)).expect("an engine can be had");
        let load = |name: &str| {
            let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist");
            let component = std::fs::read(dist.join(name).with_extension("wasm")).expect("the component is there");
            engine.load(&component).expect("the component loads")
        };
        Self { rules: load("rules"), budget: load("budget"), arguments: load("arguments") }
    }

    fn rules(&self, count: usize) -> Link {
        kept(&self.rules, "rules", &json!({ "rules": policy::rules(count, TOOL) }))
    }

    fn budget(&self) -> Link {
        kept(&self.budget, "budget", &json!({ "budgets": policy::budgets(TOOL, SERVER) }))
    }

    fn arguments(&self) -> Link {
        kept(&self.arguments, "arguments", &json!({ "grants": policy::grants(TOOL, SERVER) }))
    }

    /// A plugin in Rust as anybody would install it: an instance of its own for every call.
    fn third_party(&self) -> Link {
        let settings = json!({ "rules": policy::rules(10, TOOL) }).to_string();
        let life = Life::Fresh { ready: FRESH_READY };
        Link::ready(self.rules.configure("guard", &settings, life).expect("the settings load"), false)
    }
}

fn kept(plugin: &Plugin, name: &str, settings: &Value) -> Link {
    let configured = plugin.configure(name, &settings.to_string(), Life::Kept { instances: 1 });
    Link::ready(configured.expect("the settings load"), true)
}

fn round_us(chain: &Chain, calls: Calls, round: usize, pause: Option<Duration>) -> f64 {
    let mut counters = Counters::default();
    let count = if pause.is_some() { DECISIONS_APART } else { DECISIONS };
    let first = round * DECISIONS;
    let calls = calls.from(first, count);
    let time_us = |call: &Call| {
        std::thread::sleep(pause.unwrap_or_default());
        let begun = Instant::now();
        // As they arrive: nothing has been made of them yet.
        let call = Call { arguments: call.arguments.text().into(), ..call.clone() };
        let case = Case { evaluated: evaluate(chain.opinions(&call)), call };
        let settled = settle(&case, Present { generation: 1, now: Moment::default() }, &mut counters);
        let time = micros(begun);
        let decision = black_box(settled).expect("it is of this generation").decision;
        assert!(matches!(decision, Decision::Allowed { .. }), "{decision:?}");
        counters.settle();
        time
    };
    median(&mut calls.iter().map(time_us).collect::<Vec<f64>>())
}

impl Calls {
    /// So many calls, no two alike; numbers that were used before give the same calls again.
    fn from(self, first: usize, count: usize) -> Vec<Call> {
        let agent = Agent {
            id: "agt_1".to_owned(),
            name: policy::AGENT.parse().expect("a name"),
            evidence: "declared".to_owned(),
        };
        let server = Server { id: String::new(), name: SERVER.parse().expect("a name") };
        let caller = Caller { agent: Some(agent), client: "bench".to_owned(), server, attributes: Vec::new() };
        let caller = Arc::new(caller);
        (first..first + count).map(|number| self.call(&caller, number)).collect()
    }

    fn call(self, caller: &Arc<Caller>, number: usize) -> Call {
        let arguments =
            format!(r#"{{"path":"/home/user/project/src/main.rs","head":{number},"encoding":"utf-8","follow":true}}"#);
        let listed = match self {
            Self::OfOneTool => None,
            Self::AllNew => {
                let definition = Digest::of(&number.to_le_bytes());
                Some(Arc::new(Listed { annotations: None, definition }))
            }
        };
        Call {
            binding: Binding { connection: 1, sequence: 1, frame: Digest::of(b"frame") },
            session: SessionId::from_random([7; 16]),
            request_id: "1".to_owned(),
            caller: Arc::clone(caller),
            tool: TOOL.to_owned(),
            listed,
            arguments: arguments.into(),
        }
    }
}

struct Silence;

impl LogSink for Silence {
    fn take(&self, _: LogBatch<'_>) {}
}
