//! A home, a relay and the fixture server behind it: what most tests need.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use serde_json::Value;

use crate::home::Home;
use crate::journal::Entry;
use crate::relay::{self, Ended, Relay};

/// One relayed session with the fixture server as `fs`.
#[derive(Debug)]
pub struct Session {
    // Dropped in this order: the relay ends before its home does.
    relay: Relay,
    record: PathBuf,
    /// The home.
    pub home: Home,
}

impl Session {
    /// A session in a home of its own.
    #[expect(clippy::new_without_default, reason = "starting processes is no default")]
    #[track_caller]
    pub fn new() -> Self {
        Self::within(Home::new())
    }

    /// A session in a home of its own where `drop` is denied.
    #[track_caller]
    pub fn denying_drop() -> Self {
        let home = Home::new();
        let _: crate::command::Finished = home.ok(&["policy", "deny", "drop"]);
        Self::within(home)
    }

    /// A session in a given home.
    #[track_caller]
    pub fn within(home: Home) -> Self {
        let record = home.path().join("received");
        let relay = home.relay("fs").start(relay::fixture(&record));
        Self { relay, record, home }
    }

    /// What reached the server so far, every byte of it.
    pub fn received(&self) -> Vec<u8> {
        relay::recorded(&self.record)
    }

    /// What reached the server, without the barrier calls of [`Relay::settled`].
    pub fn received_besides_barriers(&self) -> Vec<u8> {
        let received = self.received();
        let lines = received.split_inclusive(|&byte| byte == b'\n');
        lines.filter(|line| !contains(line, b"\"barrier-")).flatten().copied().collect()
    }

    /// Sends frames, waits until they are dealt with, and tells what was answered, as messages.
    #[track_caller]
    pub fn exchange<F: AsRef<[u8]>>(&mut self, frames: impl IntoIterator<Item = F>) -> Vec<Value> {
        for frame in frames {
            self.relay.send_line(frame);
        }
        self.relay.settled().iter().map(|line| relay::json(line)).collect()
    }

    /// The anomalies of the client's side, their codes in order.
    pub fn anomalies(&self) -> Vec<String> {
        let of_client = |entry: &Entry| entry.kind == "anomaly" && entry.body["from"] == "client";
        let code = |entry: Entry| entry.body["code"].as_str().unwrap_or_default().to_owned();
        self.home.entries().into_iter().filter(of_client).map(code).collect()
    }

    /// Ends the session in good order and demands that nothing was left to say.
    #[track_caller]
    pub fn end(self) -> Home {
        let (home, ended) = self.close();
        assert!(ended.lines.is_empty(), "nobody expected {:?}", lossy(&ended.lines));
        assert_eq!(ended.code(), 0, "{}", String::from_utf8_lossy(&ended.stderr));
        home
    }

    /// Ends the session in good order.
    #[track_caller]
    pub fn close(self) -> (Home, Ended) {
        let Self { relay, home, .. } = self;
        (home, relay.close())
    }

    /// The relay alone, to end it otherwise.
    pub fn split(self) -> (Home, Relay) {
        (self.home, self.relay)
    }
}

impl Deref for Session {
    type Target = Relay;

    fn deref(&self) -> &Relay {
        &self.relay
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Relay {
        &mut self.relay
    }
}

/// Whether `needle` stands somewhere in `bytes`.
pub fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// Bytes as text, for messages.
pub fn lossy(lines: &[Vec<u8>]) -> Vec<String> {
    lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}
