//! The database is moved, deleted or swapped while it is open.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use callgate_core::port::LedgerFailure;

use super::support::{Place, allow};
use crate::files::{self, OpenFiles};

fn away(path: &Path) -> PathBuf {
    files::beside(path, ".away")
}

fn assert_foreign(result: &Result<u64, LedgerFailure>) {
    assert!(matches!(result, Err(LedgerFailure::Foreign(_))), "{result:?}");
}

#[test]
fn a_database_that_is_moved_away_denies_and_recovers_when_it_is_back() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    let database = place.database();
    fs::rename(&database, away(&database)).unwrap();
    assert_foreign(&allow(&journal, "two"));
    assert_foreign(&allow(&journal, "three"));
    assert!(journal.policy().is_err());
    assert!(!database.exists(), "it is not made again");
    fs::rename(away(&database), &database).unwrap();
    assert_eq!(allow(&journal, "four").unwrap(), 2, "nothing was written meanwhile");
    drop(journal);
    assert_eq!(place.sound(), 2);
}

#[test]
fn the_same_with_all_of_its_files() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    let all = ["", "-wal", "-shm"].map(|suffix| files::beside(&place.database(), suffix));
    for file in &all {
        fs::rename(file, away(file)).unwrap();
    }
    assert_foreign(&allow(&journal, "two"));
    for file in &all {
        fs::rename(away(file), file).unwrap();
    }
    assert_eq!(allow(&journal, "three").unwrap(), 2);
    drop(journal);
    assert_eq!(place.sound(), 2);
}

#[test]
fn a_folder_that_is_moved_away_denies_and_recovers() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    let folder = place.folder.path().join("data");
    fs::rename(&folder, away(&folder)).unwrap();
    assert_foreign(&allow(&journal, "two"));
    assert!(!folder.exists());
    fs::rename(away(&folder), &folder).unwrap();
    assert_eq!(allow(&journal, "three").unwrap(), 2);
}

#[test]
fn a_database_that_is_deleted_denies_for_good() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    fs::remove_file(place.database()).unwrap();
    assert_foreign(&allow(&journal, "two"));
    place.clock.pass(10_000);
    assert_foreign(&allow(&journal, "three"));
    drop(journal);
    assert!(!place.database().exists());
}

#[test]
fn a_file_in_its_place_denies_and_is_not_touched() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    let database = place.database();
    let other = Place::new();
    allow(&other.open(), "of another install").unwrap();
    fs::rename(&database, away(&database)).unwrap();
    fs::copy(other.database(), &database).unwrap();
    let foreign = fs::read(&database).unwrap();
    for _ in 0..3 {
        assert_foreign(&allow(&journal, "two"));
        place.clock.pass(10_000);
    }
    assert_eq!(fs::read(&database).unwrap(), foreign);
    fs::rename(away(&database), &database).unwrap();
    assert_eq!(allow(&journal, "three").unwrap(), 2);
    drop(journal);
    assert_eq!(place.sound(), 2);
}

#[test]
fn a_copy_in_its_place_denies_until_the_daemon_is_restarted() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    drop(journal);
    let database = place.database();
    let journal = place.open();
    fs::copy(&database, away(&database)).unwrap();
    fs::rename(away(&database), &database).unwrap();
    assert_foreign(&allow(&journal, "two"));
    drop(journal);
    allow(&place.open(), "three").unwrap();
    place.sound();
}

#[test]
fn closing_while_another_file_is_in_its_place_does_not_touch_that() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    let database = place.database();
    fs::rename(&database, away(&database)).unwrap();
    fs::write(&database, "something else").unwrap();
    assert!(journal.close().is_err());
    assert_eq!(fs::read_to_string(&database).unwrap(), "something else");
    fs::rename(away(&database), &database).unwrap();
    assert_eq!(place.sound(), 1, "the log was left where it was");
}

#[test]
fn a_log_that_is_deleted_takes_no_entry_along() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(files::beside(&place.database(), suffix)).unwrap();
        allow(&journal, "next").unwrap();
    }
    drop(journal);
    assert_eq!(place.sound(), 3);
}

#[test]
fn a_journal_that_is_closed_refuses() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "one").unwrap();
    journal.close().unwrap();
    journal.close().unwrap();
    assert!(matches!(allow(&journal, "two"), Err(LedgerFailure::WriteFailed(_))));
    assert!(journal.flush().is_err() && journal.policy().is_err());
    assert_eq!(place.sound(), 1);
}

/// The files of a database as [`OpenFiles`] looks at them, in a folder of their own.
struct Looked {
    root: tempfile::TempDir,
    files: OpenFiles,
}

impl Looked {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let database = root.path().join("data/journal.db");
        fs::create_dir(root.path().join("data")).unwrap();
        for suffix in ["", "-wal", "-shm"] {
            fs::write(files::beside(&database, suffix), suffix).unwrap();
        }
        let files = OpenFiles::of(&database).unwrap();
        Self { root, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// When the folder changed last, as the file system says.
    fn changed(&self) -> (i64, i64) {
        let metadata = fs::metadata(self.path("data")).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    }

    /// Whether all are in place, asked so long after the last change that its time is believed.
    fn later(&self) -> bool {
        self.files.are_in_place((self.changed().0 + 10) * 1_000).unwrap()
    }

    /// Waits until a change in the folder would have another time than the last one.
    fn tick(&self) {
        let changed = self.changed();
        let elsewhere = self.path("tick");
        loop {
            fs::write(&elsewhere, "").unwrap();
            let metadata = fs::metadata(&elsewhere).unwrap();
            if (metadata.ctime(), metadata.ctime_nsec()) > changed {
                return;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_folder_that_did_not_change_has_its_files_and_one_that_did_is_looked_at() {
    for name in ["data/journal.db", "data/journal.db-wal", "data/journal.db-shm", "data"] {
        let looked = Looked::new();
        assert!(looked.later() && looked.later());
        looked.tick();
        let path = looked.path(name);
        fs::rename(&path, away(&path)).unwrap();
        let now_ms = i64::MAX;
        assert!(!looked.files.are_in_place(now_ms).unwrap(), "{name} is away");
        assert!(!looked.files.are_in_place(now_ms).unwrap(), "{name} is away still");
        fs::rename(away(&path), &path).unwrap();
        assert!(looked.later() && looked.later(), "{name} is back");
    }
}

#[test]
fn a_folder_that_changed_just_now_is_looked_at_every_time() {
    let looked = Looked::new();
    let now_ms = looked.changed().0 * 1_000 + 1_999;
    assert!(looked.files.are_in_place(now_ms).unwrap());
    // This may have the time of the change before it.
    fs::rename(looked.path("data/journal.db"), looked.path("data/elsewhere")).unwrap();
    assert!(!looked.files.are_in_place(now_ms).unwrap());
}
