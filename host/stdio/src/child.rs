//! A child in a process group of its own, from its start to the last of its kin.
//!
//! The child is not reaped before its group has been killed: as long as it is there, be it as a zombie, no other process
//! can get its number, so a signal to the group never hits a stranger.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::command::{Hook, command};
use crate::pipes::{Sink, Source};

/// A child and its standard streams.
#[derive(Debug)]
pub struct Spawned {
    /// Its standard input.
    pub stdin: Sink,
    /// Its standard output.
    pub stdout: Source,
    /// Itself and all that it starts.
    pub group: Group,
}

/// A child's process group. Whatever is left of it is killed when this is dropped.
#[derive(Debug)]
pub struct Group {
    child: Child,
    leader: Pid,
}

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself, with this status.
    Status(u8),
    /// By this signal.
    Signal(u8),
}

impl Ended {
    /// The exit code that shells give: the status, or 128 and the signal's number.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }
}

/// A command that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no command.
    #[error("no command to start")]
    NoCommand,
    /// The program was not found, or is none.
    #[error("cannot start {}", .program.display())]
    Start {
        /// The program as it was given.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// The program runs but its pipes cannot be watched.
    #[error("cannot watch the pipes of {}", .program.display())]
    Pipes {
        /// The program as it was given.
        program: OsString,
        /// Why.
        source: io::Error,
    },
}

impl SpawnError {
    /// The exit code that shells give: 127 for a program that is not there, 126 for one that cannot be run.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoCommand => 127,
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } | Self::Pipes { .. } => 126,
        }
    }
}

/// Starts `line`, a program and its arguments, in a group of its own. It inherits standard error, working directory and the
/// environment, to which `variables` are added or in which they take a place, and dies when the calling thread does: call this on a thread that lives as long as the child may.
/// Needs a running tokio reactor.
pub fn spawn(line: &[OsString], variables: &[(&OsStr, &OsStr)]) -> Result<Spawned, SpawnError> {
    let (program, arguments) = line.split_first().ok_or(SpawnError::NoCommand)?;
    let mut command = command(program, arguments, Hook::DieWith { parent: rustix::process::getpid() });
    command.envs(variables.iter().copied());
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().map_err(|source| SpawnError::Start { program: program.clone(), source })?;
    let stdin = child.stdin.take().map(OwnedFd::from);
    let stdout = child.stdout.take().map(OwnedFd::from);
    let group = Group { leader: Pid::from_child(&child), child };
    let pipes = watch(stdin, stdout).map_err(|source| SpawnError::Pipes { program: program.clone(), source });
    pipes.map(|(stdin, stdout)| Spawned { stdin, stdout, group })
}

fn watch(stdin: Option<OwnedFd>, stdout: Option<OwnedFd>) -> io::Result<(Sink, Source)> {
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(io::ErrorKind::NotConnected.into()) };
    Ok((Sink::own(stdin)?, Source::own(stdout)?))
}

impl Group {
    /// The child's process id, which is the group's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to every process of the group. A group that is gone already is no error.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::kill_process_group(self.leader, signal) {
            // Some systems say PERM of a group that consists of zombies.
            Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills what is left of the group.
    pub fn kill(&self) {
        // Errors end here: there is nobody to tell, and nothing else that could be tried.
        self.signal(Signal::KILL).ok();
    }

    /// How the child ended, if it has; to be asked after every SIGCHLD. It stays in the process table until this is
    /// dropped.
    pub fn ended(&self) -> io::Result<Option<Ended>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(self.leader), options))?;
        let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
            (_, Some(signal)) => Ended::Signal(byte(signal)),
            (Some(code), None) => Ended::Status(byte(code)),
            (None, None) => Ended::Status(0),
        }))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        // Not a blocking wait: a process stuck in the kernel would keep us from ending.
        self.child.try_wait().ok();
    }
}
