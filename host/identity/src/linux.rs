//! Linux: pidfds, and `/proc` read under them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use callgate_core::evidence::Process;
use callgate_core::interpreter::{is_interpreter, is_shell};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, getsockopt, recvmsg, setsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{ANCESTORS_MAX, Peer, program, script};

/// What the kernel adds to the path of a file that is no longer there.
const DELETED: &[u8] = b" (deleted)";
/// As much of a command line as is read: the script stands near its beginning.
const COMMAND_BYTES_MAX: u64 = 64 * 1024;

/// A process that connected.
#[derive(Debug)]
pub struct LinuxPeer(Held);

impl Peer for LinuxPeer {
    fn of(socket: &impl AsFd) -> io::Result<Self> {
        // No id: it runs where our processes are not seen from.
        let unseen = || io::Error::new(io::ErrorKind::NotFound, "who connected cannot be seen from here");
        let pid = getsockopt(&socket.as_fd(), sockopt::PeerCredentials)?.pid();
        let pid = Pid::from_raw(pid).ok_or_else(unseen)?;
        match getsockopt(&socket.as_fd(), sockopt::PeerPidfd) {
            Ok(pidfd) => Ok(Self(Held { pid, pidfd })),
            // Linux before 6.5 tells only the id that it had. Whoever has it then is held.
            Err(nix::errno::Errno::ENOPROTOOPT) => Held::by_id(pid).map(Self),
            Err(error) => Err(error.into()),
        }
    }

    fn pid(&self) -> u32 {
        self.0.pid.as_raw_nonzero().get().unsigned_abs()
    }

    fn runs_this_program(&self) -> bool {
        let ours = fs::metadata("/proc/self/exe").map(|file| (file.dev(), file.ino()));
        let theirs = fs::metadata(self.0.proc("exe")).map(|file| (file.dev(), file.ino()));
        matches!((ours, theirs), (Ok(ours), Ok(theirs)) if ours == theirs) && self.0.lives()
    }

    fn ancestors(&self) -> Vec<Process> {
        let mut ancestors = Vec::with_capacity(ANCESTORS_MAX);
        let mut next = self.0.parent();
        while let Some(held) = next {
            let process = held.look();
            // What was read is true of it only if it is still there.
            if !held.lives() {
                break;
            }
            ancestors.push(process);
            next = if ancestors.len() < ANCESTORS_MAX { held.parent() } else { None };
        }
        ancestors
    }

    fn receive(&self, socket: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
        let mut control = nix::cmsg_space!(UnixCredentials);
        let mut into = [IoSliceMut::new(bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = recvmsg::<()>(socket.as_raw_fd(), &mut into, Some(&mut control), flags)?;
        let sender = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmCredentials(sender) => Some(sender.pid()),
            _ => None,
        });
        // The kernel joins nothing that different processes sent. The end comes from nobody.
        if received.bytes == 0 || sender == Some(self.0.pid.as_raw_pid()) {
            return Ok(received.bytes);
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "another process sends than the one that connected"))
    }
}

/// Has the kernel say of whatever is sent to the connections of a listener which process sent it.
pub fn name_senders(listener: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(&listener.as_fd(), sockopt::PassCred, &true)?)
}

/// A process and a descriptor of it. Its id is its own for as long as it lives.
#[derive(Debug)]
struct Held {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Held {
    /// Whoever has this id, if it is one process from before it was held until after.
    fn by_id(pid: Pid) -> io::Result<Self> {
        let begun = |pid| stat(pid).map(|stat| stat.begun);
        let before = begun(pid);
        let held = Self { pid, pidfd: pidfd_open(pid, PidfdFlags::empty())? };
        if before.is_some() && before == begun(pid) { Ok(held) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Whether it has not ended: a descriptor of a process can be read once it has.
    fn lives(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&at_once)) == Ok(0)
    }

    /// Its parent. One that was held and is still its parent after that was so all the time.
    fn parent(&self) -> Option<Self> {
        let pid = stat(self.pid)?.parent?;
        let held = Self { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok()? };
        (stat(self.pid)?.parent == Some(pid) && self.lives()).then_some(held)
    }

    fn proc(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.pid.as_raw_nonzero()))
    }

    fn look(&self) -> Process {
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        let link = self.proc("exe");
        let (Ok(path), Ok(file)) = (fs::read_link(&link), fs::metadata(&link)) else {
            return Process { pid, ..Process::default() };
        };
        let (path, replaced) = place(path, &file);
        let (script, title) = self.runs(&path);
        Process { pid, executable: Some(program::executable(&path, &file)), replaced, script, title }
    }

    /// Of an interpreter, the script that it was told to run, or the first word of what it shows instead of its arguments.
    fn runs(&self, program: &Path) -> (Option<String>, Option<String>) {
        let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some(arguments) = is_interpreter(name).then(|| self.arguments()).flatten() else { return (None, None) };
        let path = script::of(name, &arguments).and_then(|script| {
            // A relative one begins where the process is.
            let from = fs::read_link(self.proc("cwd")).ok()?;
            fs::canonicalize(from.join(script)).ok()
        });
        let title = if path.is_none() && !is_shell(name) { script::title(&arguments) } else { None };
        (path.map(|path| path.to_string_lossy().into_owned()), title)
    }

    fn arguments(&self) -> Option<Vec<OsString>> {
        let mut bytes = Vec::new();
        File::open(self.proc("cmdline")).ok()?.take(COMMAND_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Some(bytes[..end].split(|byte| *byte == 0).map(|argument| OsString::from_vec(argument.to_vec())).collect())
    }
}

/// Where a running file is, and whether another one, or none, is there by now.
fn place(path: PathBuf, running: &Metadata) -> (PathBuf, bool) {
    let is_it = |path: &Path| {
        fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (running.dev(), running.ino()))
    };
    if is_it(&path) {
        return (path, false);
    }
    let was = path.as_os_str().as_bytes().strip_suffix(DELETED).map(|was| PathBuf::from(OsStr::from_bytes(was)));
    (was.unwrap_or(path), true)
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    /// `None` for a process that has none, or none that can be seen from here.
    parent: Option<Pid>,
    /// When it began, in ticks since the start of the machine.
    begun: u64,
}

fn stat(pid: Pid) -> Option<Stat> {
    let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name is the second field, in parentheses, and may hold anything.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let mut rest = str::from_utf8(text.get(end + 1..)?).ok()?.split_ascii_whitespace();
    let parent = Pid::from_raw(rest.nth(1)?.parse().ok()?);
    // It is the 22nd field, and the parent was the fourth.
    Some(Stat { parent, begun: rest.nth(17)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn who_connected_is_held_and_known() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        let _other_end = UnixStream::connect(folder.path().join("s")).unwrap();
        let peer = LinuxPeer::of(&listener.accept().unwrap().0).unwrap();
        assert_eq!(peer.pid(), std::process::id());
        assert!(peer.runs_this_program());
        let ancestors = peer.ancestors();
        // Whatever runs the tests.
        let parent = ancestors.first().unwrap();
        assert_eq!(parent.pid, rustix::process::getppid().unwrap().as_raw_nonzero().get().unsigned_abs());
        let executable = parent.executable.as_ref().unwrap();
        assert_eq!(executable.inode, fs::metadata(format!("/proc/{}/exe", parent.pid)).unwrap().ino());
        assert!(ancestors.len() <= ANCESTORS_MAX);
    }

    #[test]
    fn only_what_the_one_who_connected_sends_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        name_senders(&listener).unwrap();
        let mut ours = UnixStream::connect(folder.path().join("s")).unwrap();
        let accepted = listener.accept().unwrap().0;
        let mut bytes = [0; 8];
        std::io::Write::write_all(&mut ours, b"one").unwrap();
        assert_eq!(LinuxPeer::of(&accepted).unwrap().receive(&accepted, &mut bytes).unwrap(), 3);
        std::io::Write::write_all(&mut ours, b"two").unwrap();
        let other = LinuxPeer(Held::by_id(rustix::process::getppid().unwrap()).unwrap());
        assert_eq!(other.receive(&accepted, &mut bytes).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        drop(ours);
        assert_eq!(other.receive(&accepted, &mut bytes).unwrap(), 0, "the end is nobody's");
    }

    #[test]
    fn a_process_of_another_file_is_not_this_program() {
        let held = |pid| LinuxPeer(Held::by_id(pid).unwrap());
        assert!(held(rustix::process::getpid()).runs_this_program());
        assert!(!held(rustix::process::getppid().unwrap()).runs_this_program());
        assert!(Held::by_id(Pid::from_raw(i32::MAX).unwrap()).is_err());
    }

    #[test]
    fn a_file_that_is_replaced_keeps_the_path_that_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, "one").unwrap();
        let running = fs::metadata(&path).unwrap();
        assert_eq!(place(path.clone(), &running), (path.clone(), false));
        let deleted = folder.path().join("program (deleted)");
        fs::rename(&path, folder.path().join("kept")).unwrap();
        assert_eq!(place(deleted.clone(), &running), (path.clone(), true));
        fs::write(&path, "two").unwrap();
        assert_eq!(place(deleted.clone(), &running), (path, true));
        // A file may be called so.
        fs::rename(folder.path().join("kept"), &deleted).unwrap();
        assert_eq!(place(deleted.clone(), &running), (deleted, false));
    }

    #[test]
    fn a_process_s_parent_and_beginning_are_found_behind_any_name() {
        let stat = stat(rustix::process::getpid()).unwrap();
        assert_eq!(stat.parent, rustix::process::getppid());
        assert!(stat.begun > 0);
    }
}
