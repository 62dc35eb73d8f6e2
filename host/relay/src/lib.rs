//! One client, one server: moves their messages, and releases a call only by a permit.
//!
//! The relay starts the server, asks the daemon about every `tools/call`, and forwards everything else as it came. It
//! decides nothing and keeps nothing. It must never write a byte of its own to the server, never a byte to the client
//! that is neither the server's nor a refusal, and never a call without its permit.
#![forbid(unsafe_code)]

mod alarm;
mod catalogue;
mod decline;
mod dial;
mod driver;
mod events;
mod flights;
mod inbound;
mod link;
mod mail;
mod order;
mod outgoing;
mod reasons;
mod session;
mod signals;
#[cfg(test)]
mod testing;
mod to_client;
mod to_server;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use callgate_core::identity::{AgentName, ServerName, SessionId};
use callgate_core::secret::Secret;
use callgate_core::server::ServerId;
use callgate_stdio::child::{self, SpawnError};
use callgate_stdio::detached::Detached;
use callgate_stdio::frames::Frames;
use callgate_stdio::pipes::{Sink, Source};

pub use crate::decline::decline;

use crate::alarm::now;
use crate::driver::Driver;
use crate::session::{Session, Terms};
use crate::signals::Signals;

/// What a relay needs to know. It may hold secrets, so it has no `Debug`.
pub struct Config<D> {
    /// The operator's name for the server.
    pub server: ServerName,
    /// The server's program and arguments.
    pub command: Vec<OsString>,
    /// Variables that only the server gets, and that are wiped once it is started.
    pub secrets: Vec<(OsString, Secret)>,
    /// The id under which this command is registered, if it is.
    pub registered: Option<ServerId>,
    /// What the configuration says of who the client is; a claim.
    pub claim: Option<AgentName>,
    /// The longest frame either side may send, bytes, line feed included.
    pub frame_bytes_max: usize,
    /// How long the daemon may take for a decision.
    pub decision_deadline: Duration,
    /// This build; a daemon of another one is not asked.
    pub build: String,
    /// This session; drawn at random and never used before.
    pub session: SessionId,
    /// The way to the daemon.
    pub daemon: D,
}

/// How a relay finds a daemon. Both functions are called on the relay's one thread and must not wait for anything.
pub trait Daemon {
    /// Where the daemon that runs listens; `None` when none runs. Asked before every connection, because another daemon
    /// may listen elsewhere.
    fn socket(&self) -> io::Result<Option<PathBuf>>;

    /// Starts a daemon that outlives this process. Should another have been started meanwhile, it ends by itself.
    fn start(&self) -> io::Result<Detached>;
}

/// How a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The server's exit status, 128 and the number of the signal that killed it.
    pub code: u8,
    /// What ended the session.
    pub end: End,
}

/// What ended a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The client closed its side, or is gone.
    ClientClosed,
    /// The server exited or closed its output.
    ServerExited,
    /// The relay was told to end by a signal.
    Signal,
}

impl End {
    /// The word the journal has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientClosed => "client-closed",
            Self::ServerExited => "server-exited",
            Self::Signal => "signal",
        }
    }
}

/// Why there was no session.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The runtime cannot be set up, or signals not be listened to.
    #[error("cannot set up the relay")]
    Setup(#[source] io::Error),
    /// Our own standard input or output cannot be used.
    #[error("cannot use the standard streams")]
    Streams(#[source] io::Error),
}

impl Error {
    /// The exit code for it: what a shell gives when a program cannot be started, 126 or 127, else 70.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Spawn(error) => error.exit_code(),
            Self::Setup(_) | Self::Streams(_) => 70,
        }
    }
}

/// Relays between our standard streams and a server that it starts, until either is gone.
///
/// Blocks. To be called on the thread that lives as long as the process, because the server is killed when the thread
/// that started it ends.
pub fn run<D: Daemon>(config: Config<D>) -> Result<Exit, Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(Error::Setup)?;
    runtime.block_on(relay(config))
}

async fn relay<D: Daemon>(config: Config<D>) -> Result<Exit, Error> {
    let Config {
        server,
        command,
        secrets,
        registered,
        claim,
        frame_bytes_max,
        decision_deadline,
        build,
        session,
        daemon,
    } = config;
    let signals = Signals::listen().map_err(Error::Setup)?;
    let spawned = {
        let secrets = secrets;
        let variables: Vec<(&OsStr, &OsStr)> =
            secrets.iter().map(|(name, value)| (name.as_os_str(), OsStr::from_bytes(value.expose()))).collect();
        child::spawn(&command, &variables)?
    };
    let client_in = Frames::new(Source::stdin().map_err(Error::Streams)?, frame_bytes_max);
    let client_out = Sink::stdout().map_err(Error::Streams)?;
    let command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let terms = Terms { session, server, command, registered, claim, build, frame_bytes_max, decision_deadline };
    let session = Session::new(terms, now());
    let mut driver = Driver::new(session, &daemon, (client_in, client_out), spawned, signals);
    driver.look_after_the_server(now());
    Ok(driver.run().await)
}
