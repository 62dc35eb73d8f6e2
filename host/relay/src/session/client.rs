//! The session's side towards the client: what it sent.

use std::cell::LazyCell;
use std::time::Instant;

use callgate_core::code::Code;
use callgate_core::read::IdKey;
use callgate_stdio::frames::Piece;

use super::Session;
use super::refusals::shown;
use crate::events::{DETAIL_BYTES_MAX, Frame, cut};
use crate::flights::{FLIGHTS_MAX, Flight, NotNoted};
use crate::inbound::{About, Asks, Call, Inbound, Message, RefusedFrame, Released};
use crate::order::{CallNumber, Waiting};
use crate::reasons;

/// How many calls can wait for their decision; beyond it the client is not read. None waits longer than its deadline.
pub(crate) const CALLS_WAITING_MAX: usize = 256;
/// How many bytes wait on their way to the server; beyond it the client is not read. One frame more may be on top.
pub(crate) const QUEUED_BYTES_MAX: usize = 1024 * 1024;

impl Session {
    /// A piece of the client's input.
    pub(crate) fn client_sent(&mut self, piece: Piece, now: Instant) {
        match piece {
            Piece::Frame(bytes) => match Inbound::read(bytes) {
                Inbound::Message(message) => self.message(message, now),
                Inbound::Call(call) => self.call(call, now),
                Inbound::Refused(frame) => self.refuse_frame(frame, now),
            },
            Piece::TooLong { bytes } => {
                let detail = format!("longer than the {} bytes a frame may have", self.terms.frame_bytes_max);
                self.events.refused(Code::FrameTooLong, &detail, Frame { digest: None, bytes }, now);
            }
            Piece::Unterminated(bytes) => {
                let detail = "the input ended before the frame's line feed";
                self.events.refused(Code::Unterminated, detail, Frame::of(&bytes), now);
            }
        }
        self.hand_on(now);
    }

    /// Whether more of the client's input can be taken.
    pub(crate) fn takes_input(&self) -> bool {
        let waiting = self.order.calls().max(self.link.awaited());
        let queued = self.order.bytes() + self.to_server.bytes();
        waiting < CALLS_WAITING_MAX
            && queued < QUEUED_BYTES_MAX
            && self.mail.unsent().len() < QUEUED_BYTES_MAX
            && !self.to_client.is_full_of_replies()
    }

    /// Whether everything the client sent is with the server or answered.
    pub(crate) fn has_nothing_for_the_server(&self) -> bool {
        self.order.bytes() == 0 && self.to_server.bytes() == 0
    }

    pub(super) fn message(&mut self, message: Message, now: Instant) {
        // A batch may hold as many ids as fit into it, and the digest of each is that of the whole.
        let frame = LazyCell::new(|| Frame::of(message.bytes()));
        match &message.about {
            About::Cancels(key) => match self.flights.waiting(key) {
                // The server never saw the call: neither it nor its cancellation goes on.
                Some(number) => return self.withdraw(number, now),
                None => self.flights.cancel(key.clone()),
            },
            About::Request { key, asks, speaker } => {
                self.speaker.update(speaker);
                self.note(key, *asks, || *frame, now);
            }
            About::Requests(keys) => {
                for key in keys {
                    self.note(key, Asks::Nothing, || *frame, now);
                }
            }
            About::Initialized | About::Other => {}
        }
        if self.server_listens {
            let may_pass = message.may_pass_calls();
            self.order.add_message(message.into(), may_pass);
        }
    }

    /// Notes a request that goes to the server whatever comes of it.
    pub(super) fn note(&mut self, key: &IdKey, asks: Asks, frame: impl FnOnce() -> Frame, now: Instant) {
        match self.flights.note(key.clone(), Flight::Request(asks)) {
            Ok(()) => {}
            Err(NotNoted::Full) => self.flights.pass(key),
            Err(NotNoted::InFlight) => {
                self.flights.pass(key);
                let detail = "a request takes an id that is in flight; it was forwarded";
                self.events.refused(Code::IdInFlight, detail, frame(), now);
            }
        }
    }

    pub(super) fn call(&mut self, call: Call, now: Instant) {
        let asked = call.asked.clone();
        let (key, frame, bytes) = (asked.key.clone(), asked.frame, asked.bytes);
        if !self.server_listens {
            return self.refuse_unjournaled(&asked, &reasons::server_write(), now);
        }
        self.speaker.update(&call.speaker);
        let number = self.order.add_call(call, now + self.terms.decision_deadline);
        match self.flights.note(key, Flight::Waiting(number)) {
            Ok(()) => {}
            Err(NotNoted::Full) => {
                self.order.remove(number);
                let why = reasons::overload(FLIGHTS_MAX);
                return self.refuse_unjournaled(&asked, &why, now);
            }
            Err(NotNoted::InFlight) => {
                self.order.remove(number);
                let detail = format!("the id {} is in flight", cut(&asked.request_id, DETAIL_BYTES_MAX));
                let answer = vec![asked.request_id];
                return self.refuse_frame(RefusedFrame { code: Code::IdInFlight, detail, answer, frame, bytes }, now);
            }
        }
        match self.link.need(now) {
            None => self.ask(number, now),
            Some(why) => self.refuse(number, &why, now),
        }
    }

    /// Takes back a call that the server was not given. The journal may hold its decision, or get it yet; that the client
    /// took it back stands there whatever was decided.
    pub(super) fn withdraw(&mut self, number: CallNumber, now: Instant) {
        let (asked, entry) = match self.order.remove(number) {
            Some(Waiting::Undecided(undecided)) => (undecided.call.asked, None),
            Some(Waiting::Cleared(cleared)) => match cleared.into_released() {
                Some(Released { asked, entry }) => (asked, Some(entry)),
                None => return,
            },
            None => return,
        };
        self.flights.forget(&asked.key);
        let detail = format!("the call of {} was cancelled before it was forwarded", shown(&asked.tool));
        self.events.refused(Code::Withdrawn, &detail, (&asked).into(), now);
        if let Some(entry) = entry {
            self.events.failed(entry, now);
        }
    }
}
