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

mod client;
mod daemon;
mod refusals;
mod server;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use callgate_core::identity::{AgentName, ServerName, SessionId};
use callgate_core::server::ServerId;
use callgate_ipc::frame::Malformed;
use callgate_ipc::message::{Close, FromRelay};

use crate::catalogue::Catalogue;
use crate::events::Events;
use crate::flights::Flights;
use crate::inbound::Speaker;
use crate::link::Link;
use crate::mail::Mail;
use crate::order::{CallNumber, Order, Undecided};
use crate::reasons;
use crate::to_client::ToClient;
use crate::to_server::ToServer;

use client::QUEUED_BYTES_MAX;

/// What a session is about.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The session.
    pub(crate) session: SessionId,
    /// The server.
    pub(crate) server: ServerName,
    /// The server's command, for the journal.
    pub(crate) command: Vec<String>,
    /// The id under which it is registered, if it is.
    pub(crate) registered: Option<ServerId>,
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
    /// A daemon was asked to open this session before. It may have, even if its answer was lost.
    begun: bool,
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
            begun: false,
            terms,
        }
    }

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
        let late = |(number, undecided): (CallNumber, &mut Undecided)| {
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
