//! A byte tap: stands in front of a server, changes nothing, and keeps what went each way.
//!
//! ```text
//! tap PREFIX COMMAND [ARGUMENT…]
//! ```
//!
//! Appends the bytes towards the server to `PREFIX.in` and those towards the client to `PREFIX.out`, each before it passes
//! them on. Ends with the server's status.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::{env, thread};

const READ_BYTES: usize = 64 * 1024;

fn main() -> ExitCode {
    match tap() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tap: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tap() -> io::Result<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let mut argument = || arguments.next().ok_or_else(|| io::Error::other("tap PREFIX COMMAND [ARGUMENT…]"));
    let (prefix, command) = (argument()?, argument()?);
    let mut server = Command::new(command).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let stdin = server.stdin.take().expect("the server's stdin is a pipe");
    let stdout = server.stdout.take().expect("the server's stdout is a pipe");
    let (towards_server, towards_client) = (record(&prefix, ".in")?, record(&prefix, ".out")?);
    // Not joined: it may wait for a client that has nothing more to say although the server is gone.
    thread::spawn(move || pass(io::stdin(), stdin, towards_server));
    let passed = pass(stdout, io::stdout(), towards_client);
    let status = server.wait()?;
    passed?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn record(prefix: &OsString, suffix: &str) -> io::Result<File> {
    let mut path = prefix.clone();
    path.push(suffix);
    OpenOptions::new().create(true).append(true).open(path)
}

fn pass(mut from: impl Read, mut to: impl Write, mut record: File) -> io::Result<()> {
    let mut chunk = vec![0; READ_BYTES];
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        record.write_all(&chunk[..read])?;
        to.write_all(&chunk[..read])?;
        to.flush()?;
    }
}
