//! What is being written to the client: the server's bytes as they come, and our own replies between its lines.
//!
//! There is one writer. A reply goes out at the next line boundary and never inside a line of the server; where both have
//! something to say they take turns, so that neither waits for the other to have nothing left. A line of usual size goes
//! out when it is whole, so that a server that stops in the middle of one holds up no reply; a long one is passed on as it
//! comes, however long it is. A copy stays here until the line has been read by the relay, unless the line is longer than
//! frames may be.

use std::mem;

use callgate_stdio::frames::READ_BYTES;
use memchr::{memchr, memrchr};

use crate::outgoing::{Outgoing, as_u64, give_back};

/// From this size on a line is passed on before it is whole: as much as a pipe takes, so that nobody waits for nobody.
const WHOLE_LINE_BYTES_MAX: usize = READ_BYTES;
/// What the client has not read of the server's output; beyond it the server is not read either.
const UNSENT_BYTES_MAX: usize = 4 * READ_BYTES;
/// What the client has not read of our replies; beyond it the client is not read either.
const REPLY_BYTES_MAX: usize = 1024 * 1024;
/// How much goes out in one turn while the other side waits, or one line if that is longer: as much as a pipe takes.
const TURN_BYTES_MAX: usize = READ_BYTES;

/// The client's side of the server's output.
#[derive(Debug)]
pub(crate) struct ToClient {
    /// The server's bytes that have not been both written and read.
    bytes: Vec<u8>,
    /// The client has everything before this.
    written: usize,
    /// [`Self::next_line`] has given out everything before this.
    read: usize,
    /// Line feeds have been looked for before this.
    scanned: usize,
    /// Behind the last line feed.
    complete: usize,
    /// How much of the current line was let go because it is too long.
    dropped: u64,
    /// The server's output has ended.
    ended: bool,
    /// Our own lines.
    replies: Outgoing,
    /// Whose byte was written last.
    last: Author,
    /// That byte was no line feed.
    in_line: bool,
    line_bytes_max: usize,
}

/// Who speaks to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Author {
    Server,
    Relay,
}

impl Author {
    const fn other(self) -> Self {
        match self {
            Self::Server => Self::Relay,
            Self::Relay => Self::Server,
        }
    }
}

/// A line of the server.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Line<'a> {
    /// With its line feed, unless the output ended before it.
    Whole(&'a [u8]),
    /// Too long to be read; it was passed on all the same.
    TooLong {
        /// Its length.
        bytes: u64,
    },
}

impl ToClient {
    /// Lines up to `line_bytes_max` are kept to be read.
    pub(crate) fn new(line_bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            written: 0,
            read: 0,
            scanned: 0,
            complete: 0,
            dropped: 0,
            ended: false,
            replies: Outgoing::default(),
            last: Author::Server,
            in_line: false,
            line_bytes_max,
        }
    }

    /// Where the server's bytes are appended; has room for [`READ_BYTES`].
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.forget_the_done();
        self.bytes.reserve(READ_BYTES);
        &mut self.bytes
    }

    /// Takes note of what was appended.
    pub(crate) fn took_in(&mut self) {
        if let Some(offset) = memrchr(b'\n', &self.bytes[self.scanned..]) {
            self.complete = self.scanned + offset + 1;
        }
        self.scanned = self.bytes.len();
    }

    /// The server's output has ended: what there is of a last line goes out as it is.
    pub(crate) const fn end(&mut self) {
        self.ended = true;
    }

    /// Adds a line of our own.
    pub(crate) fn reply(&mut self, line: &[u8]) {
        self.replies.back().extend_from_slice(line);
    }

    /// What is to be written next; empty when there is nothing.
    pub(crate) fn next_chunk(&self) -> &[u8] {
        let author = self.author();
        let chunk = self.unsent(author);
        if self.unsent(author.other()).is_empty() { chunk } else { &chunk[..self.turn(chunk)] }
    }

    /// Takes note that the client has `bytes` more of [`Self::next_chunk`].
    pub(crate) fn wrote(&mut self, bytes: usize) {
        let author = self.author();
        let Some(last) = bytes.checked_sub(1).and_then(|at| self.unsent(author).get(at).copied()) else { return };
        match author {
            Author::Server => self.written += bytes,
            Author::Relay => self.replies.advance(bytes),
        }
        self.last = author;
        self.in_line = last != b'\n';
    }

    /// Who writes next: whoever is in the middle of a line, else the other one, if there is something.
    fn author(&self) -> Author {
        let other = self.last.other();
        if self.in_line || self.unsent(other).is_empty() { self.last } else { other }
    }

    fn unsent(&self, author: Author) -> &[u8] {
        match author {
            Author::Server => &self.bytes[self.written..self.sendable_end()],
            Author::Relay => self.replies.unsent(),
        }
    }

    /// How much of `chunk` is written while the other one waits: the rest of a line that is begun, else whole lines.
    fn turn(&self, chunk: &[u8]) -> usize {
        let first_lines = &chunk[..chunk.len().min(TURN_BYTES_MAX)];
        let whole = if self.in_line { None } else { memrchr(b'\n', first_lines) };
        whole.or_else(|| memchr(b'\n', chunk)).map_or(chunk.len(), |offset| offset + 1)
    }

    /// The next line to read, once each. Lines are read whether the client has them yet or not.
    pub(crate) fn next_line(&mut self) -> Option<Line<'_>> {
        let start = self.read;
        let end = if start < self.complete {
            start + memchr(b'\n', &self.bytes[start..self.complete]).map_or(self.complete - start, |offset| offset + 1)
        } else if self.ended && (start < self.bytes.len() || self.dropped > 0) {
            self.bytes.len()
        } else {
            self.let_go_if_too_long();
            return None;
        };
        self.read = end;
        let dropped = mem::take(&mut self.dropped);
        if dropped == 0 && end - start <= self.line_bytes_max {
            return Some(Line::Whole(&self.bytes[start..end]));
        }
        Some(Line::TooLong { bytes: dropped + as_u64(end - start) })
    }

    /// Whether enough waits for the client that the server has to wait too.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() - self.written >= UNSENT_BYTES_MAX
    }

    /// Whether so many replies wait for the client that it has to read before it may write.
    pub(crate) fn is_full_of_replies(&self) -> bool {
        self.replies.unsent().len() >= REPLY_BYTES_MAX
    }

    fn sendable_end(&self) -> usize {
        let begun = self.in_line && self.last == Author::Server && self.written >= self.complete;
        let long = self.bytes.len() - self.complete >= WHOLE_LINE_BYTES_MAX;
        if self.ended || begun || long { self.bytes.len() } else { self.complete }
    }

    /// Without a line feed, a line as long as the bound cannot be read any more.
    fn let_go_if_too_long(&mut self) {
        let length = self.bytes.len() - self.read;
        if self.dropped > 0 || length >= self.line_bytes_max {
            self.dropped += as_u64(length);
            self.read = self.bytes.len();
        }
    }

    fn forget_the_done(&mut self) {
        let done = self.written.min(self.read);
        if done > 0 {
            self.bytes.drain(..done);
            give_back(&mut self.bytes);
        }
        self.written -= done;
        self.read -= done;
        self.scanned -= done;
        self.complete = self.complete.saturating_sub(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_in(to_client: &mut ToClient, bytes: &[u8]) {
        to_client.room().extend_from_slice(bytes);
        to_client.took_in();
    }

    /// Writes up to `bytes` and tells what was written.
    fn write(to_client: &mut ToClient, bytes: usize) -> String {
        let chunk = to_client.next_chunk();
        let chunk = chunk[..bytes.min(chunk.len())].to_vec();
        to_client.wrote(chunk.len());
        String::from_utf8(chunk).unwrap()
    }

    fn write_all(to_client: &mut ToClient) -> String {
        let mut all = String::new();
        while !to_client.next_chunk().is_empty() {
            all += &write(to_client, usize::MAX);
        }
        all
    }

    fn lines(to_client: &mut ToClient) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some(line) = to_client.next_line() {
            lengths.push(match line {
                Line::Whole(line) => line.len(),
                Line::TooLong { bytes } => usize::try_from(bytes).unwrap() + 1_000_000,
            });
        }
        lengths
    }

    #[test]
    fn a_reply_never_splices_into_a_line_whatever_has_been_written_of_it() {
        for written in 0..14 {
            let mut to_client = ToClient::new(1024);
            take_in(&mut to_client, b"first\nsecond\n");
            let mut out = write(&mut to_client, written);
            to_client.reply(b"reply\n");
            out += &write(&mut to_client, 2);
            to_client.reply(b"another\n");
            out += &write_all(&mut to_client);
            let mut lines: Vec<&str> = out.lines().collect();
            lines.sort_unstable();
            assert_eq!(lines, ["another", "first", "reply", "second"], "{out:?}");
        }
    }

    #[test]
    fn a_reply_goes_out_before_whole_lines_that_wait() {
        let mut to_client = ToClient::new(1024);
        take_in(&mut to_client, b"first\nsecond\n");
        to_client.reply(b"reply\n");
        assert_eq!(write_all(&mut to_client), "reply\nfirst\nsecond\n");
    }

    #[test]
    fn half_a_line_is_kept_back_and_holds_up_no_reply() {
        let mut to_client = ToClient::new(1024);
        take_in(&mut to_client, b"fi");
        assert_eq!(write_all(&mut to_client), "");
        to_client.reply(b"reply\n");
        assert_eq!(write_all(&mut to_client), "reply\n");
        take_in(&mut to_client, b"rst\n");
        assert_eq!(write_all(&mut to_client), "first\n");
    }

    #[test]
    fn a_long_line_is_passed_on_as_it_comes_and_replies_wait_for_its_end() {
        let mut to_client = ToClient::new(10 * WHOLE_LINE_BYTES_MAX);
        let half = "x".repeat(WHOLE_LINE_BYTES_MAX);
        take_in(&mut to_client, half.as_bytes());
        assert_eq!(write_all(&mut to_client), half);
        to_client.reply(b"reply\n");
        take_in(&mut to_client, b"yy");
        assert_eq!(write_all(&mut to_client), "yy");
        take_in(&mut to_client, b"z\nnext\n");
        assert_eq!(write_all(&mut to_client), "z\nreply\nnext\n");
        assert_eq!(lines(&mut to_client), [half.len() + 4, 5]);
    }

    #[test]
    fn a_line_beyond_the_bound_passes_unread_and_is_not_kept() {
        let mut to_client = ToClient::new(WHOLE_LINE_BYTES_MAX);
        let mut total = 0;
        for _ in 0..40 {
            take_in(&mut to_client, &vec![b'x'; WHOLE_LINE_BYTES_MAX]);
            total += write_all(&mut to_client).len();
            assert_eq!(lines(&mut to_client), [0; 0]);
            assert!(to_client.bytes.len() <= 2 * WHOLE_LINE_BYTES_MAX);
        }
        take_in(&mut to_client, b"\nok\n");
        assert_eq!(lines(&mut to_client), [1_000_000 + total + 1, 3]);
        assert_eq!(write_all(&mut to_client), "\nok\n");
    }

    #[test]
    fn what_stands_at_the_end_without_a_line_feed_goes_out_and_is_read() {
        let mut to_client = ToClient::new(1024);
        take_in(&mut to_client, b"ok\ntail");
        assert_eq!((write_all(&mut to_client).as_str(), lines(&mut to_client)), ("ok\n", vec![3]));
        to_client.end();
        assert_eq!((write_all(&mut to_client).as_str(), lines(&mut to_client)), ("tail", vec![4]));
        assert_eq!(lines(&mut to_client), [0; 0]);
    }

    #[test]
    fn a_client_that_does_not_read_stops_the_server_and_its_replies_stop_the_client() {
        let mut to_client = ToClient::new(1024);
        while !to_client.is_full() {
            take_in(&mut to_client, b"line\n");
        }
        assert!(!to_client.is_full_of_replies());
        while !to_client.is_full_of_replies() {
            to_client.reply(b"reply\n");
        }
        write_all(&mut to_client);
        assert!(!to_client.is_full() && !to_client.is_full_of_replies());
    }

    #[test]
    fn a_client_that_reads_slowly_hears_both_in_turn_and_nothing_grows_although_nothing_is_ever_empty() {
        const STEP_BYTES: usize = 3000;
        let mut to_client = ToClient::new(1024);
        let (mut ours, mut servers, mut since_the_server) = (0, 0, 0);
        let mut line = String::new();
        for _ in 0..5000 {
            while !to_client.is_full_of_replies() {
                to_client.reply(b"reply\n");
            }
            while !to_client.is_full() {
                take_in(&mut to_client, b"server\n");
            }
            lines(&mut to_client);
            line += &write(&mut to_client, STEP_BYTES);
            let end = line.rfind('\n').map_or(0, |at| at + 1);
            for whole in line.drain(..end).collect::<String>().lines() {
                match whole {
                    "reply" => (ours, since_the_server) = (ours + 1, since_the_server + "reply\n".len()),
                    "server" => (servers, since_the_server) = (servers + 1, 0),
                    other => panic!("spliced: {other}"),
                }
                assert!(since_the_server <= TURN_BYTES_MAX, "the server waits for {since_the_server} bytes of ours");
            }
            assert!(to_client.replies.capacity() <= 5 * REPLY_BYTES_MAX, "{} bytes", to_client.replies.capacity());
            assert!(to_client.bytes.capacity() <= 4 * UNSENT_BYTES_MAX, "{} bytes", to_client.bytes.capacity());
        }
        assert!(ours > 500_000 && servers > 500_000, "{ours} of ours, {servers} of the server");
    }

    #[test]
    fn the_room_of_a_long_line_is_given_back_although_others_follow_it_without_a_pause() {
        let mut to_client = ToClient::new(64 * WHOLE_LINE_BYTES_MAX);
        take_in(&mut to_client, &vec![b'x'; 32 * WHOLE_LINE_BYTES_MAX]);
        take_in(&mut to_client, b"\nnext\n");
        assert_eq!(write(&mut to_client, 32 * WHOLE_LINE_BYTES_MAX + 1).len(), 32 * WHOLE_LINE_BYTES_MAX + 1);
        assert_eq!(lines(&mut to_client), [32 * WHOLE_LINE_BYTES_MAX + 1, 5]);
        take_in(&mut to_client, b"another\n");
        assert!(to_client.bytes.capacity() <= UNSENT_BYTES_MAX + READ_BYTES, "{} bytes", to_client.bytes.capacity());
        assert_eq!(write_all(&mut to_client), "next\nanother\n");
    }

    #[test]
    fn nothing_is_lost_or_changed_however_it_is_cut() {
        let text: String =
            (0..300).flat_map(|at| ["{\"line\":".to_owned(), at.to_string(), "}\n".to_owned()]).collect();
        for (read_bytes, write_bytes) in [(1, 1), (1, 1000), (7, 3), (1000, 11), (5000, 5000)] {
            let mut to_client = ToClient::new(1024);
            let mut out = String::new();
            let mut count = 0;
            for chunk in text.as_bytes().chunks(read_bytes) {
                take_in(&mut to_client, chunk);
                out += &write(&mut to_client, write_bytes);
                count += lines(&mut to_client).len();
            }
            out += &write_all(&mut to_client);
            assert_eq!((out.as_str(), count), (text.as_str(), 300));
        }
    }
}
