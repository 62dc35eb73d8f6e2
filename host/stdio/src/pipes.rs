//! Standard streams and pipes, read and written without ever blocking, whatever they are connected to.
//!
//! Clients hand us pipes, sockets (Node's children get socket pairs), terminals and files. `O_NONBLOCK` belongs to the
//! open file description, which others may share: a client that gives one pipe as our standard output and standard error
//! gives it to the server as standard error too, and the server must not find its writes failing. So pipes and terminals
//! are opened again for a description of our own; sockets are asked call by call; where neither is possible the flag is
//! set and put back at the end.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What a pipe is given to hold. Twice what it has by itself: all pipes of a user together may hold 64 MiB.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 128 * 1024;

/// Where bytes are read from.
#[derive(Debug)]
pub struct Source {
    form: Form,
    fd: Reading,
    /// A read is tried without waiting for readiness first: there may be bytes that no event will announce again.
    untried: bool,
    _borrowed: Option<Borrowed>,
}

/// Where bytes are written to.
#[derive(Debug)]
pub struct Sink {
    form: Form,
    /// `None` only while it changes from one to the other.
    state: Option<Writing>,
    _borrowed: Option<Borrowed>,
}

/// Room is only watched for when there was none: a watched socket that always has room reports every byte that the other
/// side takes, a wake-up each.
#[derive(Debug)]
enum Writing {
    Free(OwnedFd),
    Waiting(AsyncFd<OwnedFd>),
}

/// What is at the other side, as far as it matters to how it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// A pipe whose description does not block.
    Pipe,
    /// A stream socket; told not to block with every call.
    Socket,
    /// A terminal or another device whose description does not block; gives one line a read, whatever more there is.
    Device,
    /// A file: never blocks for long, and the kernel knows no readiness for it.
    File,
}

/// One of our standard streams, ready to be used.
struct Opened {
    fd: OwnedFd,
    form: Form,
    borrowed: Option<Borrowed>,
}

#[derive(Debug)]
enum Reading {
    Polled(AsyncFd<OwnedFd>),
    /// The kernel knows no readiness for it: it always is.
    Always(OwnedFd),
}

/// A description that others share, made nonblocking for as long as we use it.
#[derive(Debug)]
struct Borrowed {
    fd: OwnedFd,
    flags: OFlags,
}

impl Source {
    /// Our own standard input.
    pub fn stdin() -> io::Result<Self> {
        Self::of_stream(rustix::stdio::stdin())
    }

    /// The reading end of a pipe or socket whose description nobody shares.
    pub fn own(fd: OwnedFd) -> io::Result<Self> {
        let form = Form::of(fd.as_fd())?;
        form.widen(fd.as_fd());
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { form, fd: Reading::new(fd)?, untried: true, _borrowed: None })
    }

    fn of_stream(stream: BorrowedFd<'_>) -> io::Result<Self> {
        let Opened { fd, form, borrowed } = open(stream, OFlags::RDONLY)?;
        Ok(Self { form, fd: Reading::new(fd)?, untried: true, _borrowed: borrowed })
    }

    /// Appends to `into` what has arrived, at most as much as it has room for, and tells how much; 0 at the end.
    /// `into` must have room.
    pub fn poll_read(&mut self, context: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let room = into.capacity() - into.len();
        debug_assert!(room > 0, "reading into no room looks like the end of the stream");
        let form = self.form;
        if self.untried {
            match read(form, self.fd.fd(), into) {
                Err(Errno::AGAIN) => self.untried = false,
                Ok(bytes) => {
                    self.untried = !form.is_drained(bytes, room);
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        let Reading::Polled(watched) = &self.fd else {
            return Poll::Ready(read(form, self.fd.fd(), into).map_err(io::Error::from));
        };
        loop {
            let mut guard = ready!(watched.poll_read_ready(context))?;
            match read(form, watched.as_fd(), into) {
                Err(Errno::AGAIN) => guard.clear_ready(),
                Ok(bytes) => {
                    if form.is_drained(bytes, room) {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Ready when nobody can write to the other side any more, although what was written may not have been read yet. To
    /// be asked while reading is paused; never ready for a file.
    pub fn poll_hangup(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Reading::Polled(watched) = &self.fd else { return Poll::Pending };
        self.untried = true;
        loop {
            let Ok(mut guard) = ready!(watched.poll_read_ready(context)) else { return Poll::Pending };
            if guard.ready().is_read_closed() {
                return Poll::Ready(());
            }
            guard.clear_ready();
        }
    }
}

impl Sink {
    /// Our own standard output.
    pub fn stdout() -> io::Result<Self> {
        Self::of_stream(rustix::stdio::stdout())
    }

    /// The writing end of a pipe or socket whose description nobody shares.
    pub fn own(fd: OwnedFd) -> io::Result<Self> {
        let form = Form::of(fd.as_fd())?;
        form.widen(fd.as_fd());
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { form, state: Some(Writing::Free(fd)), _borrowed: None })
    }

    fn of_stream(stream: BorrowedFd<'_>) -> io::Result<Self> {
        let Opened { fd, form, borrowed } = open(stream, OFlags::WRONLY)?;
        Ok(Self { form, state: Some(Writing::Free(fd)), _borrowed: borrowed })
    }

    /// Writes as much as there is room for, and tells how much. Most writes find room, so writing comes before waiting.
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            match self.state.take() {
                Some(Writing::Free(fd)) => match write(self.form, fd.as_fd(), bytes) {
                    Err(Errno::AGAIN) => self.state = Some(Writing::Waiting(watch(fd, Interest::WRITABLE)?)),
                    written => {
                        self.state = Some(Writing::Free(fd));
                        return Poll::Ready(written.map_err(io::Error::from));
                    }
                },
                Some(Writing::Waiting(watched)) => match watched.poll_write_ready(context) {
                    Poll::Ready(Ok(_)) => self.state = Some(Writing::Free(watched.into_inner())),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        self.state = Some(Writing::Waiting(watched));
                        return Poll::Pending;
                    }
                },
                None => return Poll::Ready(Err(Errno::BADF.into())),
            }
        }
    }
}

impl Form {
    fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::Device,
            FileType::RegularFile
            | FileType::Directory
            | FileType::Symlink
            | FileType::BlockDevice
            | FileType::Unknown => Self::File,
        })
    }

    /// Gives a pipe room for a frame of 64 KiB. Into the 64 KiB that it has, such a frame does not fit whole, and both sides would
    /// sleep and be woken once more for the few bytes left. Where it may not have more it stays as it is.
    fn widen(self, fd: BorrowedFd<'_>) {
        #[cfg(target_os = "linux")]
        if self == Self::Pipe && rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|bytes| bytes < PIPE_BYTES) {
            rustix::pipe::fcntl_setpipe_size(fd, PIPE_BYTES).ok();
        }
    }

    /// Whether a read that gave `bytes` of `room` leaves nothing behind, so that the next event announces what comes.
    const fn is_drained(self, bytes: usize, room: usize) -> bool {
        match self {
            Self::Pipe | Self::Socket => bytes > 0 && bytes < room,
            Self::Device | Self::File => false,
        }
    }
}

impl Reading {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        match watch(fd, Interest::READABLE) {
            Ok(watched) => Ok(Self::Polled(watched)),
            Err(Unwatched { fd, error }) if Errno::from_io_error(&error) == Some(Errno::PERM) => Ok(Self::Always(fd)),
            Err(Unwatched { error, .. }) => Err(error),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Polled(fd) => fd.as_fd(),
            Self::Always(fd) => fd.as_fd(),
        }
    }
}

/// A descriptor that cannot be watched. epoll says PERM of what is always ready: regular files and some devices,
/// /dev/null among them.
struct Unwatched {
    fd: OwnedFd,
    error: io::Error,
}

impl From<Unwatched> for io::Error {
    fn from(unwatched: Unwatched) -> Self {
        unwatched.error
    }
}

fn watch(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, Unwatched> {
    #[expect(deprecated, reason = "its successor is unsafe for types that may change their descriptor; OwnedFd cannot")]
    AsyncFd::try_with_interest(fd, interest).map_err(|refused| {
        let (fd, error) = refused.into_parts();
        Unwatched { fd, error }
    })
}

fn open(stream: BorrowedFd<'_>, mode: OFlags) -> io::Result<Opened> {
    let form = Form::of(stream)?;
    form.widen(stream);
    let again = match form {
        Form::Socket | Form::File => return Ok(Opened { fd: stream.try_clone_to_owned()?, form, borrowed: None }),
        Form::Pipe | Form::Device => open_again(stream, mode),
    };
    match again {
        Some(fd) => Ok(Opened { fd, form, borrowed: None }),
        None => Ok(Opened { fd: stream.try_clone_to_owned()?, form, borrowed: Some(Borrowed::take(stream)?) }),
    }
}

impl Borrowed {
    fn take(stream: BorrowedFd<'_>) -> io::Result<Self> {
        let fd = stream.try_clone_to_owned()?;
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Self { fd, flags })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // Nothing is left to be done if it fails: the description is going away from us.
        rustix::fs::fcntl_setfl(&self.fd, self.flags).ok();
    }
}

/// A description of our own for the same pipe or terminal. Fails where there is no /proc, and for what another user made.
fn open_again(stream: BorrowedFd<'_>, mode: OFlags) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    if !cfg!(target_os = "linux") {
        return None; // elsewhere /dev/fd gives the shared description again
    }
    let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
    let flags = mode | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()
}

fn read(form: Form, fd: BorrowedFd<'_>, into: &mut Vec<u8>) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| {
        let room = rustix::buffer::spare_capacity(into);
        match form {
            Form::Socket => rustix::net::recv(fd, room, RecvFlags::DONTWAIT).map(|(_, bytes)| bytes),
            Form::Pipe | Form::Device | Form::File => rustix::io::read(fd, room),
        }
    })
}

fn write(form: Form, fd: BorrowedFd<'_>, bytes: &[IoSlice<'_>]) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| match form {
        Form::Socket => {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            rustix::net::sendmsg(fd, bytes, &mut SendAncillaryBuffer::default(), flags)
        }
        Form::Pipe | Form::Device | Form::File => rustix::io::writev(fd, bytes),
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    async fn read_some(source: &mut Source) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 * 1024);
        poll_fn(|context| source.poll_read(context, &mut bytes)).await.unwrap();
        bytes
    }

    async fn write_some(sink: &mut Sink, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|context| sink.poll_write(context, &[IoSlice::new(bytes)])).await
    }

    fn source(end: &impl AsFd) -> Source {
        Source::of_stream(end.as_fd()).unwrap()
    }

    fn sink(end: &impl AsFd) -> Sink {
        Sink::of_stream(end.as_fd()).unwrap()
    }

    fn blocks(end: &impl AsFd) -> bool {
        !rustix::fs::fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK)
    }

    #[tokio::test]
    async fn pipes_and_sockets_are_read_to_their_end_and_stay_blocking_for_others() {
        let (pipe_out, pipe_in) = io::pipe().unwrap();
        let (socket_out, socket_in) = UnixStream::pair().unwrap();
        for (mut out, mut into, writer) in [
            (source(&pipe_out), sink(&pipe_in), OwnedFd::from(pipe_in)),
            (source(&socket_out), sink(&socket_in), OwnedFd::from(socket_in)),
        ] {
            assert_eq!(write_some(&mut into, b"one\n").await.unwrap(), 4);
            assert_eq!(read_some(&mut out).await, b"one\n");
            assert_eq!(write_some(&mut into, b"two\n").await.unwrap(), 4);
            assert_eq!(read_some(&mut out).await, b"two\n");
            assert!(blocks(&writer));
            drop((into, writer));
            assert_eq!(read_some(&mut out).await, b"");
        }
        assert!(blocks(&pipe_out) && blocks(&socket_out));
    }

    #[tokio::test]
    async fn files_are_read_and_written_although_the_kernel_knows_no_readiness_for_them() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(write_some(&mut sink(&file), b"line\n").await.unwrap(), 5);
        file.rewind().unwrap();
        let mut source = source(&file);
        assert_eq!(read_some(&mut source).await, b"line\n");
        assert_eq!(read_some(&mut source).await, b"");
    }

    #[tokio::test]
    async fn a_full_pipe_waits_for_room_and_loses_nothing() {
        let (mut out, into) = io::pipe().unwrap();
        let mut sink = sink(&into);
        drop(into);
        let bytes: Vec<u8> = (0..1024 * 1024).map(|at: u32| at.to_le_bytes()[0]).collect();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            out.read_to_end(&mut got).unwrap();
            got
        });
        let mut written = 0;
        while written < bytes.len() {
            written += write_some(&mut sink, &bytes[written..]).await.unwrap();
        }
        drop(sink);
        assert_eq!(reader.join().unwrap(), bytes);
    }

    #[tokio::test]
    async fn writing_to_what_nobody_reads_is_an_error_and_no_signal() {
        let (out, into) = io::pipe().unwrap();
        let mut sink = sink(&into);
        drop(out);
        assert_eq!(write_some(&mut sink, b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_hangup_is_seen_behind_bytes_that_nobody_has_read_and_the_bytes_stay() {
        let (out, mut into) = io::pipe().unwrap();
        let mut source = source(&out);
        assert!(poll_fn(|context| Poll::Ready(source.poll_hangup(context))).await.is_pending());
        into.write_all(b"last words\n").unwrap();
        drop(into);
        poll_fn(|context| source.poll_hangup(context)).await;
        assert_eq!(read_some(&mut source).await, b"last words\n");
        assert_eq!(read_some(&mut source).await, b"");
    }

    #[tokio::test]
    async fn reading_resumes_after_a_pause_without_a_new_event() {
        let (out, mut into) = io::pipe().unwrap();
        let mut source = source(&out);
        into.write_all(b"first").unwrap();
        assert_eq!(read_some(&mut source).await, b"first");
        into.write_all(b"second").unwrap();
        let paused = tokio::time::timeout(std::time::Duration::from_millis(1), poll_fn(|cx| source.poll_hangup(cx)));
        assert!(paused.await.is_err(), "a writer is still there");
        assert_eq!(read_some(&mut source).await, b"second");
    }

    #[test]
    fn flags_of_a_shared_description_are_put_back() {
        let (out, into) = io::pipe().unwrap();
        let borrowed = Borrowed::take(out.as_fd()).unwrap();
        assert!(!blocks(&out));
        drop(borrowed);
        assert!(blocks(&out));
        drop(into);
    }
}
