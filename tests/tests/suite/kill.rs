//! The daemon is killed, again and again, with calls in flight: what was acknowledged is in the journal, and what reached
//! a server was allowed there first. `CALLGATE_KILLS` says how often; 50 times unless told otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use callgate_core::digest::Digest;
use callgate_tests::frame::call;
use callgate_tests::home::Home;
use callgate_tests::journal::{self, Entry};
use callgate_tests::relay::{self, Relay};
use callgate_tests::wait;
use serde_json::{Value, json};

const RELAYS: usize = 16;
/// As many calls are answered between two kills at least, over all relays: kills meet calls at every stage.
const CALLS_BETWEEN: u64 = 40;

fn kills() -> u32 {
    std::env::var("CALLGATE_KILLS").map_or(50, |count| count.parse().expect("CALLGATE_KILLS is a number"))
}

/// What one client was told.
#[derive(Default)]
struct Told {
    /// The ids of calls whose result came from the server.
    allowed: Vec<u64>,
    /// The journal entries that refusals named, by id.
    refused: BTreeMap<u64, Option<u64>>,
}

#[test]
fn a_killed_daemon_loses_no_acknowledged_decision() {
    let home = Home::configured("relay: { decision_deadline: 20s }");
    let _ = home.ok(&["policy", "deny", "drop"]);
    let (answered, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..RELAYS)
        .map(|number| {
            let record = record(&home, number);
            let relay = home.relay(&format!("s{number}")).start(relay::fixture(&record));
            client(relay, number, Arc::clone(&answered), Arc::clone(&done))
        })
        .collect();
    let mut daemons = BTreeSet::new();
    for _ in 0..kills() {
        let target = answered.load(Ordering::Relaxed) + CALLS_BETWEEN;
        wait::until_true("calls to be answered", || answered.load(Ordering::Relaxed) >= target);
        let daemon = wait::until("a daemon", || home.daemons().first().map(|daemon| daemon.pid));
        home.kill_daemon(daemon);
        daemons.insert(daemon);
    }
    done.store(true, Ordering::Relaxed);
    let told: Vec<(Relay, Told)> =
        clients.into_iter().map(|client| client.join().expect("the client went on")).collect();
    assert_eq!(daemons.len(), usize::try_from(kills()).unwrap(), "every kill met a daemon of its own");

    // The last daemon closes what the killed ones left open; the sessions that still live report theirs themselves.
    let mut clients = Vec::new();
    for (mut relay, told) in told {
        relay.settled();
        assert_eq!(relay.close().code(), 0);
        clients.push(told);
    }
    is_sound(&home);
    let journal = Journal::read(&home);
    for (number, told) in clients.iter().enumerate() {
        journal.holds(number, told);
        journal.allowed_before(number, &record(&home, number));
    }
    journal.leaves_nothing_open(&home);
}

/// The journal verifies, by Callgate and by the verifier that shares nothing with it, and both find one head in it.
#[track_caller]
pub(crate) fn is_sound(home: &Home) {
    let proved = home.ok(&["verify", "--json"]).json();
    let head = proved["head"].as_str().expect("a sound journal has a head");
    if journal::verified_by_python(&home.database(), head).is_none() {
        crate::skipped("verifier", "there is no python3");
    }
}

fn record(home: &Home, number: usize) -> PathBuf {
    home.path().join(format!("received-{number}"))
}

/// Calls without a pause, two in flight, and keeps what it was told.
fn client(
    mut relay: Relay,
    number: usize,
    answered: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
) -> JoinHandle<(Relay, Told)> {
    thread::spawn(move || {
        let mut told = Told::default();
        let mut id = 0;
        while !done.load(Ordering::Relaxed) {
            for id in [id, id + 1] {
                relay.send_line(frame(number, id));
            }
            for id in [id, id + 1] {
                told.note(id, &relay.answer(&json!(id)));
                answered.fetch_add(1, Ordering::Relaxed);
            }
            id += 2;
        }
        (relay, told)
    })
}

/// Every fifth call is one that a rule denies.
fn frame(number: usize, id: u64) -> String {
    let tool = if id % 5 == 4 { "drop" } else { "echo" };
    call(&id.to_string(), tool, &format!(r#"{{"message":"{number}/{id}"}}"#))
}

impl Told {
    fn note(&mut self, id: u64, answer: &Value) {
        let decision = &answer["result"]["_meta"]["dev.callgate/decision"];
        if decision.is_null() {
            assert_eq!(answer["result"]["content"][0]["type"], "text", "{answer}");
            self.allowed.push(id);
        } else {
            self.refused.insert(id, decision["entry"].as_u64());
        }
    }
}

struct Journal {
    entries: Vec<Entry>,
    /// Decisions by server and request id; an id may be decided once.
    decisions: BTreeMap<(String, String), Entry>,
}

impl Journal {
    fn read(home: &Home) -> Self {
        let entries = home.entries();
        let mut decisions = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.kind == "call.decision") {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let key = (text(&entry.body["server"]["name"]), text(&entry.body["request_id"]));
            assert!(decisions.insert(key, entry.clone()).is_none(), "a call was decided twice: {entry:?}");
        }
        Self { entries, decisions }
    }

    fn decision(&self, number: usize, id: u64) -> Option<&Entry> {
        self.decisions.get(&(format!("s{number}"), id.to_string()))
    }

    /// What the client was told stands in the journal.
    fn holds(&self, number: usize, told: &Told) {
        assert!(!told.allowed.is_empty(), "client {number} never had a call allowed");
        for id in &told.allowed {
            let entry = self
                .decision(number, *id)
                .unwrap_or_else(|| panic!("call {id} of client {number} was allowed and its decision is lost"));
            assert_eq!(entry.body["decision"], "allowed", "call {id} of client {number}: {entry:?}");
        }
        for (id, named) in &told.refused {
            let Some(named) = named else { continue };
            let entry = self
                .decision(number, *id)
                .unwrap_or_else(|| panic!("entry {named} was named to client {number} and is lost"));
            assert_eq!(
                (entry.seq, &entry.body["code"]),
                (*named, &json!("rules/deny")),
                "call {id} of client {number}"
            );
        }
    }

    /// What reached the server was allowed, frame for frame.
    fn allowed_before(&self, number: usize, record: &Path) {
        let received = relay::recorded(record);
        let mut seen = BTreeSet::new();
        for line in received.split_inclusive(|&byte| byte == b'\n') {
            let message = relay::json(line);
            let Some(id) = message["id"].as_u64() else { continue };
            assert!(seen.insert(id), "call {id} reached server {number} twice");
            let entry =
                self.decision(number, id).unwrap_or_else(|| panic!("call {id} reached server {number} undecided"));
            assert_eq!(entry.body["decision"], "allowed", "call {id} reached server {number}: {entry:?}");
            assert_eq!(
                entry.body["frame"],
                Digest::of(line).to_string(),
                "another frame than the judged one reached server {number}"
            );
        }
    }

    /// Every allowed call has an outcome: told by its relay, or unknown since a crash.
    fn leaves_nothing_open(&self, home: &Home) {
        let closed = |entries: &[Entry]| -> BTreeSet<u64> {
            let closing =
                entries.iter().filter(|entry| entry.kind == "call.outcome" || entry.kind == "outcome.unknown");
            closing.filter_map(|entry| entry.body["decision"].as_u64()).collect()
        };
        let allowed: Vec<u64> = self
            .decisions
            .values()
            .filter(|entry| entry.body["decision"] == "allowed")
            .map(|entry| entry.seq)
            .collect();
        wait::until("every allowed call's outcome", || {
            let closed = closed(&home.entries());
            allowed.iter().all(|seq| closed.contains(seq)).then_some(())
        });
        // A kill may meet a daemon that has not begun to serve yet; most have to meet one at work.
        let starts = self.entries.iter().filter(|entry| entry.kind == "daemon.start").count();
        assert!(
            2 * starts > usize::try_from(kills()).unwrap(),
            "only {starts} daemons were at work when they were killed"
        );
    }
}

#[test]
fn a_call_that_a_crash_left_open_becomes_unknown() {
    let home = Home::new();
    let mut relay = home.relay("fs").start(relay::fixture(&home.path().join("received")));
    relay.send_line(call("1", "never", "{}"));
    relay.settled();
    let daemon = home.daemon_pid().unwrap();
    let allowed = home.entries().into_iter().find(|entry| entry.body["tool"] == "never").unwrap();
    // Both go at once, so that nobody is left to tell what came of the call.
    let relay_pid = relay.pid();
    home.kill_daemon(daemon);
    callgate_tests::process::signal(relay_pid, rustix::process::Signal::KILL);
    drop(relay);
    home.start_daemon();
    let unknown = home.entry("the unknown outcome", |entry| entry.kind == "outcome.unknown");
    assert_eq!(unknown.body["decision"], allowed.seq);
    assert!(unknown.body.get("outcome").is_none());
    is_sound(&home);
}

#[test]
fn a_call_is_on_disk_before_its_server_sees_it() {
    let home = Home::new();
    let mut relay = home.relay("fs").start(relay::fixture(&home.path().join("received")));
    relay.settled();
    for id in 0..10 {
        // The server kills the daemon as the first thing it does with the call.
        let daemon = wait::until("a daemon", || home.daemon_pid());
        let frame = call(&id.to_string(), "kill", &format!(r#"{{"pid":{daemon}}}"#));
        relay.send_line(&frame);
        let answer = relay.answer(&json!(id));
        if answer["result"]["isError"] == true {
            continue;
        }
        wait::until_true("the daemon's end", || !callgate_tests::process::lives(daemon));
        let digest = Digest::of(&callgate_tests::frame::line(&frame)).to_string();
        let entry = home.entries().into_iter().find(|entry| entry.body["frame"] == digest.as_str());
        assert!(
            entry.is_some_and(|entry| entry.body["decision"] == "allowed"),
            "call {id} ran and is not in the journal"
        );
        // Until the next daemon decides, calls are refused.
        wait::until_true("the next daemon", || relay.call("\"again\"", "echo", "{}")["result"]["isError"] != true);
    }
    assert_eq!(relay.close().code(), 0);
    is_sound(&home);
}
