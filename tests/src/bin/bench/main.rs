//! How fast the gate is, and how large: everything beside what it is compared with, in one run, in turns.
//!
//! ```text
//! cargo build --release -p callgate -p callgate-tests && target/release/bench [--check] [--quick]
//! ```
//!
//! Prints medians over rounds in which every subject takes its turn, so that what the machine does meanwhile falls on all
//! of them. `--check` compares with the bars and exits 1 when one is missed, `--quick` only shows that the bench runs. Latencies of a lone caller hang on how fast an
//! idle core wakes up: differences and ratios within a run say more than the figures.

mod calls;
mod commit;
mod decision;
mod identity;
mod policy;
mod report;
mod start;
mod subject;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use callgate_tests::peer::Peers;
use rustix::fs::statfs;

use self::report::{Bar, Report};

/// What rounds there are unless told otherwise: an odd number, so that a median is a round's own.
const ROUNDS: usize = 15;
const ROUNDS_QUICK: usize = 3;
/// `statfs`'s type of a file system in memory.
const TMPFS_MAGIC: i64 = 0x0102_1994;

fn main() -> ExitCode {
    let mut options = Options { check: false, rounds: ROUNDS };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What it starts itself, to look at.
            "connect" => {
                identity::connect(Path::new(&arguments.next().unwrap_or_default()));
                return ExitCode::SUCCESS;
            }
            "--check" => options.check = true,
            "--quick" => options.rounds = ROUNDS_QUICK,
            other => {
                eprintln!("bench: unknown argument {other}\nhint: bench [--check] [--quick]");
                return ExitCode::from(2);
            }
        }
    }
    let Options { check, rounds } = options;
    if cfg!(debug_assertions) && check {
        eprintln!(
            "the bars are for release builds\nhint: cargo build --release -p callgate -p callgate-tests && target/release/bench --check"
        );
        return ExitCode::from(2);
    }
    let report = measure(&Places::find(), rounds);
    print!("{report}");
    if check && !report.holds() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

struct Options {
    check: bool,
    rounds: usize,
}

/// Where journals are put.
struct Places {
    memory: PathBuf,
    disk: PathBuf,
}

impl Places {
    fn find() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let disk =
            [std::env::temp_dir(), PathBuf::from("/var/tmp"), std::env::current_dir().expect("there is a folder")];
        let disk = disk.into_iter().find(|folder| !is_in_memory(folder)).expect("some folder is on a disk");
        assert!(is_in_memory(&memory), "/dev/shm is not in memory");
        Self { memory, disk }
    }
}

fn is_in_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|file_system| file_system.f_type == TMPFS_MAGIC)
}

fn measure(places: &Places, rounds: usize) -> Report {
    let mut report = Report::new(rounds);
    report.section("one decision, without its commit (µs)");
    decision::measure(&mut report, rounds);
    report.section("one durable row, nothing else (µs)");
    let commit = commit::measure(&mut report, &places.disk, rounds);
    report.section("calls through the gate, fixture server (µs, calls a second)");
    calls::measure_fixture(&mut report, places, commit, rounds);
    calls::measure_policy(&mut report, places, rounds);
    match Peers::find() {
        Some(peers) => {
            report.section("calls through the gate, server-everything (µs)");
            calls::measure_everything(&mut report, places, &peers, rounds);
        }
        None => report.skipped("server-everything: CALLGATE_PEERS is not set"),
    }
    report.section("start (ms)");
    start::measure(&mut report, places, rounds);
    identity::measure(&mut report, rounds);
    report.section("resident after 1,000 calls (MB)");
    start::measure_memory(&mut report, places);
    report
}

/// The bars, each with the words of its requirement.
mod bars {
    use super::Bar;

    pub(crate) const DECISION_US: Bar = Bar::at_most(15.0, "a decision without its commit, 1,000 rules");
    pub(crate) const DECISION_GROWTH: Bar = Bar::at_most(1.3, "the same from 10 to 10,000 rules");
    pub(crate) const DECISION_OF_THREE_US: Bar = Bar::at_most(30.0, "a decision of the three default plugins");
    pub(crate) const DECISION_THIRD_PARTY_US: Bar = Bar::at_most(60.0, "added by a third party's plugin");
    pub(crate) const POLICY_DURABLE_US: Bar = Bar::at_most(10.0, "added to a durable call by a policy");
    pub(crate) const ADDED_MEMORY_US: Bar = Bar::at_most(175.0, "added to the median call, journal in memory");
    pub(crate) const ADDED_DURABLE_OVER_COMMIT_US: Bar =
        Bar::at_most(200.0, "added to the median call, durable, over a bare commit");
    pub(crate) const RATE_MEMORY: Bar = Bar::at_least(8_000.0, "calls a second at 8 in flight, journal in memory");
    pub(crate) const RATE_DISK: Bar = Bar::at_least(3_000.0, "calls a second at 8 in flight, durable");
    pub(crate) const RATIO_64_KIB: Bar = Bar::at_most(1.6, "64 KiB beside the direct call, server-everything");
    pub(crate) const RELAY_START_MS: Bar = Bar::at_most(10.0, "a relay's start over the bare server's, warm daemon");
    pub(crate) const CREDENTIAL_START_MS: Bar =
        Bar::at_most(15.0, "a registered server's start with a credential over one without, sealed file");
    pub(crate) const IDENTITY_MS: Bar = Bar::at_most(1.0, "who a session is, eight programs above its relay");
    pub(crate) const DAEMON_WARM_MS: Bar = Bar::at_most(100.0, "the daemon ready, compiled before");
    pub(crate) const DAEMON_FIRST_MS: Bar = Bar::at_most(3_000.0, "the daemon ready at its very first start");
    pub(crate) const RELAY_MB: Bar = Bar::at_most(6.0, "the relay's memory");
    pub(crate) const DAEMON_MB: Bar = Bar::at_most(40.0, "the daemon's memory");
}
