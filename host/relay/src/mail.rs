//! The bytes of one connection to the daemon: messages out, messages in.

use callgate_ipc::frame::{HEAD_BYTES_MAX, Malformed, Message, decode, encode};
use callgate_ipc::message::FromRelay;

/// How much is read at a time. Answers are a few hundred bytes.
const READ_BYTES: usize = 8 * 1024;
/// No message of the daemon is longer: they are all head.
const MESSAGE_BYTES_MAX: usize = HEAD_BYTES_MAX + 64;
/// A buffer that grew beyond this for one large call is given back when it is empty.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// What goes over one connection.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    out: Vec<u8>,
    sent: usize,
    /// How many events are in `out`.
    events: u64,
    inbox: Vec<u8>,
    read: usize,
}

impl Mail {
    /// Puts a message behind the others.
    pub(crate) fn put<M: Message>(&mut self, message: &M) -> Result<(), Malformed> {
        encode(message, &mut self.out)
    }

    /// Puts an event behind the others. Whether it gets there is never known for sure; if it is still here when the
    /// connection ends it did not. Tells whether it could be written down at all.
    pub(crate) fn put_event(&mut self, event: &FromRelay) -> bool {
        let written = self.put(event).is_ok();
        self.events += u64::from(written);
        written
    }

    /// What is to be sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// Takes note that `bytes` more have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.out.len() {
            self.sent = 0;
            self.events = 0;
            self.out.clear();
            if self.out.capacity() > KEPT_BYTES_MAX {
                self.out = Vec::new();
            }
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
        std::mem::take(self).events
    }
}
