//! The gate over a real journal, with plugins that do what no shipped one does.

use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::entry::Outcome;
use callgate_core::evaluate::{ChainDefault, Member};
use callgate_journal::{Filter, Reader};
use callgate_plugin::{Limits, Link};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::fixture::{Guest, allow, engine, ready};
use super::*;
use crate::environment::Environment;

#[path = "../../../plugin/tests/suite/fixture.rs"]
#[expect(dead_code, reason = "the plugin crate's own tests use the rest")]
mod fixture;

/// An open gate in a home of its own.
pub(in crate::daemon) struct Opened {
    pub(in crate::daemon) gate: Gate,
    home: Home,
    _folder: TempDir,
}

impl Opened {
    /// One that allows every call.
    pub(in crate::daemon) fn new() -> Self {
        Self::with(Vec::new())
    }

    /// One with this chain, whose shipped plugin does not load.
    fn with(links: Vec<Link>) -> Self {
        let (folder, home) = home();
        let gate = gate(&home);
        let state = {
            let plugins = crate::daemon::plugins::Plugins::new(home.clone(), Err("it is not WebAssembly".to_owned()));
            gate.state_with(Arc::new(Policies::of(
                Err("it is not WebAssembly".to_owned()),
                ChainDefault::Deny,
                plugins,
            )))
        };
        *gate.state() = state;
        gate.serving().unwrap().switch.set(Chain::new(0, ChainDefault::Allow, links));
        Self { gate, home, _folder: folder }
    }

    /// The kinds of the journal's entries.
    pub(in crate::daemon) fn kinds(&self) -> Vec<String> {
        self.entries().into_iter().map(|entry| entry.kind).collect()
    }

    fn entries(&self) -> Vec<callgate_journal::Entry> {
        let reader = Reader::open(&self.home.database(), None).unwrap();
        reader.page(0, &Filter::default(), 100).unwrap().entries
    }

    /// The body of an entry.
    fn body(&self, seq: u64) -> Value {
        let entry = self.entries().into_iter().find(|entry| entry.seq == seq).unwrap();
        serde_json::from_slice(&entry.body).unwrap()
    }
}

fn home() -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let at = Some(folder.path().to_owned());
    let home = Home::find(&Environment { callgate_home: at, ..Environment::default() }).unwrap();
    (folder, home)
}

fn gate(home: &Home) -> Gate {
    Gate::new(home.clone(), Config::load(&home.config_file()).unwrap())
}

fn rule(effect: &str) -> RuleEntry {
    serde_json::from_value(json!({ "effect": effect, "tool": "write_file" })).unwrap()
}

fn question(arguments: &str) -> Explain {
    Explain { tool: "write_file".to_owned(), agent: None, server: None, arguments: arguments.to_owned() }
}

fn broken(why: &str) -> Link {
    let member =
        Member { plugin: "guard".to_owned(), component: Digest::of(b"component"), settings: Digest::of(b"settings") };
    Link::broken(member, why)
}

fn problems(gate: &Gate) -> Vec<String> {
    let CommandReply::Status(status) = gate.status() else { panic!("no status") };
    status.problems
}

#[test]
fn a_change_that_was_committed_unseen_is_in_force_from_the_next_call_on() {
    let (_folder, home) = home();
    let gate = gate(&home);
    gate.open();
    let allowed = |gate: &Gate| {
        let verdicts = gate.decide(vec![imagined(question("{}")).ok().unwrap()]);
        matches!(verdicts[..], [Verdict::Permitted(_)])
    };
    assert!(allowed(&gate));

    // What a lost answer to a COMMIT leaves: the change is in the journal and the chain was not swapped.
    let denied = RuleChange::Add(rule("deny"));
    gate.serving().unwrap().journal.change_rule(denied, 0, Box::new(|_| ())).unwrap();
    assert!(!allowed(&gate));
    let removed = RuleChange::Remove(rule("deny").key);
    assert!(matches!(gate.change(removed), CommandReply::Changed { .. }));
    assert!(allowed(&gate));
}

#[test]
fn a_plugin_that_fails_refuses_the_call_and_the_journal_says_how() {
    let limits = Limits { fuel: 1_000_000, memory_bytes: 1 << 20, ..Limits::SHIPPED };
    let engine = engine(limits);
    let allowing = || Link::ready(ready(&engine, &Guest::answering(&allow())), true);
    let deciding = |body: &str| Link::ready(ready(&engine, &Guest::deciding(body)), true);
    let small = || fixture::call("echo");
    let argument = "x".repeat(limits.argument_bytes + 1);
    let large = Call { arguments: json!({ "a": argument }).to_string().into(), ..small() };
    let growing = "(loop (drop (memory.grow (i32.const 1))) (br 0)) unreachable";
    let cases = [
        (Code::PluginNotReady, broken("its settings do not load"), small()),
        (Code::PluginTrap, deciding("unreachable"), small()),
        (Code::PluginFuel, deciding("(loop (br 0)) unreachable"), small()),
        (Code::PluginMemory, deciding(growing), small()),
        (Code::CallTooLarge, allowing(), large),
    ];
    for (code, link, call) in cases {
        let opened = Opened::with(vec![allowing(), link]);
        let verdicts = opened.gate.decide(vec![call]);
        let [Verdict::Refused { reason, entry: Some(entry) }] = &verdicts[..] else { panic!("{code}: {verdicts:?}") };
        assert_eq!(reason.code, code);
        let body = opened.body(*entry);
        assert_eq!((&body["decision"], &body["code"]), (&json!("error"), &json!(code)), "{body}");
    }
}

#[test]
fn the_status_names_a_plugin_that_is_not_ready() {
    assert_eq!(problems(&Opened::new().gate), Vec::<String>::new());
    let opened = Opened::with(vec![broken("its settings do not load")]);
    let expected = "every call is refused: the plugin guard is not ready: its settings do not load";
    assert_eq!(problems(&opened.gate), [expected]);
}

#[test]
fn the_status_tells_of_notes_that_are_not_in_the_journal() {
    let opened = Opened::new();
    // No call awaits it.
    opened.gate.note_outcome(
        &SessionId::from_random([1; 16]),
        &CallOutcome { decision: 99, outcome: Outcome::Ok, took_ms: None },
    );
    opened.gate.serving().unwrap().journal.flush().unwrap();
    let expected = "outcomes and oddities that are not in the journal: 0 found no room, 1 did not belong";
    assert_eq!(problems(&opened.gate), [expected]);
}

#[test]
fn a_problem_and_its_hint_are_one() {
    let (folder, home) = home();
    std::fs::write(folder.path().join("journal.db"), "").unwrap();
    let gate = gate(&home);
    gate.open();
    let problems = problems(&gate);
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(problem.starts_with("the journal is not the one") && problem.contains(" (hint: put "), "{problem}");
}

#[test]
fn every_failure_of_the_journal_has_a_next_step() {
    let opened = Opened::new();
    let failures = [
        (LedgerFailure::Full, "free some space"),
        (LedgerFailure::Foreign("it was swapped".to_owned()), "journal back"),
        (LedgerFailure::WriteFailed("an I/O error".to_owned()), "the daemon's log"),
        (LedgerFailure::Overload, "try again"),
    ];
    for (failure, expected) in failures {
        for reply in [opened.gate.unchanged(&RuleError::Unwritten(failure.clone())), opened.gate.shut(&failure)] {
            let CommandReply::Failed { hint: Some(hint), fault: Fault::Environment, .. } = reply else {
                panic!("{reply:?}");
            };
            assert!(hint.contains(expected), "{hint}");
        }
    }
}

#[test]
fn a_plugin_that_does_not_work_is_not_the_fault_of_the_rule() {
    let opened = Opened::new();
    let reply = opened.gate.change(RuleChange::Add(rule("deny")));
    let CommandReply::Failed { message, hint: Some(_), fault: Fault::Environment } = &reply else {
        panic!("{reply:?}")
    };
    assert!(message.contains("does not load: it is not WebAssembly"), "{message}");
}

#[test]
fn an_imagined_call_is_read_as_the_relay_reads_one() {
    let deep = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    // The message and its params are two levels more.
    for arguments in ["{}", r#" {"a": 1} "#, &deep(125)] {
        let Ok(call) = imagined(question(arguments)) else { panic!("{arguments} is refused") };
        assert_eq!(&*call.arguments, arguments.trim());
    }
    let refused = [
        (r#"{"a":1,"a":2}"#, "(repeated-key)"),
        (&deep(126), "(too-deep)"),
        (r#"{"a":NaN}"#, "(not-json)"),
        (r#"{"a":"\ud800"}"#, "(lone-surrogate)"),
        ("[]", "(bad-call)"),
        ("null", "(bad-call)"),
        ("", "(not-json)"),
        (r#"{},"_meta":{}"#, "not one JSON object"),
        (r#"{}},"z":{"#, "not one JSON object"),
        (r#"{},"name":"read_file""#, "(repeated-key)"),
    ];
    for (arguments, expected) in refused {
        let Err(reply) = imagined(question(arguments)) else { panic!("{arguments} passes") };
        let CommandReply::Failed { message, hint: Some(_), fault: Fault::Request } = reply else {
            panic!("{reply:?}");
        };
        assert!(message.contains(expected), "{arguments}: {message}");
    }
}
