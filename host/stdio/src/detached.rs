//! Programs that outlive whoever starts them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Child, ExitStatus, Stdio};

use crate::command::{Hook, command, foreign_descriptors};

/// A program that goes on without us. Dropping this leaves it running.
#[derive(Debug)]
pub struct Detached {
    child: Child,
}

impl Detached {
    /// How it ended, if it has. Somebody has to ask after every SIGCHLD, or it stays behind as a zombie that looks alive.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// Starts a program with nothing of ours but the environment and the working directory: its standard streams are
/// /dev/null and no descriptor that a client left open in us goes along, or that client's pipes would never end. The
/// program itself has to leave our session (setsid); it is not made a group leader, so that it can.
pub fn spawn_detached(program: &OsStr, arguments: &[OsString]) -> io::Result<Detached> {
    let mut command = command(program, arguments, Hook::Forget(foreign_descriptors()));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(Detached { child })
}
