//! macOS: audit tokens and `proc_info`. It compiles, and nothing of it has been run: no machine of that kind was there.
//!
//! Scripts are not told: the arguments of a process are not read here, so that only agents with a program of their own are known.

use std::ffi::{OsStr, c_int};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use callgate_core::evidence::Process;
use nix::sys::socket::{getsockopt, sockopt};

use crate::{ANCESTORS_MAX, Peer, program};

/// Where a process id and its version stand in an audit token (`audit_token_to_pid`, `audit_token_to_pidversion`).
const TOKEN_PID: usize = 5;

/// A process that connected.
#[derive(Debug)]
pub struct MacPeer(Seen);

impl Peer for MacPeer {
    fn of(socket: &impl AsFd) -> io::Result<Self> {
        let socket = socket.as_fd();
        let pid = getsockopt(&socket, sockopt::LocalPeerPid)?;
        let token = getsockopt(&socket, sockopt::LocalPeerToken)?;
        // The token is that of the end's process as it was when it connected.
        if token.val[TOKEN_PID] != pid.unsigned_abs() {
            return Err(io::Error::other("the other end has changed hands"));
        }
        Seen::by_id(pid).map(Self).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn pid(&self) -> u32 {
        self.0.pid.unsigned_abs()
    }

    fn runs_this_program(&self) -> bool {
        let ours = std::env::current_exe().and_then(fs::metadata);
        let theirs = self.0.file().map(|(_, file)| file);
        let same = |ours: Metadata, theirs: Metadata| (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino());
        ours.ok().zip(theirs).is_some_and(|(ours, theirs)| same(ours, theirs)) && self.0.is_still_there()
    }

    fn ancestors(&self) -> Vec<Process> {
        let mut ancestors = Vec::with_capacity(ANCESTORS_MAX);
        let mut next = self.0.parent();
        while let Some(seen) = next {
            let process = seen.look();
            if !seen.is_still_there() {
                break;
            }
            ancestors.push(process);
            next = if ancestors.len() < ANCESTORS_MAX { seen.parent() } else { None };
        }
        ancestors
    }

    fn receive(&self, mut socket: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
        socket.read(bytes)
    }
}

/// The kernel does not tell here who sends.
pub fn name_senders(_listener: &impl AsFd) -> io::Result<()> {
    Ok(())
}

/// A process, told from a later one of the same id by when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    pid: c_int,
    parent: c_int,
    begun: (u64, u64),
}

impl Seen {
    fn by_id(pid: c_int) -> Option<Self> {
        let info = basic(pid)?;
        let parent = c_int::try_from(info.pbi_ppid).ok()?;
        Some(Self { pid, parent, begun: (info.pbi_start_tvsec, info.pbi_start_tvusec) })
    }

    fn is_still_there(&self) -> bool {
        Self::by_id(self.pid).is_some_and(|now| now.begun == self.begun)
    }

    /// Its parent. One that was seen and is still its parent after that was so all the time.
    fn parent(&self) -> Option<Self> {
        let parent = Self::by_id(Self::by_id(self.pid)?.parent)?;
        Self::by_id(self.pid).is_some_and(|now| now.begun == self.begun && now.parent == parent.pid).then_some(parent)
    }

    /// The file at the path that it runs; by now another one may be there, which is told from the enrolled one.
    fn file(&self) -> Option<(PathBuf, Metadata)> {
        let path = path(self.pid)?;
        let file = fs::metadata(&path).ok()?;
        Some((path, file))
    }

    fn look(&self) -> Process {
        let executable = self.file().map(|(path, file)| program::executable(&path, &file));
        Process { pid: self.pid.unsigned_abs(), executable, ..Process::default() }
    }
}

#[expect(unsafe_code, reason = "libc offers nothing else")]
fn basic(pid: c_int) -> Option<libc::proc_bsdinfo> {
    let size = c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    // SAFETY: it is made of integers and arrays of them, for which zero is a value.
    let mut info: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes, which is how many are there.
    let written =
        unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, std::ptr::from_mut(&mut info).cast(), size) };
    (written == size).then_some(info)
}

#[expect(unsafe_code, reason = "libc offers nothing else")]
fn path(pid: c_int) -> Option<PathBuf> {
    let mut bytes = vec![0_u8; usize::try_from(libc::PROC_PIDPATHINFO_MAXSIZE).ok()?];
    let size = u32::try_from(bytes.len()).ok()?;
    // SAFETY: it writes at most `size` bytes, which is how many are there.
    let written = unsafe { libc::proc_pidpath(pid, bytes.as_mut_ptr().cast(), size) };
    bytes.truncate(usize::try_from(written).ok().filter(|written| *written > 0)?);
    Some(PathBuf::from(OsStr::from_bytes(&bytes)))
}
