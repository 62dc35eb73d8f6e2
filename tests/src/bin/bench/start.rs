//! What starting costs, and what is kept in memory.

use std::ffi::OsString;
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
    report.barred("daemon ready, compiled before", median(&mut warm), bars::DAEMON_WARM_MS);
    report.barred("daemon ready, at its very first start", first, bars::DAEMON_FIRST_MS);
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
