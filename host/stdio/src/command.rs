//! The one place where commands are made, and the one hook that runs between fork and exec.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;

/// What a new process does before it becomes its program. Only calls that are safe after a fork: no allocation, no lock.
#[derive(Debug)]
pub(crate) enum Hook {
    /// Dies with the thread that started it, by SIGKILL. Where the kernel knows no such thing, does nothing.
    DieWith {
        /// The process that starts it.
        parent: Pid,
    },
    /// Keeps none of these descriptors.
    Forget(Vec<RawFd>),
}

/// A command that looks its program up as a shell would, and inherits what we have unless told otherwise.
pub(crate) fn command(program: &OsStr, arguments: &[OsString], hook: Hook) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is the one home of processes")]
    let mut command = Command::new(program);
    command.args(arguments);
    #[expect(unsafe_code, reason = "std has no safe hook between fork and exec")]
    // SAFETY: the hook only makes system calls on values made before the fork; it neither allocates nor locks. The
    // descriptors are only marked, never closed or used, so that one closed meanwhile is an error that is ignored.
    unsafe {
        command.pre_exec(move || match &hook {
            Hook::DieWith { parent } => die_with(*parent),
            Hook::Forget(descriptors) => {
                for fd in descriptors {
                    rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(*fd), rustix::io::FdFlags::CLOEXEC).ok();
                }
                Ok(())
            }
        });
    }
    command
}

/// Our descriptors beyond the standard streams, whoever gave them to us.
pub(crate) fn foreign_descriptors() -> Vec<RawFd> {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.filter(|fd| *fd > 2).collect()
}

#[cfg(target_os = "linux")]
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have died before the signal was asked for: then nobody would ever send it.
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}
