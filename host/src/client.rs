//! A command's connection to the daemon.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use callgate_ipc::message::{Command, CommandReply, Fault, Greeting, Hello, Purpose};
use callgate_ipc::peer;
use callgate_ipc::servers::{ServersCommand, ServersReply};

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
/// Who holds the lock listens within milliseconds, or stops within a second or two: a daemon that starts, one that stops, and
/// one whose socket is gone.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(3);
/// A store may take 5 s for each secret, and a server has a few.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// What one tries to reach.
pub(crate) enum Reached {
    /// A daemon of this build, ready.
    Ready(Client),
    /// A daemon of another build.
    OtherBuild(Announcement),
    /// One holds the lock and cannot be talked to.
    Unreachable(Unreachable),
    /// None runs.
    Absent,
}

/// A daemon that runs and cannot be talked to.
pub(crate) struct Unreachable {
    /// What it said of itself, if it did.
    pub(crate) announcement: Option<Announcement>,
    /// Why it cannot be talked to.
    pub(crate) why: String,
}

impl Unreachable {
    pub(crate) fn failure(&self) -> Failure {
        let pid = self.announcement.as_ref().map(|other| format!(" (pid {})", other.pid)).unwrap_or_default();
        Failure::environment(format!("the daemon{pid} runs but cannot be reached: {}", self.why))
            .hint("callgate daemon restart")
    }
}

/// A connection to the daemon.
pub(crate) struct Client {
    wire: Wire,
}

impl Client {
    /// Connects to the daemon, and starts one if none runs.
    pub(crate) fn connect(home: &Home) -> Result<Self, Failure> {
        Self::connect_for(home, Purpose::Command)
    }

    /// The same, for what is said about registered servers.
    pub(crate) fn connect_about_servers(home: &Home) -> Result<Self, Failure> {
        Self::connect_for(home, Purpose::Servers)
    }

    fn connect_for(home: &Home, purpose: Purpose) -> Result<Self, Failure> {
        if let Some(client) = Self::reach_for(home, purpose)?.ready()? {
            return Ok(client);
        }
        launch::start(home)?;
        Self::reach_for(home, purpose)?.ready()?.ok_or_else(|| {
            Failure::environment("the daemon ended as soon as it had started")
                .hint(format!("see {}", home.daemon_log().display()))
        })
    }

    /// Connects to the daemon that runs, if one does.
    pub(crate) fn reach(home: &Home) -> Result<Reached, Failure> {
        Self::reach_for(home, Purpose::Command)
    }

    /// The same, for what is asked about registered servers.
    pub(crate) fn reach_about_servers(home: &Home) -> Result<Reached, Failure> {
        Self::reach_for(home, Purpose::Servers)
    }

    fn reach_for(home: &Home, purpose: Purpose) -> Result<Reached, Failure> {
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        loop {
            let (announcement, stream) = match Self::dial(home) {
                Ok(dialled) => dialled,
                Err(Some(unreachable)) => return Ok(Reached::Unreachable(unreachable)),
                Err(None) => return Ok(Reached::Absent),
            };
            let mut client = Self { wire: Wire::new(stream) };
            return match client.greet(purpose) {
                Ok(Greeting::OtherBuild { .. }) => Ok(Reached::OtherBuild(announcement)),
                Ok(Greeting::Unavailable { message }) => {
                    Err(Failure::environment(format!("the daemon does not serve: {message}"))
                        .hint("see `callgate daemon status`, or `callgate daemon restart`"))
                }
                Ok(Greeting::Welcome { .. } | Greeting::Starting) => Ok(Reached::Ready(client)),
                // It ended while it was greeted. Dialling again finds out whether there is another.
                Err(Broken::Closed | Broken::Socket(_)) if Instant::now() < deadline => {
                    std::thread::sleep(POLL);
                    continue;
                }
                Err(cause) => Err(lost(&cause)),
            };
        }
    }

    /// Says who this is, and waits for what the daemon says once it has started.
    fn greet(&mut self, purpose: Purpose) -> Result<Greeting, Broken> {
        self.wire.send(&[Hello { build: BUILD.to_owned(), purpose }])?;
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            match self.wire.receive(Some(deadline))? {
                Greeting::Starting => {}
                greeting => return Ok(greeting),
            }
        }
    }

    /// Connects to whoever holds the lock. An error without a cause: nobody does.
    fn dial(home: &Home) -> Result<(Announcement, UnixStream), Option<Unreachable>> {
        let path = home.lock_file();
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        loop {
            let announcement = lock::announced(&path);
            let (why, for_good) = match &announcement {
                Some(there) => match connect(&there.socket) {
                    Ok(stream) => return Ok((there.clone(), stream)),
                    // Another user's socket does not become ours, and each try would take a place in its queue.
                    Err(error) => (
                        format!("{}: {error}", there.socket.display()),
                        error.kind() == io::ErrorKind::PermissionDenied,
                    ),
                },
                None => (format!("{} does not say where it listens", path.display()), false),
            };
            if !lock::is_held(&path) {
                return Err(None);
            }
            if for_good || Instant::now() > deadline {
                return Err(Some(Unreachable { announcement, why }));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Asks one thing. A failure that the daemon names becomes this command's own.
    pub(crate) fn ask(&mut self, command: &Command) -> Result<CommandReply, Failure> {
        match self.tell_within(command, ANSWER_TIMEOUT)? {
            failed @ CommandReply::Failed { .. } => Err(Self::failure(failed)),
            reply => Ok(reply),
        }
    }

    /// Asks one thing that may take longer. An error says that no answer came, so that nobody knows what was done.
    pub(crate) fn tell_within(&mut self, command: &Command, patience: Duration) -> Result<CommandReply, Failure> {
        self.wire.send(std::slice::from_ref(command)).map_err(|cause| lost(&cause))?;
        self.wire.receive(Some(Instant::now() + patience)).map_err(|cause| lost(&cause))
    }

    /// Asks one thing about registered servers. A failure that the daemon names becomes this command's own.
    pub(crate) fn ask_about_servers(&mut self, command: &ServersCommand) -> Result<ServersReply, Failure> {
        self.ask_about_servers_within(command, STORE_TIMEOUT)
    }

    /// The same within another time. What was sent and received may hold secrets: it is wiped.
    pub(crate) fn ask_about_servers_within(
        &mut self,
        command: &ServersCommand,
        patience: Duration,
    ) -> Result<ServersReply, Failure> {
        let sent = self.wire.send(std::slice::from_ref(command));
        let reply = sent.and_then(|()| self.wire.receive(Some(Instant::now() + patience)));
        self.wire.wipe();
        match reply.map_err(|cause| lost(&cause))? {
            ServersReply::Failed { message, hint, fault } => {
                Err(Self::failure(CommandReply::Failed { message, hint, fault }))
            }
            reply => Ok(reply),
        }
    }

    /// A failure that the daemon named, as this command's own.
    pub(crate) fn failure(reply: CommandReply) -> Failure {
        let CommandReply::Failed { message, hint, fault } = reply else {
            return unexpected();
        };
        let exit = match fault {
            Fault::Request => Exit::Usage,
            Fault::Environment => Exit::Environment,
        };
        Failure { exit, message, hint }
    }

    /// Waits until the daemon has closed the connection, as one that stops does. It has not stopped before it lets go of the
    /// lock: it still has its journal to close.
    pub(crate) fn wait_closed(self) {
        self.wire.wait_closed(Instant::now() + ANSWER_TIMEOUT);
    }
}

impl Reached {
    /// A client to go on with; `None` when a daemon has to be started first.
    pub(crate) fn ready(self) -> Result<Option<Client>, Failure> {
        match self {
            Self::Ready(client) => Ok(Some(client)),
            Self::OtherBuild(other) => Err(other_build(&other)),
            Self::Unreachable(unreachable) => Err(unreachable.failure()),
            Self::Absent => Ok(None),
        }
    }
}

/// The daemon that runs is of another build.
fn other_build(other: &Announcement) -> Failure {
    Failure::environment(format!("the daemon that runs (pid {}) is build {}, this is {BUILD}", other.pid, other.build))
        .hint("callgate daemon restart")
}

/// What a command makes of an answer to another question.
pub(crate) fn unexpected() -> Failure {
    Failure::internal("the daemon answered another question")
}

fn lost(cause: &Broken) -> Failure {
    Failure::environment(format!("lost the daemon: {cause}")).hint("see `callgate daemon status` and the daemon's log")
}

/// Whether a daemon listens at `socket`.
pub(crate) fn listens(socket: &Path) -> bool {
    connect(socket).is_ok()
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    peer::is_ours(&stream)?;
    Ok(stream)
}
