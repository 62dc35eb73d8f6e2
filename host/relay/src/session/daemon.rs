//! The session's side towards the daemon: what it is asked, what it says, and what its absence means.

use std::time::Instant;

use callgate_core::permit::Permit;
use callgate_core::refusal::Reason;
use callgate_ipc::frame::Malformed;
use callgate_ipc::message::{Decide, FromRelay, Greeting, Hello, Open, Purpose, Refused, ToRelay};

use super::Session;
use crate::events::cut;
use crate::link::Greeted;
use crate::order::CallNumber;
use crate::reasons;

/// The most that is told of the server's command, bytes: enough to recognise it by.
const COMMAND_BYTES_MAX: usize = 64 * 1024;

impl Session {
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
    pub(super) fn read_daemon_once(&mut self, now: Instant) -> Result<bool, Malformed> {
        if self.link.is_greeting() {
            let Some(greeting) = self.mail.take()? else { return Ok(false) };
            self.greeted(greeting, now);
        } else {
            let Some(message) = self.mail.take()? else { return Ok(false) };
            self.told(message, now);
        }
        Ok(true)
    }

    pub(super) fn greeted(&mut self, greeting: Greeting, now: Instant) {
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
                    resumed: self.begun,
                    registered: self.terms.registered.clone(),
                });
                match self.mail.put(&open) {
                    Ok(()) => self.begun = true,
                    Err(error) => self.lose_daemon(&reasons::lost(&error.to_string()), now),
                }
            }
        }
    }

    pub(super) fn told(&mut self, message: ToRelay, now: Instant) {
        match message {
            ToRelay::Opened => {
                self.link.opened(now);
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

    pub(super) fn permitted(&mut self, permit: Permit, now: Instant) {
        let sequence = permit.sequence();
        let Some(awaited) = self.link.answered(sequence) else {
            return self.lose_daemon(&reasons::mismatch(&format!("call {sequence} was not asked about")), now);
        };
        let Some(call) = self.order.take_undecided(awaited.number) else {
            // Withdrawn meanwhile: the permit is spent on nothing.
            return match permit.spend(&awaited.binding) {
                Ok(entry) => self.events.failed(entry, now),
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

    pub(super) fn refused(&mut self, refused: Refused, now: Instant) {
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
    pub(super) fn ask(&mut self, number: CallNumber, now: Instant) {
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
    pub(super) fn lose_daemon(&mut self, why: &Reason, now: Instant) {
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
    pub(super) fn drop_daemon(&mut self, why: &Reason, now: Instant) {
        self.events.lose(self.mail.end());
        self.refuse_waiting(why, now);
    }

    /// A daemon that was starting is ready: only now does the time of the calls begin.
    pub(super) fn count_from(&mut self, now: Instant) {
        let due = now + self.terms.decision_deadline;
        self.order.all_undecided().for_each(|(_, undecided)| undecided.due = due);
    }
}

/// The command as far as it fits. Every word costs something, so that very many empty ones end as well.
fn told_command(command: &[String]) -> Vec<String> {
    const WORD_BYTES: usize = 4;
    let mut room = COMMAND_BYTES_MAX;
    let mut told = Vec::new();
    for word in command {
        if word.len() + WORD_BYTES > room {
            told.push(format!("{}…", cut(word, room)));
            break;
        }
        told.push(word.clone());
        room -= word.len() + WORD_BYTES;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_as_far_as_there_is_room() {
        let short = ["npx".to_owned(), String::new(), "-y".to_owned()];
        assert_eq!(told_command(&short), short);
        let long = ["a".to_owned(), "x".repeat(COMMAND_BYTES_MAX), "never".to_owned()];
        let told = told_command(&long);
        assert_eq!(told.len(), 2);
        assert!(told[1].ends_with("x…") && told[1].len() < COMMAND_BYTES_MAX + 4);
        assert!(told_command(&vec![String::new(); 1_000_000]).len() < COMMAND_BYTES_MAX);
    }
}
