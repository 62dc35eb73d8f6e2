//! One end of a unix socket that speaks `callgate-ipc`, for threads that may block.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate_identity::{Peer, SystemPeer};
use callgate_ipc::frame::{self, Malformed, Message};
use callgate_ipc::servers::wipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What one read takes at most: whatever has arrived together is decided together.
const READ_BYTES: usize = 64 * 1024;
/// A buffer that one large message has grown beyond this is given back once it is empty.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// A connection that can no longer be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("no answer came in time")]
    Silent,
    /// Something came before it could be asked for.
    #[error("the other end spoke before it was greeted")]
    TooEarly,
    /// What was sent is not read.
    #[error("the other end does not read what it is sent")]
    Unread,
    /// What came is no message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The socket failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// One end.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: UnixStream,
    /// Who has to be the one that sends; on the daemon's side.
    from: Option<Arc<SystemPeer>>,
    buffer: Vec<u8>,
    /// What of `buffer` has arrived and is not yet decoded.
    pending: Range<usize>,
    outgoing: Vec<u8>,
}

impl Wire {
    pub(crate) const fn new(stream: UnixStream) -> Self {
        Self { stream, from: None, buffer: Vec::new(), pending: 0..0, outgoing: Vec::new() }
    }

    /// Takes only what `from` itself sends, and gives up on it when it takes nothing of what it is sent for this long.
    pub(crate) fn serving(stream: UnixStream, from: Arc<SystemPeer>, patience: Duration) -> io::Result<Self> {
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { from: Some(from), ..Self::new(stream) })
    }

    /// Sends messages in one write.
    pub(crate) fn send<M: Message>(&mut self, messages: &[M]) -> Result<(), Broken> {
        self.outgoing.clear();
        for message in messages {
            frame::encode(message, &mut self.outgoing)?;
        }
        self.stream.write_all(&self.outgoing).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Broken::Unread,
            _ => Broken::Socket(error),
        })
    }

    /// Waits for the next message. Without a deadline it waits for as long as the connection lives.
    pub(crate) fn receive<M: Message>(&mut self, deadline: Option<Instant>) -> Result<M, Broken> {
        loop {
            if let Some(message) = self.arrived()? {
                return Ok(message);
            }
            self.read(deadline)?;
        }
    }

    /// The next message, if it has wholly arrived.
    pub(crate) fn arrived<M: Message>(&mut self) -> Result<Option<M>, Broken> {
        let Some((message, taken)) = frame::decode(&self.buffer[self.pending.clone()])? else { return Ok(None) };
        self.pending.start += taken;
        Ok(Some(message))
    }

    /// Wipes what went through the buffers: a secret was among it.
    pub(crate) fn wipe(&mut self) {
        wipe(&mut self.outgoing);
        // What is pending was not asked for; nobody speaks before he is answered here.
        self.pending = 0..0;
        wipe(&mut self.buffer);
    }

    /// Whether more has come than was received, the end included.
    pub(crate) fn has_more(&self) -> Result<bool, Broken> {
        if !self.pending.is_empty() {
            return Ok(true);
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let came = poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&at_once));
        came.map(|came| came > 0).map_err(|error| Broken::Socket(error.into()))
    }

    fn read(&mut self, deadline: Option<Instant>) -> Result<(), Broken> {
        self.wait(deadline)?;
        self.make_room();
        let room = &mut self.buffer[self.pending.end..];
        let read = match &self.from {
            Some(peer) => peer.receive(&self.stream, room),
            None => self.stream.read(room),
        };
        match read {
            Ok(0) => Err(Broken::Closed),
            Ok(read) => {
                self.pending.end += read;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until there is something to read. In `poll`, because a thread that sleeps in a read is woken by every message that
    /// the other end takes as well, only to sleep again: a fifth of the processor time of a small call.
    fn wait(&self, deadline: Option<Instant>) -> Result<(), Broken> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return Err(Broken::Silent),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Broken::Socket(error.into())),
            }
        }
    }

    /// Makes room for one read behind what is pending.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.pending.clone(), 0);
        self.pending = 0..self.pending.len();
        if self.pending.is_empty() && self.buffer.len() > KEPT_BYTES_MAX {
            self.buffer = Vec::new();
        }
        if self.buffer.len() < self.pending.end + READ_BYTES {
            self.buffer.resize((2 * self.buffer.len()).max(self.pending.end + READ_BYTES), 0);
        }
    }

    /// Waits until the other end has closed the connection.
    pub(crate) fn wait_closed(mut self, deadline: Instant) {
        while self.read(Some(deadline)).is_ok() {
            self.pending = 0..0;
        }
    }
}
