//! Who is at the other end of a unix socket, and which program it comes from, by the kernel's word. Knows no daemon and no policy, and
//! believes nothing that a process says of itself where the kernel can be asked.
#![cfg_attr(not(target_os = "macos"), forbid(unsafe_code))]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod nowhere;
pub mod program;
#[cfg(target_os = "linux")]
mod script;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use callgate_core::evidence::{ANCESTORS_MAX, Process};

#[cfg(target_os = "linux")]
pub use self::linux::{LinuxPeer as SystemPeer, name_senders};
#[cfg(target_os = "macos")]
pub use self::macos::{MacPeer as SystemPeer, name_senders};
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use self::nowhere::{NoPeer as SystemPeer, name_senders};

/// The process that made a connection. What is said of it is said of this very process, or not at all: another one that gets its id
/// later is not taken for it.
pub trait Peer: Sized {
    /// The process that connected at the other end of `socket`, whoever holds that end by now.
    fn of(socket: &impl AsFd) -> io::Result<Self>;

    /// Its id.
    fn pid(&self) -> u32;

    /// Whether it runs the very file that we run. The path alone says nothing: another file may be there by now.
    fn runs_this_program(&self) -> bool;

    /// Its parent, that one's parent and so on, at most [`ANCESTORS_MAX`], as far as they can be followed.
    fn ancestors(&self) -> Vec<Process>;

    /// Reads what it sent itself. What another process sent over the same connection, which it has from this one, is an error.
    /// The socket has to come of a listener that was told to [`name_senders`].
    fn receive(&self, socket: &UnixStream, bytes: &mut [u8]) -> io::Result<usize>;
}
