//! The database is moved, deleted or swapped while it is open.

use std::fs;
use std::path::{Path, PathBuf};

use callgate_core::port::LedgerFailure;

use super::support::{Place, allow};
use crate::files;

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
