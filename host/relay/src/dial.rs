//! Connects to the daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// Connects without waiting: a daemon that is stopped lets its backlog run full, and then connecting would block.
pub(crate) fn dial(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
