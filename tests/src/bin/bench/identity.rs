//! What it costs to look at who connected, and at the programs above it.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use callgate_core::evidence::ANCESTORS_MAX;
use callgate_identity::{Peer, SystemPeer};

use crate::bars;
use crate::report::{Report, median};
use crate::subject::micros;

/// How often it is looked in a round.
const LOOKS: usize = 20;

/// Looks at a process that as many shells started as are followed at most.
pub(crate) fn measure(report: &mut Report, rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket can be made");
    let mut chain = Command::new("sh");
    let shell = ["-c", "\"$@\"; exit $?", "sh", "sh"];
    let this = std::env::current_exe().expect("a running program has a path");
    chain.args(shell.repeat(ANCESTORS_MAX).iter().take(shell.len() * ANCESTORS_MAX - 1));
    chain.arg(this).arg("connect").arg(&path).stdin(Stdio::null());
    let mut chain = chain.spawn().expect("a shell can be spawned");
    let (connection, _) = listener.accept().expect("somebody connects");
    let mut looks = Vec::with_capacity(rounds * LOOKS);
    for _ in 0..rounds * LOOKS {
        let begun = Instant::now();
        let peer = SystemPeer::of(&connection).expect("who connected is there");
        let is_ours = peer.runs_this_program();
        let ancestors = peer.ancestors();
        looks.push(micros(begun) / 1e3);
        assert!(is_ours && ancestors.len() == ANCESTORS_MAX);
    }
    drop(connection);
    chain.wait().expect("a child can be waited for");
    report.barred("who connected, and eight programs above it", median(&mut looks), bars::IDENTITY_MS);
}

/// Connects, and stays until the other end goes.
pub(crate) fn connect(path: &Path) {
    let mut connection = UnixStream::connect(path).expect("somebody listens");
    let _: std::io::Result<u64> = std::io::copy(&mut connection, &mut std::io::sink());
}
