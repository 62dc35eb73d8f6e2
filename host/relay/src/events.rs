//! What there is to tell the daemon without waiting for an answer.
//!
//! Outcomes are not urgent: they ride along with the next call that is to be decided, or go by themselves a moment later.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::entry::{Outcome, Side};
use callgate_ipc::message::{Anomaly, CallOutcome, FromRelay};

use crate::inbound::Asked;

/// How long an event may wait for a call to ride along with: one wake-up of the daemon less for each call of an agent
/// that calls in a row.
pub(crate) const RIDE_WAIT: Duration = Duration::from_millis(10);
/// How many events are kept while the daemon is away. Beyond it they are counted.
pub(crate) const EVENTS_MAX: usize = 1024;
/// How many odd frames of a server are told one by one in [`ODD_WINDOW`]; a server that logs to its standard output would
/// fill the journal otherwise. The rest are counted and told as one.
pub(crate) const ODD_FRAMES_MAX: u32 = 60;
/// See [`ODD_FRAMES_MAX`].
pub(crate) const ODD_WINDOW: Duration = Duration::from_mins(1);
/// The longest detail that is told, bytes: a repeated key can be as long as its frame.
pub(crate) const DETAIL_BYTES_MAX: usize = 512;

/// Events that wait to be told.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<FromRelay>,
    /// When the oldest of them came.
    since: Option<Instant>,
    lost: u64,
    odd: Odd,
}

/// The odd frames of the server in the current window.
#[derive(Debug, Default)]
struct Odd {
    since: Option<Instant>,
    told: u32,
    untold: u64,
    /// The first code that was not told.
    code: Option<Code>,
}

/// A frame that an event is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Its digest, where it was whole.
    pub(crate) digest: Option<Digest>,
    /// Its length.
    pub(crate) bytes: u64,
}

impl Frame {
    /// A frame that is at hand.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { digest: Some(Digest::of(bytes)), bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX) }
    }
}

impl From<&Asked> for Frame {
    fn from(asked: &Asked) -> Self {
        Self { digest: Some(asked.frame), bytes: asked.bytes }
    }
}

impl Events {
    /// What the server answered a released call, and after how long.
    pub(crate) fn answered(&mut self, decision: u64, outcome: Outcome, took: Duration, now: Instant) {
        let took_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        self.add(FromRelay::Outcome(CallOutcome { decision, outcome, took_ms }), now);
    }

    /// A permitted call came to nothing.
    pub(crate) fn failed(&mut self, decision: u64, now: Instant) {
        self.add(FromRelay::Outcome(CallOutcome { decision, outcome: Outcome::Error, took_ms: None }), now);
    }

    /// A frame of the client was refused, or a call of it without the daemon's knowing.
    pub(crate) fn refused(&mut self, code: Code, detail: &str, frame: Frame, now: Instant) {
        self.anomaly(Side::Client, code, detail, frame, now);
    }

    /// A frame of the server is odd.
    pub(crate) fn odd(&mut self, code: Code, detail: &str, frame: impl FnOnce() -> Frame, now: Instant) {
        if self.odd.since.is_none_or(|since| now.saturating_duration_since(since) >= ODD_WINDOW) {
            self.tell_of_the_rest(now);
            self.odd = Odd { since: Some(now), ..Odd::default() };
        }
        if self.odd.told < ODD_FRAMES_MAX {
            self.odd.told += 1;
            self.anomaly(Side::Server, code, detail, frame(), now);
        } else {
            self.odd.untold += 1;
            self.odd.code.get_or_insert(code);
        }
    }

    /// Tells of the odd frames that were only counted.
    pub(crate) fn tell_of_the_rest(&mut self, now: Instant) {
        if let Some(code) = self.odd.code.take() {
            let detail = format!("{} more odd frames were not told one by one", self.odd.untold);
            self.anomaly(Side::Server, code, &detail, Frame { digest: None, bytes: 0 }, now);
        }
    }

    /// The oldest event.
    pub(crate) fn next(&mut self) -> Option<FromRelay> {
        let event = self.waiting.pop_front();
        if self.waiting.is_empty() {
            self.since = None;
        }
        event
    }

    /// When the events have waited long enough for a call to ride along with.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + RIDE_WAIT)
    }

    /// Counts events that were on their way when the connection ended.
    pub(crate) const fn lose(&mut self, events: u64) {
        self.lost += events;
    }

    /// How many events could not be told.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    fn anomaly(&mut self, from: Side, code: Code, detail: &str, frame: Frame, now: Instant) {
        let detail = cut(detail, DETAIL_BYTES_MAX).to_owned();
        let Frame { digest, bytes } = frame;
        self.add(FromRelay::Anomaly(Anomaly { from, code, detail, frame: digest, bytes }), now);
    }

    fn add(&mut self, event: FromRelay, now: Instant) {
        if self.waiting.len() >= EVENTS_MAX {
            self.lost += 1;
            return;
        }
        self.since.get_or_insert(now);
        self.waiting.push_back(event);
    }
}

/// The longest beginning of `text` that has at most `bytes_max` bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(events: &mut Events) -> Vec<FromRelay> {
        std::iter::from_fn(|| events.next()).collect()
    }

    #[test]
    fn a_chatty_server_fills_neither_the_queue_nor_the_journal() {
        let mut events = Events::default();
        let start = Instant::now();
        for _ in 0..1000 {
            events.odd(Code::NotJson, "log line", || Frame::of(b"log\n"), start);
        }
        assert_eq!(all(&mut events).len(), usize::try_from(ODD_FRAMES_MAX).unwrap());
        events.odd(Code::BadId, "later", || Frame::of(b"x\n"), start + ODD_WINDOW);
        let told: Vec<_> = all(&mut events)
            .into_iter()
            .map(|event| match event {
                FromRelay::Anomaly(Anomaly { code, detail, .. }) => (code, detail),
                other => panic!("no anomaly but {other:?}"),
            })
            .collect();
        let rest = format!("{} more odd frames were not told one by one", 1000 - ODD_FRAMES_MAX);
        assert_eq!(told, [(Code::NotJson, rest), (Code::BadId, "later".to_owned())]);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut events = Events::default();
        for decision in 0..u64::try_from(EVENTS_MAX).unwrap() + 5 {
            events.answered(decision, Outcome::Ok, Duration::ZERO, Instant::now());
        }
        assert_eq!((all(&mut events).len(), events.lost()), (EVENTS_MAX, 5));
        assert_eq!(events.due(), None);
    }

    #[test]
    fn a_detail_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "ä");
        assert_eq!(cut("abc", 3), "abc");
    }
}
