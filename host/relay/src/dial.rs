//! Connects to the daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use callgate_stdio::pipes::{Sink, Source};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::Daemon;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unconnected {
    /// Nobody says where a daemon listens.
    #[error("none is running")]
    NoneRuns,
    /// It cannot be found out where one listens.
    #[error("it cannot be found: {0}")]
    NotFound(io::Error),
    /// Nobody answers there, or somebody whose daemon is not ours.
    #[error("{}: {source}", .socket.display())]
    Refused {
        /// Where it was tried.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Connects to the daemon that runs, without waiting: one that is stopped lets its backlog run full, and then connecting
/// would block.
pub(crate) fn connect(daemon: &impl Daemon) -> Result<(Source, Sink), Unconnected> {
    let socket = daemon.socket().map_err(Unconnected::NotFound)?.ok_or(Unconnected::NoneRuns)?;
    let ends = connected(&socket).and_then(|fd| Ok((Source::own(fd.try_clone()?)?, Sink::own(fd)?)));
    ends.map_err(|source| Unconnected::Refused { socket, source })
}

fn connected(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    callgate_ipc::peer::is_ours(&socket)?;
    Ok(socket)
}
