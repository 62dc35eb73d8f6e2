//! Bytes on their way out: appended at the back, sent from the front. What is kept is bounded by what is not sent, also
//! when there is always something that is not.

use callgate_stdio::frames::READ_BYTES;

/// What has been sent is let go of from this size on, once it is as much as what is not sent: each byte is moved at most
/// once for each byte that was sent.
pub(crate) const SENT_BYTES_MAX: usize = 4 * READ_BYTES;
/// A buffer that grew beyond this for something long gives the room back.
pub(crate) const KEPT_BYTES_MAX: usize = 4 * READ_BYTES;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// How much of `bytes` has been sent.
    sent: usize,
    /// How much was let go of before it.
    gone: u64,
}

impl Outgoing {
    /// Where bytes are appended, and nothing else is done.
    pub(crate) const fn back(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What is not sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Takes note that `bytes` more have been sent.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        let left = self.bytes.len() - self.sent;
        if left == 0 || (self.sent >= SENT_BYTES_MAX && self.sent >= left) {
            self.gone += as_u64(self.sent);
            self.bytes.drain(..self.sent);
            self.sent = 0;
            give_back(&mut self.bytes);
        }
    }

    /// How many bytes have been sent since the beginning.
    pub(crate) fn sent_in_all(&self) -> u64 {
        self.gone + as_u64(self.sent)
    }

    /// How many bytes have been appended since the beginning.
    pub(crate) fn end(&self) -> u64 {
        self.gone + as_u64(self.bytes.len())
    }

    #[cfg(test)]
    pub(crate) const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Gives back what is not needed any more: all beyond [`KEPT_BYTES_MAX`], when a quarter would do, so that a buffer in use
/// is not made anew all the time.
pub(crate) fn give_back(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES_MAX && buffer.capacity() / 4 > buffer.len() {
        buffer.shrink_to(KEPT_BYTES_MAX);
    }
}

/// A length as the journal counts.
pub(crate) fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_never_empty_keeps_no_more_than_it_has_to() {
        const UNSENT_BYTES_MAX: usize = 1024 * 1024;
        let mut outgoing = Outgoing::default();
        let (mut next_in, mut next_out) = (0u8, 0u8);
        for _ in 0..20_000 {
            while outgoing.unsent().len() < UNSENT_BYTES_MAX {
                let chunk = std::iter::repeat_with(|| {
                    next_in = next_in.wrapping_add(1);
                    next_in
                });
                outgoing.back().extend(chunk.take(10_000));
            }
            for byte in &outgoing.unsent()[..5000] {
                next_out = next_out.wrapping_add(1);
                assert_eq!(*byte, next_out);
            }
            outgoing.advance(5000);
            assert!(outgoing.capacity() <= 5 * UNSENT_BYTES_MAX, "{} bytes", outgoing.capacity());
        }
        assert_eq!(outgoing.sent_in_all(), 20_000 * 5000);
        assert_eq!(outgoing.end() - outgoing.sent_in_all(), as_u64(outgoing.unsent().len()));
    }

    #[test]
    fn the_room_of_one_long_message_is_given_back_although_others_wait_behind_it() {
        let mut outgoing = Outgoing::default();
        outgoing.back().resize(64 * KEPT_BYTES_MAX, b'x');
        outgoing.back().extend_from_slice(b"next");
        outgoing.advance(64 * KEPT_BYTES_MAX);
        assert_eq!(outgoing.unsent(), b"next");
        assert!(outgoing.capacity() <= KEPT_BYTES_MAX);
    }
}
