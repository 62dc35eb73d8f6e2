//! The gate over a real journal, with plugins that do what no shipped one does.

use callgate_core::agent::Named;
use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::entry::Outcome;
use callgate_core::evaluate::{ChainDefault, Member};
use callgate_core::policy::{PolicyChange, PolicyItem};
use callgate_ipc::agents::Enrol;
use callgate_ipc::message::Fault;
use callgate_journal::{Filter, PolicyError, Reader};
use callgate_plugin::{Limits, Link};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::fixture::{Guest, allow, engine, ready};
use super::*;
use crate::daemon::plugins::Plugins;
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
        let load = |_: &[u8]| Err("it is not WebAssembly".to_owned());
        let plugins = Plugins::new(home.clone(), Err("there is no engine".to_owned()));
        let state = gate.state_with(Arc::new(Policies::of(load, ChainDefault::Deny, plugins)));
        *gate.state() = state;
        gate.serving().unwrap().switch.set(Chain::new(0, ChainDefault::Allow, links));
        Self { gate, home, _folder: folder }
    }

    /// The kinds of the journal's entries.
    pub(in crate::daemon) fn kinds(&self) -> Vec<String> {
        self.entries().into_iter().map(|entry| entry.kind).collect()
    }

    fn entries(&self) -> Vec<callgate_journal::Entry> {
        self.gate.serving().unwrap().journal.flush().unwrap();
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
    Gate::new(
        home.clone(),
        Config::load(&home.config_file()).unwrap(),
        None,
        Stores::new(home.sealed_file(), None).unwrap(),
    )
}

fn rule(effect: &str) -> PolicyItem {
    item(json!({ "rule": { "effect": effect, "tool": "write_file" } }))
}

fn item(json: Value) -> PolicyItem {
    serde_json::from_value(json).unwrap()
}

fn adding(json: Value) -> Vec<PolicyChange> {
    vec![PolicyChange::Add(item(json))]
}

fn question(arguments: &str) -> Explain {
    Explain { tool: "write_file".to_owned(), agent: None, server: None, arguments: arguments.to_owned(), session: None }
}

fn broken(why: &str) -> Link {
    let member =
        Member { plugin: "guard".to_owned(), component: Digest::of(b"component"), settings: Digest::of(b"settings") };
    Link::broken(member, why)
}

fn problems(gate: &Gate) -> Vec<String> {
    let CommandReply::Status(status) = gate.status() else { panic!("no status") };
    status.problems.into_iter().map(|problem| problem.to_string()).collect()
}

#[test]
fn a_change_that_was_committed_unseen_is_in_force_from_the_next_call_on() {
    let (_folder, home) = home();
    let gate = gate(&home);
    gate.open();
    let allowed = |gate: &Gate| {
        let verdicts = gate.decide(vec![imagined(question("{}"), &Agents::default()).ok().unwrap()]);
        matches!(verdicts[..], [Verdict::Permitted(_)])
    };
    assert!(allowed(&gate));

    // What a lost answer to a COMMIT leaves: the change is in the journal and the chain was not swapped.
    let denied = vec![PolicyChange::Add(rule("deny"))];
    gate.serving().unwrap().journal.change_policy(denied, 0, Box::new(|_| ())).unwrap();
    assert!(!allowed(&gate));
    let removed = vec![PolicyChange::Remove(rule("deny").key())];
    assert!(matches!(gate.change(removed), CommandReply::Changed(_)));
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
    let expected = "every call is refused: the plugin guard is not ready: its settings do not load (hint: see callgate \
                    plugin show guard and the daemon's log)";
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
    let expected = "outcomes and oddities that are not in the journal: 0 found no room, 1 did not belong (hint: ";
    let problems = problems(&opened.gate);
    assert!(matches!(&problems[..], [problem] if problem.starts_with(expected)), "{problems:?}");
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
        for reply in [opened.gate.unchanged(&PolicyError::Unwritten(failure.clone())), opened.gate.shut(&failure)] {
            let CommandReply::Failed { hint: Some(hint), fault: Fault::Environment, .. } = reply else {
                panic!("{reply:?}");
            };
            assert!(hint.contains(expected), "{hint}");
        }
    }
}

#[test]
fn a_plugin_that_does_not_work_is_not_the_fault_of_the_item() {
    let opened = Opened::new();
    for (item, plugin) in [
        (json!({ "rule": { "effect": "deny", "tool": "x" } }), "rules"),
        (json!({ "budget": { "limit": 1, "tool": "x" } }), "budget"),
        (json!({ "grant": { "agent": "a", "server": "s", "tool": "x" } }), "arguments"),
    ] {
        let reply = opened.gate.change(adding(item));
        let CommandReply::Failed { message, hint: Some(_), fault: Fault::Environment } = &reply else {
            panic!("{reply:?}")
        };
        assert!(message.starts_with(&format!("the {plugin} plugin does not work")), "{message}");
        assert!(message.contains("does not load: it is not WebAssembly"), "{message}");
    }
    assert_eq!(opened.kinds(), ["daemon.start"], "nothing was changed");
}

/// A gate as shipped.
fn shipped() -> (TempDir, Gate) {
    let (folder, home) = home();
    let gate = gate(&home);
    gate.open();
    (folder, gate)
}

fn links(gate: &Gate) -> Vec<Link> {
    gate.serving().unwrap().chain().links().to_vec()
}

#[test]
fn a_change_configures_the_plugin_it_is_about_and_one_with_nothing_to_say_is_not_asked() {
    let (_folder, gate) = shipped();
    let names = |gate: &Gate| -> Vec<String> { links(gate).iter().map(|link| link.member().plugin.clone()).collect() };
    assert_eq!(names(&gate), ["rules"]);
    let grant = json!({ "grant": { "agent": "a", "server": "s", "tool": "x" } });
    let budget = json!({ "budget": { "limit": 1, "tool": "x" } });
    for (item, in_chain, changed) in [
        (grant.clone(), &["rules", "arguments"][..], "arguments"),
        (budget, &["rules", "budget", "arguments"], "budget"),
        (json!({ "rule": { "effect": "deny", "tool": "x" } }), &["rules", "budget", "arguments"], "rules"),
    ] {
        let was = links(&gate);
        assert!(matches!(gate.change(adding(item)), CommandReply::Changed(_)));
        assert_eq!(names(&gate), in_chain);
        for link in links(&gate) {
            let before = was.iter().find(|before| before.member().plugin == link.member().plugin);
            let is_kept = before.is_some_and(|before| before.is_the_same(&link) && before.member() == link.member());
            assert_eq!(is_kept, link.member().plugin != changed, "{}", link.member().plugin);
        }
    }
    let removed = PolicyChange::Remove(item(grant).key());
    assert!(matches!(gate.change(vec![removed]), CommandReply::Changed(_)));
    assert_eq!(names(&gate), ["rules", "budget"]);
}

#[test]
fn a_broken_plugin_denies_where_it_is_asked_and_does_not_keep_the_others_from_changing() {
    let (_folder, home) = home();
    let grant = json!({ "grant": { "agent": "a", "server": "s", "tool": "x" } });
    {
        let gate = gate(&home);
        gate.open();
        assert!(matches!(gate.change(adding(grant)), CommandReply::Changed(_)));
    }
    let gate = gate(&home);
    let engine = engine(Limits::SHIPPED);
    let load = |component: &[u8]| {
        let broken = component.len() == include_bytes!("../../../../plugins/dist/arguments.wasm").len();
        if broken {
            Err("it is not WebAssembly".to_owned())
        } else {
            engine.load(component).map_err(|error| error.to_string())
        }
    };
    let plugins = Plugins::new(home, Ok(engine.clone()));
    let state = gate.state_with(Arc::new(Policies::of(load, ChainDefault::Deny, plugins)));
    *gate.state() = state;
    let code = |gate: &Gate| match &gate.decide(vec![imagined(question("{}"), &Agents::default()).ok().unwrap()])[..] {
        [Verdict::Refused { reason, .. }] => reason.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(&gate), Code::PluginNotReady);
    let denied = gate.change(adding(json!({ "rule": { "effect": "deny", "tool": "write_file" } })));
    assert!(matches!(denied, CommandReply::Changed(_)), "{denied:?}");
    assert_eq!(code(&gate), Code::Policy, "the earlier of two that deny speaks");
    let granted = gate.change(adding(json!({ "grant": { "agent": "a", "server": "s", "tool": "y" } })));
    assert!(matches!(granted, CommandReply::Failed { fault: Fault::Environment, .. }), "{granted:?}");
}

#[test]
fn a_warning_is_told_once_and_only_of_what_is_new() {
    let (_folder, gate) = shipped();
    let grant =
        |tool: &str, args: Value| json!({ "grant": { "agent": "a", "server": "s", "tool": tool, "args": args } });
    let warnings = |reply: CommandReply| match reply {
        CommandReply::Changed(changed) => changed.warnings,
        other => panic!("{other:?}"),
    };
    let add = |item: Value| warnings(gate.change(adding(item)));
    // Nobody is called so yet; from here on somebody is.
    assert_eq!(add(grant("x", json!({ "path": "/srv/**" }))).len(), 1);
    let this = Named { program: std::env::current_exe().unwrap().to_str().unwrap().to_owned(), script: None };
    let program = callgate_identity::program::find(&this, None).unwrap();
    let enrolled = gate.enrol(Enrol { name: "a".parse().unwrap(), program, via: Vec::new() });
    assert!(matches!(enrolled, CommandReply::AgentChanged(_)), "{enrolled:?}");
    assert_eq!(add(grant("read", json!({ "path": "/srv/**" }))), [""; 0]);
    let widened = add(grant("re*", json!({})));
    assert!(widened.len() == 1 && widened[0].contains("path=/srv/**"), "{widened:?}");
    assert_eq!(add(grant("other", json!({ "path": "/srv/**" }))), [""; 0], "{widened:?} is old");
    let removed = PolicyChange::Remove(item(grant("other", json!({ "path": "/srv/**" }))).key());
    assert_eq!(warnings(gate.change(vec![removed])), [""; 0]);
}

#[test]
fn what_a_plugin_does_not_take_is_told_by_its_place_in_the_new_item_and_changes_nothing() {
    let (_folder, gate) = shipped();
    let first = json!({ "grant": { "agent": "a", "server": "s", "tool": "x" } });
    assert!(matches!(gate.change(adding(first)), CommandReply::Changed(_)));
    let refused = |item: Value| match gate.change(adding(item)) {
        CommandReply::Failed { message, fault: Fault::Request, .. } => message,
        other => panic!("{other:?}"),
    };
    let grant = |args: Value| json!({ "grant": { "agent": "a", "server": "s", "tool": "x", "args": args } });
    let malformed = refused(grant(json!({ "path": "/srv/[a" })));
    assert!(malformed.starts_with("the arguments plugin does not take this grant: args/path: "), "{malformed}");
    refused(grant(json!({ "path": "re:(" })));
    refused(grant(json!({ "path": "/a/../*" })));
    let nameless = refused(json!({ "budget": { "limit": 1, "tool": "" } }));
    assert!(nameless.starts_with("the budget plugin does not take this budget: tool: "), "{nameless}");
    let status = gate.status();
    assert!(matches!(&status, CommandReply::Status(status) if status.generation == 1), "{status:?}");
}

#[test]
fn an_imagined_call_is_read_as_the_relay_reads_one() {
    let deep = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    // The message and its params are two levels more.
    for arguments in ["{}", r#" {"a": 1} "#, &deep(125)] {
        let Ok(call) = imagined(question(arguments), &Agents::default()) else { panic!("{arguments} is refused") };
        assert_eq!(call.arguments.text(), arguments.trim());
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
        let Err(reply) = imagined(question(arguments), &Agents::default()) else { panic!("{arguments} passes") };
        let CommandReply::Failed { message, hint: Some(_), fault: Fault::Request } = reply else {
            panic!("{reply:?}");
        };
        assert!(message.contains(expected), "{arguments}: {message}");
    }
}
