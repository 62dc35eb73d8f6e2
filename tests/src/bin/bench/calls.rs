//! Calls, direct and relayed in turns: alone, eight in flight, large.

use std::ffi::OsString;
use std::time::Instant;

use callgate_tests::frame::{call, line};
use callgate_tests::home::Home;
use callgate_tests::peer::Peers;
use callgate_tests::program;

use crate::report::{Report, median};
use crate::subject::Subject;
use crate::{Places, bars, policy};

/// Small calls a subject makes one after the other in a round.
const SEQUENTIAL: u32 = 300;
/// Small calls a subject makes with others in flight in a round.
const IN_FLIGHT: u32 = 4_000;
const WINDOW: u32 = 8;
const LARGE: u32 = 30;
const LARGE_512: u32 = 8;

/// The same server three ways.
struct Subjects {
    direct: Subject,
    memory: Subject,
    disk: Subject,
    // Dropped after the sessions in them.
    _homes: [(Home, tempfile::TempDir); 2],
}

impl Subjects {
    fn new(places: &Places, server: &[OsString], opened: bool) -> Self {
        let homes = [&places.memory, &places.disk].map(|place| {
            let folder = tempfile::Builder::new().prefix("cg-").tempdir_in(place).expect("a folder can be made");
            (Home::at(folder.path()), folder)
        });
        let mut subjects = Self {
            direct: Subject::direct(server),
            memory: Subject::relayed(&homes[0].0, server),
            disk: Subject::relayed(&homes[1].0, server),
            _homes: homes,
        };
        for subject in subjects.each() {
            if opened {
                subject.open();
            }
            sequential(subject, "warm", 16, 20);
        }
        subjects
    }

    fn each(&mut self) -> [&mut Subject; 3] {
        [&mut self.direct, &mut self.memory, &mut self.disk]
    }

    /// One figure a subject: the median over rounds in which each takes its turn.
    fn rounds(&mut self, rounds: usize, measure: impl Fn(&mut Subject, &str) -> f64) -> [f64; 3] {
        let mut figures = [const { Vec::new() }; 3];
        for round in 0..rounds {
            let id = format!("r{round}-");
            for (subject, figures) in self.each().into_iter().zip(&mut figures) {
                figures.push(measure(subject, &id));
            }
        }
        figures.map(|mut figures| median(&mut figures))
    }
}

pub(crate) fn measure_fixture(report: &mut Report, places: &Places, commit_us: f64, rounds: usize) {
    let mut subjects = Subjects::new(places, &[program::fixture().into()], false);
    let [direct, memory, disk] = subjects.rounds(rounds, |subject, id| sequential(subject, id, 16, SEQUENTIAL));
    report.figure("small call, direct", direct);
    report.figure("small call, journal in memory", memory);
    report.figure("small call, durable", disk);
    report.barred("  added, journal in memory", memory - direct, bars::ADDED_MEMORY_US);
    report.figure("  added, durable", disk - direct);
    report.barred(
        "  added, durable, less a bare commit",
        disk - direct - commit_us,
        bars::ADDED_DURABLE_OVER_COMMIT_US,
    );

    let [direct, memory, disk] = subjects.rounds(rounds, eight_in_flight);
    report.figure("calls a second, 8 in flight, direct", direct);
    report.barred("calls a second, 8 in flight, journal in memory", memory, bars::RATE_MEMORY);
    report.barred("calls a second, 8 in flight, durable", disk, bars::RATE_DISK);

    for (name, bytes, count) in [("64 KiB", 64 * 1024, LARGE), ("512 KiB", 512 * 1024, LARGE_512)] {
        let [direct, memory, disk] = subjects.rounds(rounds, |subject, id| sequential(subject, id, bytes, count));
        report.figure(format!("{name}, direct"), direct);
        report.figure(format!("{name}, journal in memory"), memory);
        report.figure(format!("{name}, durable"), disk);
        report.figure(format!("  {name}, times direct, journal in memory"), memory / direct);
        report.figure(format!("  {name}, times direct, durable"), disk / direct);
    }
}

/// What a policy adds to durable calls: a gate with none beside one with 1,000 rules, 100 grants and 20 budgets.
pub(crate) fn measure_policy(report: &mut Report, places: &Places, rounds: usize) {
    let [bare, full] = [(); 2].map(|()| {
        let folder = tempfile::Builder::new().prefix("cg-").tempdir_in(&places.disk).expect("a folder can be made");
        (Home::at(folder.path()), folder)
    });
    policy::write(&full.0, "echo", Subject::SERVER);
    let server = [program::fixture().into()];
    let mut subjects = [&bare.0, &full.0].map(|home| Subject::relayed(home, &server));
    let mut figures = [const { Vec::new() }; 2];
    for round in 0..=rounds {
        for (subject, figures) in subjects.iter_mut().zip(&mut figures) {
            let figure = sequential(subject, &format!("r{round}-"), 16, SEQUENTIAL);
            // The first round is for warming up.
            figures.extend((round > 0).then_some(figure));
        }
    }
    let [bare, full] = figures.map(|mut figures| median(&mut figures));
    report.figure("small call, durable, no policy", bare);
    report.figure("small call, durable, 1,000 rules, 100 grants, 20 budgets", full);
    report.barred("  added by the policy", full - bare, bars::POLICY_DURABLE_US);
}

pub(crate) fn measure_everything(report: &mut Report, places: &Places, peers: &Peers, rounds: usize) {
    let mut subjects = Subjects::new(places, &peers.everything(), true);
    let [direct, memory, disk] = subjects.rounds(rounds, |subject, id| sequential(subject, id, 64 * 1024, LARGE));
    report.figure("64 KiB, direct", direct);
    report.figure("64 KiB, journal in memory", memory);
    report.figure("64 KiB, durable", disk);
    report.figure("  64 KiB, times direct, journal in memory", memory / direct);
    report.barred("  64 KiB, times direct, durable", disk / direct, bars::RATIO_64_KIB);
}

fn frame(id: &str, number: u32, bytes: usize) -> Vec<u8> {
    // Like an agent's, no two calls of a round have the same arguments.
    let text = number.to_string();
    let padding = "x".repeat(bytes - text.len());
    line(call(&format!("\"{id}{number}\""), "echo", &format!(r#"{{"message":"{text}{padding}"}}"#)))
}

/// The median of calls made one after the other, microseconds.
fn sequential(subject: &mut Subject, id: &str, bytes: usize, count: u32) -> f64 {
    let frames: Vec<Vec<u8>> = (0..count).map(|number| frame(id, number, bytes)).collect();
    let mut times: Vec<f64> = frames.iter().map(|frame| subject.round_trip_us(frame)).collect();
    median(&mut times)
}

/// Calls a second while eight are always in flight.
fn eight_in_flight(subject: &mut Subject, id: &str) -> f64 {
    let frames: Vec<Vec<u8>> = (0..IN_FLIGHT).map(|number| frame(&format!("w{id}"), number, 16)).collect();
    let begun = Instant::now();
    let mut frames = frames.iter();
    for frame in frames.by_ref().take(WINDOW as usize) {
        subject.send(frame);
    }
    for _ in 0..IN_FLIGHT {
        subject.receive();
        if let Some(frame) = frames.next() {
            subject.send(frame);
        }
    }
    f64::from(IN_FLIGHT) / begun.elapsed().as_secs_f64()
}
