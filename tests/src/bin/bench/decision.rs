//! The decision alone, as the daemon makes it: the chain's opinions, the ruling, what becomes of it. No journal.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use callgate_core::call::Call;
use callgate_core::canonical;
use callgate_core::digest::Digest;
use callgate_core::evaluate::{ChainDefault, evaluate};
use callgate_core::identity::{Caller, Server, SessionId};
use callgate_core::permit::Binding;
use callgate_core::port::Evaluator;
use callgate_core::settle::{Decision, decision};
use callgate_plugin::{Chain, Engine, Life, Limits, Link, LogBatch, LogSink};
use serde_json::{Value, json};

use crate::bars;
use crate::report::{Report, median};
use crate::subject::micros;

const DECISIONS: u32 = 2_000;
const RULE_COUNTS: [usize; 3] = [10, 1_000, 10_000];

pub(crate) fn measure(report: &mut Report, rounds: usize) {
    let engine = Engine::new(Limits::SHIPPED, None, Arc::new(Silence)).expect("an engine can be had");
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist/rules.wasm");
    let plugin = engine.load(&std::fs::read(component).expect("the component is there")).expect("the component loads");
    let chains = RULE_COUNTS.map(|count| {
        let settings = json!({ "rules": rules(count) }).to_string();
        let configured = plugin.configure("rules", &settings, Life::Kept { instances: 1 }).expect("the rules load");
        Chain::new(1, ChainDefault::Deny, vec![Link::ready(configured, true)])
    });
    let call = example();
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (chain, times) in chains.iter().zip(&mut times) {
            times.push(round_us(chain, &call));
        }
    }
    let [few, many, most] = times.map(|mut times| median(&mut times));
    report.figure("10 rules", few);
    report.barred("1,000 rules", many, bars::DECISION_US);
    report.figure("10,000 rules", most);
    report.barred("  10,000 rules, times 10 rules", most / few, bars::DECISION_GROWTH);
}

/// As people write them: mostly exact names, some globs, some for one server; the call at hand meets an exact one.
fn rules(count: usize) -> Vec<Value> {
    let rule = |number: usize| match number % 10 {
        0 => json!({ "effect": "deny", "tool": format!("admin_{number}_*") }),
        1 => json!({ "effect": "ask", "tool": format!("*_secret_{number}") }),
        2 => json!({ "effect": "deny", "tool": format!("write_{number}"), "server": "other" }),
        _ => json!({ "effect": "deny", "tool": format!("tool_{number}") }),
    };
    (1..count).map(rule).chain([json!({ "effect": "allow", "tool": "read_file" })]).collect()
}

fn round_us(chain: &Chain, call: &Call) -> f64 {
    let mut times: Vec<f64> = (0..DECISIONS)
        .map(|_| {
            let begun = Instant::now();
            // The digest is made for every call, and so belongs to what a decision costs.
            let call = Call { arguments_digest: canonical::digest(&call.arguments), ..call.clone() };
            let decided = decision(&evaluate(chain.opinions(&call)).ruling);
            let time = micros(begun);
            assert!(matches!(black_box(decided), Decision::Allowed { .. }), "the rules allow it");
            time
        })
        .collect();
    median(&mut times)
}

fn example() -> Call {
    let arguments = r#"{"path":"/home/user/project/src/main.rs","head":200,"encoding":"utf-8","follow":true}"#;
    let server = Server { id: String::new(), name: "fs".parse().expect("a name") };
    Call {
        binding: Binding { connection: 1, sequence: 1, frame: Digest::of(b"frame") },
        session: SessionId::from_random([7; 16]),
        request_id: "1".to_owned(),
        caller: Arc::new(Caller { agent: None, client: "bench".to_owned(), server, attributes: Vec::new() }),
        tool: "read_file".to_owned(),
        listed: None,
        arguments: arguments.into(),
        arguments_digest: canonical::digest(arguments),
    }
}

struct Silence;

impl LogSink for Silence {
    fn take(&self, _: LogBatch<'_>) {}
}
