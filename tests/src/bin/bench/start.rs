//! What starting costs, and what is kept in memory.

use std::ffi::OsString;
use std::io::{Seek, Write};
use std::time::Instant;

use callgate_tests::command::Finished;
use callgate_tests::frame::{call, line, ping};
use callgate_tests::home::Home;
use callgate_tests::{process, program};

use crate::report::{Report, median};
use crate::subject::{Subject, megabytes, micros};
use crate::{Places, bars};

const CALLS: u32 = 1_000;

pub(crate) fn measure(report: &mut Report, places: &Places, rounds: usize) {
    let server: [OsString; 1] = [program::fixture().into()];
    let folder = tempfile::Builder::new().prefix("cg-").tempdir_in(&places.disk).expect("a folder can be made");
    let home = Home::at(folder.path());
    let first = until_ready(&home);
    let mut warm: Vec<f64> = (0..rounds)
        .map(|_| {
            home.stop_daemon();
            until_ready(&home)
        })
        .collect();
    let (mut bare, mut relayed, mut decided) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare.push(first_answer_ms(|| Subject::direct(&server), &ping("1")));
        relayed.push(first_answer_ms(|| Subject::relayed(&home, &server), &ping("1")));
        decided.push(first_answer_ms(|| Subject::relayed(&home, &server), &call("1", "echo", "{}")));
    }
    let (bare, relayed, decided) = (median(&mut bare), median(&mut relayed), median(&mut decided));
    report.figure("bare server, to its first answer", bare);
    report.figure("relay with a warm daemon, to its first answer", relayed);
    report.barred("  over the bare server", relayed - bare, bars::RELAY_START_MS);
    report.figure("relay with a warm daemon, to its first decided call", decided);
    measure_registered(report, &home, rounds);
    report.barred("daemon ready, compiled before", median(&mut warm), bars::DAEMON_WARM_MS);
    report.barred("daemon ready, at its very first start", first, bars::DAEMON_FIRST_MS);
}

/// What it costs that a server is registered, and that it has a credential: the daemon is asked before the server is started, and it
/// reads the secret from its store. That is the sealed file, which every machine has; what a store of the system takes is its own.
fn measure_registered(report: &mut Report, home: &Home, rounds: usize) {
    given(home, &["credential", "store", "init", "--sealed-file"]);
    let fixture = program::fixture();
    let fixture = fixture.to_str().expect("the path is text");
    let _: Finished = home.ok(&["server", "add", "plain", "--", fixture]);
    given(home, &["server", "add", "secret", "--env", "TOKEN", "--", fixture]);
    let (mut plain, mut secret) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        plain.push(first_answer_ms(|| Subject::registered(home, "plain"), &ping("1")));
        secret.push(first_answer_ms(|| Subject::registered(home, "secret"), &ping("1")));
    }
    let (plain, secret) = (median(&mut plain), median(&mut secret));
    report.figure("registered server without a credential, to its first answer", plain);
    report.figure("registered server with a credential, to its first answer", secret);
    report.barred("  over one without, the store's read included", secret - plain, bars::CREDENTIAL_START_MS);
}

/// Runs a command that reads a secret.
fn given(home: &Home, arguments: &[&str]) {
    let mut input = tempfile::tempfile().expect("a file can be made");
    input.write_all(b"a secret of the bench").and_then(|()| input.rewind()).expect("a file can be written");
    let _: Finished = Finished::of(home.prepare(arguments).stdin(input)).exits(0);
}

/// Milliseconds until a daemon that was not there answers, with its plugins ready.
fn until_ready(home: &Home) -> f64 {
    let begun = Instant::now();
    let _: Finished = home.ok(&["daemon", "start"]);
    // Answered once the plugins are ready.
    let _: Finished = home.ok(&["policy", "explain", "echo"]);
    micros(begun) / 1e3
}

fn first_answer_ms(subject: impl FnOnce() -> Subject, frame: &str) -> f64 {
    let begun = Instant::now();
    let mut subject = subject();
    subject.send(&line(frame));
    subject.receive();
    micros(begun) / 1e3
}

pub(crate) fn measure_memory(report: &mut Report, places: &Places) {
    let folder = tempfile::Builder::new().prefix("cg-").tempdir_in(&places.disk).expect("a folder can be made");
    let home = Home::at(folder.path());
    let mut subject = Subject::relayed(&home, &[program::fixture().into()]);
    for number in 0..CALLS {
        subject.round_trip_us(&line(call(&number.to_string(), "echo", r#"{"message":"a small message"}"#)));
    }
    let daemon = home.daemon_pid().expect("a daemon runs");
    report.barred("relay", subject.resident_mb(), bars::RELAY_MB);
    report.barred("daemon", megabytes(process::resident_bytes(daemon)), bars::DAEMON_MB);
}
