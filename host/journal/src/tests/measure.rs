//! Figures, not promises: printed by hand on a machine of interest, never a test that can fail on a busy one.
//!
//! cargo test --release -p callgate-journal -- --ignored --nocapture measure

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use callgate_core::charge::{Charge, QUANTITY_MAX, Window};
use callgate_core::entry::Outcome;
use callgate_core::port::{Case, Ledger};
use rusqlite::Connection;

use super::charging::{charge, charged};
use super::support::{Place, allow, case, session, settle};
use crate::{Verification, files};

const ROUNDS: usize = 40;
const COMMITS_A_ROUND: usize = 50;
const LOADED: Duration = Duration::from_secs(3);
const LARGE: usize = 100_000;

#[test]
#[ignore = "prints figures of this machine"]
fn measure_a_lone_caller() {
    in_each_folder(lone_caller);
}

#[test]
#[ignore = "prints figures of this machine"]
fn measure_many_callers() {
    in_each_folder(many_callers);
}

/// On the disk that temporary files are on, and in memory.
fn in_each_folder(measure: fn(&str, &Path)) {
    for (name, folder) in [("disk", std::env::temp_dir()), ("tmpfs", Path::new("/dev/shm").to_owned())] {
        if folder.is_dir() {
            measure(name, &folder);
        }
    }
}

/// What this process has computed for so far: a figure that other processes have no part in.
fn computed() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn lone_caller(name: &str, folder: &Path) {
    let place = Place::in_folder(tempfile::tempdir_in(folder).unwrap());
    let journal = place.open();
    let bare = bare(&place.folder.path().join("bare.db"));
    let mut times = [const { Vec::new() }; 4];
    let mut computing = [Duration::ZERO; 4];
    let commits: [&dyn Fn(); 4] = [
        &|| commit_bare(&bare),
        &|| assert!(allow(&journal, "read_file").is_ok()),
        &|| assert!(settle(&journal, thrice_charged()).is_ok()),
        &|| {
            let entry = allow(&journal, "read_file").unwrap();
            journal.note_outcome(session(1), entry, Outcome::Ok, None);
        },
    ];
    for _ in 0..ROUNDS {
        for ((commit, times), computing) in commits.iter().zip(&mut times).zip(&mut computing) {
            let began = computed();
            times.extend((0..COMMITS_A_ROUND).map(|_| timed(commit)));
            *computing += computed().saturating_sub(began);
        }
    }
    let what = ["bare row", "decision", "decision with three charges", "decision and the outcome before it"];
    for ((what, times), computing) in what.iter().zip(times).zip(computing) {
        let computing = computing.as_secs_f64() * 1e6 / f64::from(u32::try_from(times.len()).unwrap());
        println!("{name}: a lone commit, µs: {what} {}, computing {computing:.1}", percentiles(times));
    }
}

/// A call that three budgets count.
fn thrice_charged() -> Case {
    let named = |key: &str| Charge { key: key.into(), ..charge(Window::Lifetime, QUANTITY_MAX) };
    charged("read_file", ["all-tools", "tool=read_file", "tool=read_* server=fs"].map(named).to_vec())
}

/// What any SQLite journal has to pay: one row, one COMMIT.
fn bare(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
    connection.pragma_update(None, "synchronous", "full").unwrap();
    connection.execute_batch("CREATE TABLE bare (seq INTEGER PRIMARY KEY, body BLOB)").unwrap();
    connection
}

fn commit_bare(connection: &Connection) {
    let body = [b'x'; 900];
    connection.prepare_cached("INSERT INTO bare (body) VALUES (?1)").unwrap().execute([&body[..]]).unwrap();
}

fn timed<T>(act: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    format!("p50 {:.1}, p90 {:.1}, p99 {:.1}", at(50), at(90), at(99))
}

fn many_callers(name: &str, folder: &Path) {
    for callers in [1, 8, 64] {
        let place = Place::in_folder(tempfile::tempdir_in(folder).unwrap());
        let journal = Arc::new(place.open());
        let over = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..callers)
            .map(|_| {
                let (journal, over) = (Arc::clone(&journal), Arc::clone(&over));
                thread::spawn(move || {
                    let mut times = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        times.push(timed(|| allow(&journal, "read_file").unwrap()));
                    }
                    times
                })
            })
            .collect();
        thread::sleep(LOADED);
        over.store(true, Ordering::Relaxed);
        let times: Vec<Duration> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let rate = times.len() as u64 / LOADED.as_secs();
        println!("{name}: {callers} callers: {rate} decisions/s, µs each: {}", percentiles(times));
    }
}

#[test]
#[ignore = "prints figures of this machine"]
fn measure_a_large_journal() {
    let place = Place::new();
    let journal = place.open();
    let began = (Instant::now(), computed());
    while journal.status().head.entries < LARGE as u64 {
        let cases = (0..250).map(|number| case(0, &format!("tool_{number}"))).collect();
        for settled in journal.settle(cases) {
            let callgate_core::port::Settlement::Committed { entry, .. } = settled.unwrap() else { panic!("stale") };
            journal.note_outcome(session(1), entry, Outcome::Ok, None);
        }
        journal.flush().unwrap();
    }
    let entries = journal.status().head.entries;
    let (took, computing) = (began.0.elapsed(), computed().saturating_sub(began.1));
    println!("{entries} entries (half decisions, half outcomes) written in {took:?}, {computing:?} of it computing");
    drop(journal);
    let bytes = std::fs::metadata(place.database()).unwrap().len();
    println!("{} bytes an entry on disk", bytes / entries);
    for _ in 0..3 {
        let began = (Instant::now(), computed());
        assert!(matches!(place.verify(), Verification::Sound(_)));
        println!("verified in {:?}, {:?} of it computing", began.0.elapsed(), computed().saturating_sub(began.1));
    }
    let began = Instant::now();
    drop(place.open());
    println!("opened and closed in {:?}", began.elapsed());
    assert!(!files::beside(&place.database(), "-wal").exists());
}
