//! Whatever happens in whatever order, what must hold holds.

use std::collections::{BTreeMap, BTreeSet};

use callgate_core::digest::Digest;
use proptest::prelude::*;

use super::*;

/// Something that happens. The numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Call,
    Ping,
    Cancel(usize),
    Allow(usize),
    Deny(usize),
    Answer(usize),
    Wait(u64),
    ServerReads,
    DaemonGoes,
    DaemonComes,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Call),
        2 => Just(Step::Ping),
        2 => any::<usize>().prop_map(Step::Cancel),
        6 => any::<usize>().prop_map(Step::Allow),
        2 => any::<usize>().prop_map(Step::Deny),
        3 => any::<usize>().prop_map(Step::Answer),
        1 => (0u64..1500).prop_map(Step::Wait),
        3 => Just(Step::ServerReads),
        1 => Just(Step::DaemonGoes),
        3 => Just(Step::DaemonComes),
    ]
}

/// What the test knows of the world around the session.
struct World {
    play: Play,
    /// Every frame that the client sent, by number.
    sent: Vec<String>,
    /// What the daemon was asked on the present connection and has not answered: sequence and call.
    asked: Vec<(u64, u64)>,
    connection: u64,
    /// The calls that were permitted, and the entries that permit them.
    entries: BTreeMap<u64, u64>,
    received: Vec<String>,
    answered: BTreeSet<u64>,
    replies: Vec<u64>,
    outcomes: Vec<u64>,
    /// The frames of calls that are told to be withdrawn.
    withdrawn: Vec<Digest>,
}

impl World {
    fn new() -> Self {
        Self {
            play: Play::new(),
            sent: Vec::new(),
            asked: Vec::new(),
            connection: 0,
            entries: BTreeMap::new(),
            received: Vec::new(),
            answered: BTreeSet::new(),
            replies: Vec::new(),
            outcomes: Vec::new(),
            withdrawn: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Call => self.send(|number| call_frame(number, "a", "{}")),
            Step::Ping => {
                self.send(|number| format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"ping\"}}\n"));
            }
            Step::Cancel(which) if !self.sent.is_empty() => {
                let id = which % self.sent.len();
                self.send(|number| {
                    let params = json!({ "requestId": id, "reason": number });
                    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string()
                        + "\n"
                });
            }
            Step::Allow(which) if !self.asked.is_empty() => {
                let (sequence, number) = self.asked.remove(which % self.asked.len());
                let entry = 1000 * self.connection + sequence;
                self.entries.insert(number, entry);
                let frame = Digest::of(self.sent[index(number)].as_bytes());
                let binding = Binding { connection: self.connection, sequence, frame };
                let permit = serde_json::from_value(json!({ "binding": binding, "entry": entry })).unwrap();
                self.play.daemon(&ToRelay::Permitted(permit));
            }
            Step::Deny(which) if !self.asked.is_empty() => {
                let (sequence, _) = self.asked.remove(which % self.asked.len());
                self.play.deny(sequence);
            }
            Step::Answer(which) if !self.received.is_empty() => {
                let frame: Value = serde_json::from_str(&self.received[which % self.received.len()]).unwrap();
                if let Some(id) = frame["id"].as_u64().filter(|id| self.answered.insert(*id)) {
                    self.play.server(&answer(id));
                }
            }
            Step::Wait(milliseconds) => self.play.wait(Duration::from_millis(*milliseconds)),
            Step::ServerReads => self.server_reads(),
            Step::DaemonGoes if self.play.session.link.is_connected() => {
                self.play.session.lost_daemon("", self.play.now);
            }
            Step::DaemonComes if !self.play.session.link.is_connected() => {
                self.connection += 1;
                self.play.connect(self.connection);
            }
            Step::Cancel(_)
            | Step::Allow(_)
            | Step::Deny(_)
            | Step::Answer(_)
            | Step::DaemonGoes
            | Step::DaemonComes => {}
        }
        self.listen();
    }

    fn send(&mut self, frame: impl FnOnce(u64) -> String) {
        let frame = frame(u64::try_from(self.sent.len()).unwrap());
        self.play.client(&frame);
        self.sent.push(frame);
    }

    fn server_reads(&mut self) {
        let text = self.play.server_gets();
        self.received.extend(text.split_inclusive('\n').map(str::to_owned));
    }

    /// Hears what the session says to client and daemon.
    fn listen(&mut self) {
        for told in self.play.told() {
            match told {
                FromRelay::Open(_) => self.asked.clear(),
                FromRelay::Decide(decide) => self.asked.push((decide.sequence, decide.request_id.parse().unwrap())),
                FromRelay::Outcome(outcome) => self.outcomes.push(outcome.decision),
                FromRelay::Anomaly(Anomaly { code: Code::Withdrawn, frame, .. }) => {
                    self.withdrawn.push(frame.unwrap());
                }
                FromRelay::Anomaly(_) | FromRelay::Close(_) => {}
            }
        }
        if !self.play.session.link.is_connected() {
            self.asked.clear();
        }
        for (id, code) in self.play.answers() {
            self.replies.extend(code.and(id.as_u64()));
        }
    }

    fn end(&mut self) {
        self.server_reads();
        self.play.session.server_stopped_listening(self.play.now);
        self.server_reads();
        self.play.session.server_gone(self.play.now);
        if !self.play.session.link.is_connected() {
            self.connection += 1;
            self.play.connect(self.connection);
        }
        self.listen();
    }

    fn check(&self) {
        let received: Vec<usize> =
            self.received.iter().map(|frame| self.sent.iter().position(|sent| sent == frame).unwrap()).collect();
        let (calls, messages): (Vec<_>, Vec<_>) =
            received.into_iter().partition(|number| self.sent[*number].contains("tools/call"));
        assert!(calls.is_sorted(), "released calls keep their order: {calls:?}");
        assert!(messages.is_sorted(), "messages keep their order: {messages:?}");
        let mut dropped = 0;
        let calls = self.sent.iter().enumerate().filter(|(_, frame)| frame.contains("tools/call"));
        for (number, frame) in calls {
            let number = u64::try_from(number).unwrap();
            let forwarded = self.received.contains(frame);
            let refused = self.replies.iter().filter(|id| **id == number).count();
            assert!(!forwarded || self.entries.contains_key(&number), "{number} went without a permit");
            assert!(refused <= 1, "{number} was refused {refused} times");
            assert!(!(forwarded && refused == 1), "{number} was forwarded and refused");
            let cancel = format!("\"requestId\":{number}}}");
            let cancelled = self.sent.iter().any(|frame| frame.contains(&cancel));
            assert!(forwarded || refused == 1 || cancelled, "{number} was left without an answer");
            let digest = Digest::of(frame.as_bytes());
            let withdrawn = self.withdrawn.iter().filter(|frame| **frame == digest).count();
            assert!(
                withdrawn == 0 || (withdrawn == 1 && !forwarded && refused == 0),
                "{number} is told to be withdrawn"
            );
            dropped += usize::from(!forwarded && refused == 0);
        }
        let outcomes: BTreeSet<u64> = self.outcomes.iter().copied().collect();
        assert_eq!(outcomes.len(), self.outcomes.len(), "each outcome is told once: {:?}", self.outcomes);
        let entries: BTreeSet<u64> = self.entries.values().copied().collect();
        assert!(outcomes.is_subset(&entries), "{outcomes:?} of {entries:?}");
        // An event that was on its way when the daemon went is lost, and counted.
        let untold = u64::try_from(entries.len() - outcomes.len() + dropped - self.withdrawn.len()).unwrap();
        assert!(untold <= self.play.session.events.lost(), "each permit comes to something, each withdrawal is told");
        assert_eq!(self.play.session.order.bytes(), 0);
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

proptest! {
    #[test]
    fn order_permits_answers_and_outcomes_hold(steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.end();
        world.check();
    }
}
