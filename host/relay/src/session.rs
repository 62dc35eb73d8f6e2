//! One session as a state machine: what arrives goes in, with the time; what is to be written comes out of
//! [`ToServer`], [`ToClient`] and [`Mail`]. It reads no descriptor and no clock, so that everything that can happen on a
//! relay can be played through in a test.
//!
//! A call is in exactly one of these states, and leaves it in one of these ways:
//!
//! ```text
//! arrived ──► undecided ──permit──► cleared ──its turn──► released ──► answered by the server
//!    │            │                    │                      └──────► never written: refused, outcome "error"
//!    │            │                    └─cancelled: dropped, outcome "error"
//!    │            └─refused, too late, connection lost: answered by us
//!    │            └─cancelled: dropped, no answer; a permit that comes later gets the outcome "error"
//!    └─id in flight, no room: answered by us
//! ```

use std::time::{Duration, Instant};

use callgate_core::code::Code;
use callgate_core::entry::Outcome;
use callgate_core::escape::visible_up_to;
use callgate_core::identity::{AgentName, ServerName, SessionId};
use callgate_core::permit::Permit;
use callgate_core::read::{IdKey, read_server};
use callgate_core::refusal::{Reason, refused_call, refused_frame};
use callgate_ipc::frame::Malformed;
use callgate_ipc::message::{Close, Decide, FromRelay, Greeting, Hello, Open, Purpose, Refused, ToRelay};
use callgate_stdio::frames::Piece;
use serde::Deserialize;

use crate::catalogue::Catalogue;
use crate::events::{DETAIL_BYTES_MAX, Events, Frame, cut};
use crate::flights::{FLIGHTS_MAX, Flight, Flights, NotNoted};
use crate::inbound::{About, Asked, Asks, Call, Inbound, Message, RefusedFrame, Released, Speaker};
use crate::link::{Greeted, Link};
use crate::mail::Mail;
use crate::order::{CallNumber, Order, Waiting};
use crate::reasons;
use crate::to_client::{Line, ToClient};
use crate::to_server::ToServer;

/// How many calls can wait for their decision. An agent that fires more at once is told to slow down.
pub(crate) const CALLS_WAITING_MAX: usize = 256;
/// How many bytes wait on their way to the server; beyond it the client is not read. One frame more may be on top.
pub(crate) const QUEUED_BYTES_MAX: usize = 1024 * 1024;
/// How many requests of one refused batch are answered. Real ones have a handful; one frame could name millions.
pub(crate) const ANSWERS_MAX: usize = 1000;
/// The most that is told of the server's command, bytes: enough to recognise it by.
const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// What a session is about.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The session.
    pub(crate) session: SessionId,
    /// The server.
    pub(crate) server: ServerName,
    /// The server's command, for the journal.
    pub(crate) command: Vec<String>,
    /// What the relay was told of the agent.
    pub(crate) claim: Option<AgentName>,
    /// The relay's build.
    pub(crate) build: String,
    /// The longest frame.
    pub(crate) frame_bytes_max: usize,
    /// How long a decision may take.
    pub(crate) decision_deadline: Duration,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    terms: Terms,
    /// What is being written to the client.
    pub(crate) to_client: ToClient,
    /// What is being written to the server.
    pub(crate) to_server: ToServer,
    /// What goes to and comes from the daemon.
    pub(crate) mail: Mail,
    /// The connection to the daemon.
    pub(crate) link: Link,
    order: Order,
    flights: Flights,
    catalogue: Catalogue,
    events: Events,
    speaker: Speaker,
    /// The server takes input.
    server_listens: bool,
    /// The daemon has opened this session before.
    opened: bool,
}

impl Session {
    /// A session that begins at `now`.
    pub(crate) fn new(terms: Terms, now: Instant) -> Self {
        Self {
            to_client: ToClient::new(terms.frame_bytes_max),
            to_server: ToServer::default(),
            mail: Mail::default(),
            link: Link::new(now),
            order: Order::default(),
            flights: Flights::default(),
            catalogue: Catalogue::default(),
            events: Events::default(),
            speaker: Speaker::default(),
            server_listens: true,
            opened: false,
            terms,
        }
    }

    // From the client.

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
        let queued = self.order.bytes() + self.to_server.bytes();
        queued < QUEUED_BYTES_MAX && self.mail.unsent().len() < QUEUED_BYTES_MAX && !self.to_client.is_full_of_replies()
    }

    /// Whether everything the client sent is with the server or answered.
    pub(crate) fn has_nothing_for_the_server(&self) -> bool {
        self.order.bytes() == 0 && self.to_server.bytes() == 0
    }

    fn message(&mut self, message: Message, now: Instant) {
        match &message.about {
            About::Cancels(key) => match self.flights.waiting(key) {
                // The server never saw the call: neither it nor its cancellation goes on.
                Some(number) => return self.withdraw(number, now),
                None => self.flights.cancel(key.clone()),
            },
            About::Request { key, asks, speaker } => {
                self.speaker.update(speaker);
                self.note(key, *asks, &message, now);
            }
            About::Requests(keys) => {
                for key in keys {
                    self.note(key, Asks::Nothing, &message, now);
                }
            }
            About::Other => {}
        }
        if self.server_listens {
            self.order.add_message(message.into());
        }
    }

    /// Notes a request that goes to the server whatever comes of it.
    fn note(&mut self, key: &IdKey, asks: Asks, message: &Message, now: Instant) {
        match self.flights.note(key.clone(), Flight::Request(asks)) {
            Ok(()) => {}
            Err(NotNoted::Full) => self.flights.pass(key),
            Err(NotNoted::InFlight) => {
                self.flights.pass(key);
                let detail = "a request takes an id that is in flight; it was forwarded";
                self.events.refused(Code::IdInFlight, detail, Frame::of(message.bytes()), now);
            }
        }
    }

    fn call(&mut self, call: Call, now: Instant) {
        let asked = call.asked.clone();
        let (key, frame, bytes) = (asked.key.clone(), asked.frame, asked.bytes);
        if !self.server_listens {
            return self.refuse_unjournaled(&asked, &reasons::server_write(), now);
        }
        if self.order.calls().max(self.link.awaited()) >= CALLS_WAITING_MAX {
            let why = reasons::overload("calls of this session wait for a decision", CALLS_WAITING_MAX);
            return self.refuse_unjournaled(&asked, &why, now);
        }
        self.speaker.update(&call.speaker);
        let number = self.order.add_call(call, now + self.terms.decision_deadline);
        match self.flights.note(key, Flight::Waiting(number)) {
            Ok(()) => {}
            Err(NotNoted::Full) => {
                self.order.remove(number);
                let why = reasons::overload("requests of this session are in flight", FLIGHTS_MAX);
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

    fn withdraw(&mut self, number: CallNumber, now: Instant) {
        match self.order.remove(number) {
            Some(Waiting::Undecided(undecided)) => {
                let asked = undecided.call.asked;
                self.flights.forget(&asked.key);
                if !undecided.asked {
                    let detail = format!("the call of {} was cancelled before it was decided", shown(&asked.tool));
                    self.events.refused(Code::Withdrawn, &detail, (&asked).into(), now);
                }
            }
            Some(Waiting::Cleared(cleared)) => {
                if let Some(released) = cleared.into_released() {
                    self.flights.forget(&released.asked.key);
                    self.events.outcome(released.entry, Outcome::Error, now);
                }
            }
            None => {}
        }
    }

    // To the server.

    /// Moves what may go from the order to the writer.
    fn hand_on(&mut self, now: Instant) {
        while let Some(cleared) = self.order.next_cleared() {
            if let Some(Released { asked, entry }) = cleared.released() {
                self.flights.release(&asked.key, *entry);
            }
            self.to_server.push(cleared);
        }
        if !self.server_listens {
            self.fail_unwritten(now);
        }
    }

    /// The server takes no more input: its end of the pipe is closed, or ours is about to be. Calls that it does not
    /// have are refused.
    pub(crate) fn server_stopped_listening(&mut self, now: Instant) {
        self.server_listens = false;
        self.refuse_waiting(&reasons::server_write(), now);
        self.fail_unwritten(now);
    }

    /// The session ends: calls without a decision are refused.
    pub(crate) fn stop_waiting(&mut self, now: Instant) {
        self.refuse_waiting(&reasons::ending(), now);
        self.hand_on(now);
    }

    /// The server is gone. Calls without an answer have failed, and those without a decision are dropped: nobody would
    /// answer them on a direct connection either.
    pub(crate) fn server_gone(&mut self, now: Instant) {
        self.server_listens = false;
        let waiting: Vec<_> = self.order.empty().collect();
        let unwritten = self.to_server.fail();
        let cleared = waiting.into_iter().filter_map(|waiting| match waiting {
            Waiting::Cleared(cleared) => cleared.into_released(),
            Waiting::Undecided(_) => None,
        });
        for released in unwritten.chain(cleared) {
            self.flights.forget(&released.asked.key);
            self.events.outcome(released.entry, Outcome::Error, now);
        }
        let mut unanswered: Vec<u64> = self.flights.end().collect();
        unanswered.sort_unstable();
        for entry in unanswered {
            self.events.outcome(entry, Outcome::Error, now);
        }
    }

    /// What was permitted and cannot be written has failed, and the client is told.
    fn fail_unwritten(&mut self, now: Instant) {
        for Released { asked, entry } in self.to_server.fail() {
            self.flights.forget(&asked.key);
            self.events.outcome(entry, Outcome::Error, now);
            self.answer(&asked, &reasons::server_write(), Some(entry));
        }
    }

    // From the server.

    /// Reads the lines of the server that have arrived. They are on their way to the client whatever they are.
    pub(crate) fn read_server(&mut self, now: Instant) {
        let Self { to_client, flights, catalogue, events, speaker, .. } = self;
        while let Some(line) = to_client.next_line() {
            let line = match line {
                Line::Whole(line) => line,
                Line::TooLong { bytes } => {
                    let frame = || Frame { digest: None, bytes };
                    events.odd(Code::FrameTooLong, "too long to be read; it was passed on", frame, now);
                    continue;
                }
            };
            let read = read_server(line);
            if let Some((code, detail)) = &read.oddity {
                events.odd(*code, detail, || Frame::of(line), now);
            }
            for answer in read.answers {
                match flights.answered(&answer.key) {
                    Some(Flight::Released { entry }) => {
                        let outcome = if answer.is_error { Outcome::Error } else { Outcome::Ok };
                        events.outcome(entry, outcome, now);
                    }
                    Some(Flight::Request(Asks::Tools { first })) => {
                        answer.result.into_iter().for_each(|result| catalogue.learn(result, first));
                    }
                    Some(Flight::Request(Asks::Revision)) => {
                        speaker.update(&Speaker { client: None, protocol_version: answer.result.and_then(revision) });
                    }
                    None if flights.knows_all() => {
                        let detail = "an answer to no request, or a second one to the same";
                        events.odd(Code::UnexpectedAnswer, detail, || Frame::of(line), now);
                    }
                    Some(Flight::Request(Asks::Nothing) | Flight::Waiting(_)) | None => {}
                }
            }
        }
    }

    // The daemon.

    /// A connection was made.
    pub(crate) fn reached_daemon(&mut self, now: Instant) {
        self.link.reached(now);
        let hello = Hello { build: self.terms.build.clone(), purpose: Purpose::Relay };
        if let Err(error) = self.mail.put(&hello) {
            self.lose_daemon(&reasons::lost(&error.to_string()), now);
        }
    }

    /// No connection was made.
    pub(crate) fn missed_daemon(&mut self, trouble: String, now: Instant) {
        if let Some(why) = self.link.not_reached(trouble, now) {
            self.refuse_unasked(&why, now);
        }
    }

    /// No daemon could be started.
    pub(crate) fn cannot_start_daemon(&mut self, trouble: &str, now: Instant) {
        let why = self.link.not_started(trouble, now);
        self.refuse_unasked(&why, now);
    }

    /// The connection ended.
    pub(crate) fn lost_daemon(&mut self, how: &str, now: Instant) {
        self.lose_daemon(&reasons::lost(how), now);
    }

    /// Reads what the daemon sent.
    pub(crate) fn read_daemon(&mut self, now: Instant) {
        loop {
            match self.read_daemon_once(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(malformed) => self.lose_daemon(&reasons::mismatch(&malformed.to_string()), now),
            }
        }
        self.hand_on(now);
    }

    /// Reads one message; `false` when there is none.
    fn read_daemon_once(&mut self, now: Instant) -> Result<bool, Malformed> {
        if self.link.is_greeting() {
            let Some(greeting) = self.mail.take()? else { return Ok(false) };
            self.greeted(greeting, now);
        } else {
            let Some(message) = self.mail.take()? else { return Ok(false) };
            self.told(message, now);
        }
        Ok(true)
    }

    fn greeted(&mut self, greeting: Greeting, now: Instant) {
        let was_starting = self.link.is_starting();
        match self.link.greeted(greeting, &self.terms.build, now) {
            Greeted::Wait => {}
            Greeted::Refused(why) => self.drop_daemon(&why, now),
            Greeted::Open => {
                if was_starting {
                    self.count_from(now);
                }
                let open = FromRelay::Open(Open {
                    session: self.terms.session.clone(),
                    server: self.terms.server.clone(),
                    command: told_command(&self.terms.command),
                    claim: self.terms.claim.clone(),
                    resumed: self.opened,
                });
                if let Err(error) = self.mail.put(&open) {
                    self.lose_daemon(&reasons::lost(&error.to_string()), now);
                }
            }
        }
    }

    fn told(&mut self, message: ToRelay, now: Instant) {
        match message {
            ToRelay::Opened => {
                self.link.opened(now);
                self.opened = true;
                for number in self.waiting_calls(|asked| !asked) {
                    self.ask(number, now);
                }
            }
            ToRelay::NotOpened(why) => {
                self.link.refused(&why, now);
                self.drop_daemon(&why, now);
            }
            ToRelay::Permitted(permit) => self.permitted(permit, now),
            ToRelay::Refused(refused) => self.refused(refused, now),
        }
    }

    fn permitted(&mut self, permit: Permit, now: Instant) {
        let sequence = permit.sequence();
        let Some(awaited) = self.link.answered(sequence) else {
            return self.lose_daemon(&reasons::mismatch(&format!("call {sequence} was not asked about")), now);
        };
        let Some(call) = self.order.take_undecided(awaited.number) else {
            // Withdrawn meanwhile: the permit is spent on nothing.
            return match permit.spend(&awaited.binding) {
                Ok(entry) => self.events.outcome(entry, Outcome::Error, now),
                Err(mismatch) => self.lose_daemon(&reasons::mismatch(&mismatch.to_string()), now),
            };
        };
        match call.release(permit, &awaited.binding) {
            Ok(cleared) => self.order.clear(awaited.number, cleared),
            Err(unreleased) => {
                let why = reasons::mismatch(&unreleased.mismatch.to_string());
                let asked = &unreleased.call.asked;
                self.flights.forget(&asked.key);
                self.refuse_unjournaled(asked, &why, now);
                self.lose_daemon(&why, now);
            }
        }
    }

    fn refused(&mut self, refused: Refused, now: Instant) {
        let Refused { sequence, reason, entry } = refused;
        let Some(awaited) = self.link.answered(sequence) else {
            return self.lose_daemon(&reasons::mismatch(&format!("call {sequence} was not asked about")), now);
        };
        let Some(call) = self.order.take_undecided(awaited.number) else { return };
        self.flights.forget(&call.asked.key);
        if entry.is_some() {
            self.answer(&call.asked, &reason, entry);
        } else {
            self.refuse_unjournaled(&call.asked, &reason, now);
        }
    }

    /// Asks for the decision on a call, if the session is open; else it waits until it is.
    fn ask(&mut self, number: CallNumber, now: Instant) {
        let Some(sequence) = self.link.next_sequence() else { return };
        self.put_events();
        let Some(undecided) = self.order.undecided(number) else { return };
        let call = &mut undecided.call;
        let frame = call.asked.frame;
        let decide = FromRelay::Decide(Decide {
            sequence,
            frame,
            request_id: call.asked.request_id.clone(),
            tool: call.asked.tool.clone(),
            client: self.speaker.client.clone().unwrap_or_default(),
            protocol_version: self.speaker.protocol_version.clone(),
            listed: self.catalogue.tool(&call.asked.tool).cloned(),
            arguments: std::mem::take(&mut call.arguments),
        });
        undecided.asked = true;
        match self.mail.put(&decide) {
            Ok(()) => self.link.asked(frame, number),
            Err(error) => self.refuse(number, &reasons::too_large(&error.to_string()), now),
        }
    }

    /// The connection is over, and what was asked on it is refused. Nothing is asked twice: the daemon may have
    /// journaled an allow.
    fn lose_daemon(&mut self, why: &Reason, now: Instant) {
        self.link.lost(now);
        self.events.lose(self.mail.end());
        let asked = self.waiting_calls(|asked| asked);
        self.refuse_all(asked, why, now);
        if !self.waiting_calls(|_| true).is_empty()
            && let Some(why) = self.link.need(now)
        {
            self.refuse_unasked(&why, now);
        }
    }

    /// The daemon serves nobody for now.
    fn drop_daemon(&mut self, why: &Reason, now: Instant) {
        self.events.lose(self.mail.end());
        self.refuse_waiting(why, now);
    }

    /// A daemon that was starting is ready: only now does the time of the calls begin.
    fn count_from(&mut self, now: Instant) {
        let due = now + self.terms.decision_deadline;
        self.order.all_undecided().for_each(|(_, undecided)| undecided.due = due);
    }

    // Time.

    /// Does what is due at `now`.
    pub(crate) fn pass_time(&mut self, now: Instant) {
        if let Some(why) = self.link.give_up_if_late(now) {
            self.drop_daemon(&why, now);
        }
        if !self.link.is_starting() {
            self.refuse_late(now);
        }
        if self.events.due().is_some_and(|due| now >= due) {
            self.put_events();
        }
        self.hand_on(now);
    }

    /// When [`Self::pass_time`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let calls = self.order.due().filter(|_| !self.link.is_starting());
        let events = self.events.due().filter(|_| self.takes_events());
        [self.link.due(), calls, events].into_iter().flatten().min()
    }

    fn refuse_late(&mut self, now: Instant) {
        let late = |(number, undecided): (CallNumber, &mut crate::order::Undecided)| {
            (now >= undecided.due).then_some((number, undecided.asked))
        };
        let late: Vec<_> = self.order.all_undecided().filter_map(late).collect();
        let Some(asked) = late.iter().map(|(_, asked)| *asked).reduce(|one, other| one || other) else { return };
        let deadline = self.terms.decision_deadline;
        for (number, asked) in late {
            let why = if asked { reasons::slow("decision", deadline) } else { self.link.why_unasked(deadline) };
            self.refuse(number, &why, now);
        }
        if asked {
            // A permit that comes later belongs to a connection that is no more, and releases nothing.
            self.lose_daemon(&reasons::lost("it was closed because an earlier call got no decision in time"), now);
        }
    }

    // Refusals.

    fn waiting_calls(&mut self, which: impl Fn(bool) -> bool) -> Vec<CallNumber> {
        let undecided = self.order.all_undecided();
        undecided.filter(|(_, undecided)| which(undecided.asked)).map(|(number, _)| number).collect()
    }

    fn refuse_unasked(&mut self, why: &Reason, now: Instant) {
        let unasked = self.waiting_calls(|asked| !asked);
        self.refuse_all(unasked, why, now);
    }

    fn refuse_waiting(&mut self, why: &Reason, now: Instant) {
        let waiting = self.waiting_calls(|_| true);
        self.refuse_all(waiting, why, now);
    }

    fn refuse_all(&mut self, numbers: Vec<CallNumber>, why: &Reason, now: Instant) {
        for number in numbers {
            self.refuse(number, why, now);
        }
    }

    fn refuse(&mut self, number: CallNumber, why: &Reason, now: Instant) {
        let Some(call) = self.order.take_undecided(number) else { return };
        self.flights.forget(&call.asked.key);
        self.refuse_unjournaled(&call.asked, why, now);
    }

    /// Refuses a call without the daemon's word; the daemon is told when it can be.
    fn refuse_unjournaled(&mut self, asked: &Asked, why: &Reason, now: Instant) {
        let detail = format!("the call of {} was refused: {}", shown(&asked.tool), why.message);
        self.events.refused(why.code, &detail, asked.into(), now);
        self.answer(asked, why, None);
    }

    fn refuse_frame(&mut self, frame: RefusedFrame, now: Instant) {
        let RefusedFrame { code, detail, answer, frame: digest, bytes } = frame;
        let detail = cut(&detail, DETAIL_BYTES_MAX);
        for request_id in answer.into_iter().take(ANSWERS_MAX) {
            self.to_client.reply(&refused_frame(&request_id, code, detail));
        }
        self.events.refused(code, detail, Frame { digest: Some(digest), bytes }, now);
    }

    fn answer(&mut self, asked: &Asked, why: &Reason, entry: Option<u64>) {
        self.to_client.reply(&refused_call(&asked.request_id, asked.dialect, why, entry));
    }

    // Events.

    fn takes_events(&self) -> bool {
        self.link.is_open() && self.mail.unsent().len() < QUEUED_BYTES_MAX
    }

    fn put_events(&mut self) {
        while self.takes_events()
            && let Some(event) = self.events.next()
        {
            if !self.mail.put_event(&event) {
                self.events.lose(1);
            }
        }
    }

    /// The session is over: tells what is left to tell, if the daemon is there to hear it.
    pub(crate) fn close(&mut self, how: &str, now: Instant) {
        self.events.tell_of_the_rest(now);
        self.put_events();
        if self.link.is_open() {
            let close = FromRelay::Close(Close { how: how.to_owned(), lost_events: self.events.lost() });
            // It is made of a word and a number: it always has room.
            self.mail.put(&close).unwrap_or_else(|_: Malformed| self.events.lose(1));
        }
    }

    /// Whether the daemon still owes something: a decision, whose outcome has to be told, or a session, which has to be
    /// closed.
    pub(crate) fn is_owed(&self) -> bool {
        self.link.awaited() > 0 || (self.link.is_connected() && !self.link.is_open())
    }
}

/// The revision that the answer to an `initialize` settles on.
fn revision(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: String,
    }
    let Initialized { protocol_version } = serde_json::from_str(result).ok()?;
    (protocol_version.len() <= callgate_core::read::CLAIM_BYTES_MAX).then_some(protocol_version)
}

/// A name in a sentence.
fn shown(tool: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 128;
    format!("\"{}\"", visible_up_to(tool, SHOWN_CHARS_MAX))
}

fn told_command(command: &[String]) -> Vec<String> {
    let mut room = COMMAND_BYTES_MAX;
    let mut told = Vec::new();
    for word in command {
        let kept = cut(word, room);
        told.push(kept.to_owned());
        room -= kept.len();
        if kept.len() < word.len() || room == 0 {
            told.push("…".to_owned());
            break;
        }
    }
    told
}

#[cfg(test)]
mod tests;
