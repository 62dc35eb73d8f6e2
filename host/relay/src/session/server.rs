//! The session's side towards the server: what goes to it, what it says, and its end.

use std::time::Instant;

use callgate_core::code::Code;
use callgate_core::entry::Outcome;
use callgate_core::read::{CLAIM_BYTES_MAX, read_server};
use serde::Deserialize;

use super::Session;
use crate::events::Frame;
use crate::flights::Flight;
use crate::inbound::{Asks, Released, Speaker};
use crate::order::Waiting;
use crate::reasons;
use crate::to_client::Line;

impl Session {
    /// Moves what may go from the order to the writer.
    pub(super) fn hand_on(&mut self, now: Instant) {
        while let Some(cleared) = self.order.next_cleared() {
            if let Some(Released { asked, entry }) = cleared.released() {
                self.flights.release(&asked.key, *entry, now);
            }
            self.to_server.push(cleared);
        }
        if !self.server_listens {
            self.fail_unwritten(now);
        }
    }

    /// The server takes no more input: it has ended, or one end of its pipe is closed. Calls that it does not have are
    /// refused, decided or not: no decision would get them there.
    pub(crate) fn server_stopped_listening(&mut self, now: Instant) {
        self.server_listens = false;
        self.refuse_waiting(&reasons::server_write(), now);
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
            self.events.failed(released.entry, now);
        }
        let mut unanswered: Vec<u64> = self.flights.end().collect();
        unanswered.sort_unstable();
        for entry in unanswered {
            self.events.failed(entry, now);
        }
    }

    /// What was permitted and cannot be written has failed, and the client is told.
    pub(super) fn fail_unwritten(&mut self, now: Instant) {
        for Released { asked, entry } in self.to_server.fail() {
            self.flights.forget(&asked.key);
            self.events.failed(entry, now);
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
                    Some(Flight::Released { entry, at }) => {
                        let outcome = if answer.is_error { Outcome::Error } else { Outcome::Ok };
                        events.answered(entry, outcome, now.saturating_duration_since(at), now);
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
}

/// The revision that the answer to an `initialize` settles on.
fn revision(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: String,
    }
    let Initialized { protocol_version } = serde_json::from_str(result).ok()?;
    (protocol_version.len() <= CLAIM_BYTES_MAX).then_some(protocol_version)
}
