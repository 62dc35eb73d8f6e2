//! The bytes of one connection to the daemon: messages out, messages in.

use std::collections::VecDeque;

use callgate_ipc::frame::{HEAD_BYTES_MAX, Malformed, Message, decode, encode};
use callgate_ipc::message::FromRelay;

use crate::outgoing::{Outgoing, as_u64};

/// How much is read at a time. Answers are a few hundred bytes.
const READ_BYTES: usize = 8 * 1024;
/// No message of the daemon is longer: they are all head.
const MESSAGE_BYTES_MAX: usize = HEAD_BYTES_MAX + 64;

/// What goes over one connection.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    out: Outgoing,
    /// Where in all that goes out the events end that are not wholly sent.
    events: VecDeque<u64>,
    inbox: Vec<u8>,
    read: usize,
}

impl Mail {
    /// Puts a message behind the others.
    pub(crate) fn put<M: Message>(&mut self, message: &M) -> Result<(), Malformed> {
        encode(message, self.out.back())
    }

    /// Puts an event behind the others. Whether it gets there is never known for sure; if it is still here when the
    /// connection ends it did not. Tells whether it could be written down at all.
    pub(crate) fn put_event(&mut self, event: &FromRelay) -> bool {
        let written = self.put(event).is_ok();
        if written {
            self.events.push_back(self.out.end());
        }
        written
    }

    /// What is to be sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        self.out.unsent()
    }

    /// Takes note that `bytes` more have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.out.advance(bytes);
        let sent = self.out.sent_in_all();
        while self.events.front().is_some_and(|end| *end <= sent) {
            self.events.pop_front();
        }
    }

    /// Where received bytes are appended; has room.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.inbox.drain(..self.read);
        self.read = 0;
        self.inbox.reserve(READ_BYTES);
        &mut self.inbox
    }

    /// Takes the next message, if it has wholly arrived.
    pub(crate) fn take<M: Message>(&mut self) -> Result<Option<M>, Malformed> {
        let waiting = &self.inbox[self.read..];
        let Some((message, bytes)) = decode(waiting)? else {
            let (bytes, bytes_max) = (waiting.len(), MESSAGE_BYTES_MAX);
            return if bytes > bytes_max { Err(Malformed::TooLong { bytes, bytes_max }) } else { Ok(None) };
        };
        self.read += bytes;
        Ok(Some(message))
    }

    /// Ends the connection; tells how many events were not sent.
    pub(crate) fn end(&mut self) -> u64 {
        as_u64(std::mem::take(self).events.len())
    }
}

#[cfg(test)]
mod tests {
    use callgate_core::entry::Outcome;
    use callgate_ipc::message::CallOutcome;

    use super::*;

    #[test]
    fn an_event_is_lost_with_the_connection_only_while_it_is_not_wholly_sent() {
        let mut mail = Mail::default();
        let event = FromRelay::Outcome(CallOutcome { decision: 1, outcome: Outcome::Ok, took_ms: None });
        assert!(mail.put_event(&event));
        let bytes = mail.unsent().len();
        assert!(mail.put_event(&event) && mail.put_event(&event));
        mail.sent(2 * bytes - 1);
        assert_eq!(mail.events.len(), 2);
        mail.sent(1);
        assert_eq!(mail.end(), 1, "although the rest of the mail never went");
        assert_eq!(mail.end(), 0);
    }
}
