//! Lines out of a stream of bytes, whatever the sizes in which they arrive.
//!
//! A frame is a line with its line feed, byte for byte as it came. Nothing is trimmed, decoded or judged here. A line
//! beyond the bound is dropped up to its line feed, so that the stream stays in step, and told as such.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use memchr::memchr;

use crate::pipes::Source;

/// How much is read at a time: the capacity of a pipe.
pub const READ_BYTES: usize = 64 * 1024;
/// A buffer that grew beyond this for one large frame is given back when it is empty.
const KEPT_BYTES_MAX: usize = 4 * READ_BYTES;
/// From this size on a frame takes the buffer with it instead of being copied out of it.
const MOVED_BYTES_MIN: usize = READ_BYTES / 2;

/// What a stream consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// A whole line, with its line feed.
    Frame(Vec<u8>),
    /// A line beyond the bound; its bytes are gone.
    TooLong {
        /// How long it was, with its line feed if it had one.
        bytes: u64,
    },
    /// What stood after the last line feed when the stream ended.
    Unterminated(Vec<u8>),
}

/// Splits bytes into lines. Knows nothing of where they come from.
#[derive(Debug)]
pub struct Splitter {
    bytes: Vec<u8>,
    /// Where the current line begins.
    start: usize,
    /// Up to where line feeds have been looked for.
    scanned: usize,
    /// How much of the current line has been dropped because it is too long.
    dropped: u64,
    frame_bytes_max: usize,
}

impl Splitter {
    /// A splitter for lines of up to `frame_bytes_max` bytes, line feed included.
    pub const fn new(frame_bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, scanned: 0, dropped: 0, frame_bytes_max }
    }

    /// Where bytes that arrive are appended; has room for [`READ_BYTES`].
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.compact();
        self.bytes.reserve(READ_BYTES);
        &mut self.bytes
    }

    /// The next line that has wholly arrived.
    pub fn next_piece(&mut self) -> Option<Piece> {
        let Some(offset) = memchr(b'\n', &self.bytes[self.scanned..]) else {
            self.scanned = self.bytes.len();
            self.drop_if_too_long();
            return None;
        };
        let end = self.scanned + offset + 1;
        let length = end - self.start;
        if self.dropped == 0 && length <= self.frame_bytes_max {
            return Some(Piece::Frame(self.take(end)));
        }
        let bytes = std::mem::take(&mut self.dropped) + as_u64(length);
        self.start = end;
        self.scanned = end;
        Some(Piece::TooLong { bytes })
    }

    /// What is left when the stream has ended and [`Self::next_piece`] has nothing more.
    pub fn finish(&mut self) -> Option<Piece> {
        let rest = self.take(self.bytes.len());
        match std::mem::take(&mut self.dropped) {
            0 if rest.is_empty() => None,
            0 => Some(Piece::Unterminated(rest)),
            dropped => Some(Piece::TooLong { bytes: dropped + as_u64(rest.len()) }),
        }
    }

    /// Without a line feed, a line as long as the bound cannot become a frame any more.
    fn drop_if_too_long(&mut self) {
        let length = self.bytes.len() - self.start;
        if self.dropped == 0 && length < self.frame_bytes_max {
            return;
        }
        self.dropped += as_u64(length);
        self.start = self.bytes.len();
    }

    fn take(&mut self, end: usize) -> Vec<u8> {
        let whole = self.start == 0 && end == self.bytes.len();
        if whole && end >= MOVED_BYTES_MIN {
            self.scanned = 0;
            return std::mem::take(&mut self.bytes);
        }
        let frame = self.bytes[self.start..end].to_vec();
        self.start = end;
        self.scanned = end;
        frame
    }

    fn compact(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        } else {
            self.bytes.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
    }
}

/// The lines of a source. Everything that has arrived lives in here, so that a caller may stop waiting at any time
/// without losing a byte.
#[derive(Debug)]
pub struct Frames {
    source: Source,
    splitter: Splitter,
    ended: bool,
}

impl Frames {
    /// The lines of `source`, each up to `frame_bytes_max` bytes long.
    pub const fn new(source: Source, frame_bytes_max: usize) -> Self {
        Self { source, splitter: Splitter::new(frame_bytes_max), ended: false }
    }

    /// The next piece, `None` when the stream has ended.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>> {
        loop {
            if let Some(piece) = self.splitter.next_piece() {
                return Poll::Ready(Ok(Some(piece)));
            }
            if self.ended {
                return Poll::Ready(Ok(self.splitter.finish()));
            }
            self.ended = ready!(self.source.poll_read(context, self.splitter.room()))? == 0;
        }
    }

    /// The next piece that needs no reading.
    pub fn next_buffered(&mut self) -> Option<Piece> {
        self.splitter.next_piece()
    }

    /// As [`Self::poll_piece`].
    pub async fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        poll_fn(|context| self.poll_piece(context)).await
    }

    /// Ready when the other side is gone, although what it wrote may not have been read yet.
    pub fn poll_hangup(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.source.poll_hangup(context)
    }
}

fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is to come out, said in the plainest way.
    fn naive(stream: &[u8], frame_bytes_max: usize) -> Vec<Piece> {
        let too_long = |line: &[u8]| Piece::TooLong { bytes: as_u64(line.len()) };
        stream
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| match line.last() {
                Some(b'\n') if line.len() <= frame_bytes_max => Piece::Frame(line.to_vec()),
                Some(b'\n') => too_long(line),
                Some(_) | None if line.len() < frame_bytes_max => Piece::Unterminated(line.to_vec()),
                Some(_) | None => too_long(line),
            })
            .collect()
    }

    fn split(chunks: &[&[u8]], frame_bytes_max: usize) -> Vec<Piece> {
        let mut splitter = Splitter::new(frame_bytes_max);
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.room().extend_from_slice(chunk);
            pieces.extend(std::iter::from_fn(|| splitter.next_piece()));
            assert!(splitter.bytes.len() - splitter.start < frame_bytes_max, "no more is kept than one frame");
        }
        pieces.extend(splitter.finish());
        assert_eq!(splitter.finish(), None);
        pieces
    }

    fn frame(text: &str) -> Piece {
        Piece::Frame(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_keep_their_endings_and_blank_lines_are_lines() {
        let pieces = split(&[b"{}\r\n\n  {}", b"\n\r\n"], 64);
        assert_eq!(pieces, [frame("{}\r\n"), frame("\n"), frame("  {}\n"), frame("\r\n")]);
    }

    #[test]
    fn a_tail_without_a_line_feed_is_told_apart() {
        assert_eq!(split(&[b"{}\n{\"a", b"\":1}"], 64), [frame("{}\n"), Piece::Unterminated(b"{\"a\":1}".to_vec())]);
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_whole() {
        assert_eq!(split(&[b"12345678\n1234567\n"], 8), [Piece::TooLong { bytes: 9 }, frame("1234567\n")]);
        assert_eq!(split(&[b"1234", b"56789", b"0\n", b"x\n"], 8), [Piece::TooLong { bytes: 11 }, frame("x\n")]);
        assert_eq!(split(&[b"123456789"], 8), [Piece::TooLong { bytes: 9 }]);
    }

    #[test]
    fn a_large_frame_takes_the_buffer_along_and_a_small_one_does_not() {
        let mut splitter = Splitter::new(usize::MAX);
        let large = [vec![b'x'; MOVED_BYTES_MIN], vec![b'\n']].concat();
        splitter.room().extend_from_slice(&large);
        assert_eq!(splitter.next_piece(), Some(Piece::Frame(large)));
        assert_eq!(splitter.bytes.capacity(), 0);
        splitter.room().extend_from_slice(b"{}\n");
        assert_eq!(splitter.next_piece(), Some(frame("{}\n")));
        assert!(splitter.bytes.capacity() >= READ_BYTES);
    }

    #[test]
    fn room_made_for_a_line_that_was_dropped_is_given_back() {
        let mut splitter = Splitter::new(KEPT_BYTES_MAX * 4);
        splitter.room().extend_from_slice(&vec![b'x'; KEPT_BYTES_MAX * 4]);
        assert_eq!(splitter.next_piece(), None);
        assert!(splitter.room().capacity() <= KEPT_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_what_the_plain_reading_gives(
            lines in prop::collection::vec("([a-z\r]{0,12}\n)|([a-z]{0,12})", 0..12),
            cuts in prop::collection::vec(0usize..200, 0..24),
            frame_bytes_max in 1usize..14,
        ) {
            let stream = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(split(&chunks, frame_bytes_max), naive(&stream, frame_bytes_max));
        }

        #[test]
        fn one_byte_at_a_time_gives_what_one_write_gives(stream in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(split(&bytes, 32), split(&[&stream], 32));
        }
    }
}
