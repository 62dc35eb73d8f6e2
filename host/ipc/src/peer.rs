//! Who is at the other end of a unix socket, by the kernel's word. Sends and receives nothing.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{Uid, geteuid};

/// Demands that whoever listens, or connected, at the other end of `socket` runs as our user; the error says who does.
///
/// To be asked before the first byte is sent: the folder's mode keeps others from the socket's name, and this holds where
/// it does not.
pub fn is_ours(socket: &impl AsFd) -> io::Result<()> {
    same_user(user(socket)?, geteuid())
}

#[cfg(target_os = "linux")]
fn user(socket: &impl AsFd) -> io::Result<Uid> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid)
}

/// rustix offers nothing like it here, and who is not known is not ours.
#[cfg(not(target_os = "linux"))]
fn user(_socket: &impl AsFd) -> io::Result<Uid> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "who answers there cannot be found out on this system"))
}

fn same_user(theirs: Uid, ours: Uid) -> io::Result<()> {
    if theirs == ours {
        return Ok(());
    }
    let text = format!("user {} answers there, and this is user {}", theirs.as_raw(), ours.as_raw());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn our_own_end_is_ours() {
        let (one, other) = UnixStream::pair().unwrap();
        is_ours(&one).unwrap();
        is_ours(&other).unwrap();
    }

    #[test]
    fn another_user_is_named() {
        let error = same_user(Uid::from_raw(65534), Uid::from_raw(1000)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "user 65534 answers there, and this is user 1000");
    }

    #[test]
    fn what_is_no_unix_socket_is_not_ours() {
        let (pipe, _other) = io::pipe().unwrap();
        assert!(is_ours(&pipe).is_err());
    }
}
