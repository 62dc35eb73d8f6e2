//! A command's connection to the daemon.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use callgate_ipc::message::{Command, CommandReply, Fault, Greeting, Hello, Purpose};

use crate::BUILD;
use crate::failure::{Exit, Failure};
use crate::home::Home;
use crate::launch;
use crate::lock::{self, Announcement};
use crate::wire::{Broken, Wire};

/// A daemon that answers nothing for this long is taken for hung.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A daemon that is still compiling at its very first start is waited for.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// What one tries to reach.
pub(crate) enum Reached {
    /// A daemon of this build, ready.
    Ready(Client),
    /// A daemon of another build.
    OtherBuild(Announcement),
    /// None runs.
    Absent,
}

/// A connection to the daemon.
pub(crate) struct Client {
    wire: Wire,
}

impl Client {
    /// Connects to the daemon, and starts one if none runs.
    pub(crate) fn connect(home: &Home) -> Result<Self, Failure> {
        match Self::reach(home)? {
            Reached::Ready(client) => return Ok(client),
            Reached::OtherBuild(other) => return Err(other_build(&other)),
            Reached::Absent => launch::start(home)?,
        }
        match Self::reach(home)? {
            Reached::Ready(client) => Ok(client),
            Reached::OtherBuild(other) => Err(other_build(&other)),
            Reached::Absent => Err(launch::not_started(home)),
        }
    }

    /// Connects to the daemon that runs, if one does.
    pub(crate) fn reach(home: &Home) -> Result<Reached, Failure> {
        let Some(announcement) = lock::announced(&home.lock_file()) else { return Ok(Reached::Absent) };
        let Ok(stream) = UnixStream::connect(&announcement.socket) else { return Ok(Reached::Absent) };
        let mut client = Self { wire: Wire::new(stream) };
        client
            .wire
            .send(&[Hello { build: BUILD.to_owned(), purpose: Purpose::Command }])
            .map_err(|cause| lost(&cause))?;
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            match client.wire.receive(Some(deadline)).map_err(|cause| lost(&cause))? {
                Greeting::Starting => {}
                Greeting::Welcome { .. } => return Ok(Reached::Ready(client)),
                Greeting::OtherBuild { .. } => return Ok(Reached::OtherBuild(announcement)),
                Greeting::Unavailable { message } => {
                    return Err(Failure::environment(format!("the daemon does not serve: {message}"))
                        .hint("see `callgate daemon status`, or `callgate daemon restart`"));
                }
            }
        }
    }

    /// Asks one thing. A failure that the daemon names becomes this command's own.
    pub(crate) fn ask(&mut self, command: &Command) -> Result<CommandReply, Failure> {
        self.wire.send(std::slice::from_ref(command)).map_err(|cause| lost(&cause))?;
        match self.wire.receive(Some(Instant::now() + ANSWER_TIMEOUT)).map_err(|cause| lost(&cause))? {
            CommandReply::Failed { message, hint, fault } => {
                let exit = match fault {
                    Fault::Request => Exit::Usage,
                    Fault::Environment => Exit::Environment,
                };
                Err(Failure { exit, message, hint })
            }
            reply => Ok(reply),
        }
    }

    /// Waits until the daemon has closed the connection, which it does last of all.
    pub(crate) fn wait_closed(self) {
        self.wire.wait_closed(Instant::now() + ANSWER_TIMEOUT);
    }
}

/// The daemon that runs is of another build.
pub(crate) fn other_build(other: &Announcement) -> Failure {
    Failure::environment(format!("the daemon that runs (pid {}) is build {}, this is {BUILD}", other.pid, other.build))
        .hint("callgate daemon restart")
}

fn lost(cause: &Broken) -> Failure {
    Failure::environment(format!("lost the daemon: {cause}")).hint("see `callgate daemon status` and the daemon's log")
}

/// Whether something listens at `socket`.
pub(crate) fn listens(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}
