use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use callgate_core::port::LedgerFailure;

use super::support::{Place, allow};
use crate::{InstallId, OpenError, Reader, files};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A journal with one entry, closed.
fn used() -> Place {
    let place = Place::new();
    allow(&place.open(), "x").unwrap();
    place
}

/// Why the journal does not open. Every reason has a next step.
fn refused(place: &Place) -> OpenError {
    let error = place.try_open().err().expect("the journal must not open");
    assert!(!error.hint().is_empty());
    error
}

#[test]
fn the_first_start_makes_both_files_for_this_user_alone() {
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let place = Place::new();
    let journal = place.open();
    rustix::process::umask(before);
    let data = place.folder.path().join("data");
    for file in [&place.database(), &place.marker(), &data.join("journal.db-wal"), &data.join("journal.db-shm")] {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    for folder in [&data, &place.folder.path().join("config")] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    drop(journal);
    let names: Vec<_> = fs::read_dir(&data).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["journal.db"], "everything is in the one file once it is closed");
}

#[test]
fn the_marker_names_the_install_of_the_journal() {
    let place = used();
    let marker = fs::read_to_string(place.marker()).unwrap();
    let install = InstallId::parse(marker.trim_end()).unwrap();
    assert_eq!(place.reader().install(), &install);
    place.open();
    assert_eq!(fs::read_to_string(place.marker()).unwrap(), marker, "a later start leaves it as it is");
    let other = Place::new();
    other.open();
    assert_ne!(other.reader().install(), &install);
}

#[test]
fn a_journal_that_went_missing_is_not_made_again() {
    let place = used();
    fs::remove_file(place.database()).unwrap();
    let error = refused(&place);
    assert!(matches!(error, OpenError::DatabaseMissing { .. }), "{error}");
    assert!(matches!(error.ledger_failure(), LedgerFailure::Foreign(_)));
    assert!(!place.database().exists());
    let reading = Reader::open(&place.database(), Some(&place.marker())).err().unwrap();
    assert!(matches!(reading, OpenError::DatabaseMissing { .. }));
    let never_started = Place::new();
    let reading = Reader::open(&never_started.database(), Some(&never_started.marker())).err().unwrap();
    assert!(matches!(reading, OpenError::Missing { .. }));
}

#[test]
fn a_journal_without_its_marker_is_not_believed() {
    let place = used();
    fs::remove_file(place.marker()).unwrap();
    assert!(matches!(refused(&place), OpenError::MarkerMissing { .. }));
    assert!(!place.marker().exists());
    let reading = Reader::open(&place.database(), Some(&place.marker())).err().unwrap();
    assert!(matches!(reading, OpenError::MarkerMissing { .. }));
}

#[test]
fn a_marker_that_holds_something_else_is_not_believed() {
    let place = used();
    let marker = fs::read_to_string(place.marker()).unwrap();
    for bad in ["", "\n", "ins_1\n", marker.trim_end(), &marker.to_uppercase(), &format!("{marker}\n")] {
        fs::write(place.marker(), bad).unwrap();
        assert!(matches!(refused(&place), OpenError::BadMarker { .. }), "{bad:?}");
    }
}

#[test]
fn the_journal_of_another_install_is_refused() {
    let place = used();
    fs::copy(used().database(), place.database()).unwrap();
    let error = refused(&place);
    assert!(matches!(error, OpenError::OtherInstall { .. }), "{error}");
    assert!(matches!(error.ledger_failure(), LedgerFailure::Foreign(_)));
}

#[test]
fn a_newer_schema_is_refused_by_name() {
    let place = used();
    place.tamper("UPDATE meta SET build = '9.9.9'; PRAGMA user_version = 2");
    let error = refused(&place);
    assert!(matches!(&error, OpenError::NewerSchema { found: 2, known: 1, build, .. } if build == "9.9.9"), "{error}");
    assert_eq!(error.hint(), "use callgate 9.9.9 or a newer one");
    assert!(matches!(Reader::open(&place.database(), None), Err(OpenError::NewerSchema { .. })));
}

#[test]
fn what_is_no_journal_is_refused() {
    let place = used();
    place.tamper("PRAGMA application_id = 1");
    assert!(matches!(refused(&place), OpenError::NotAJournal { .. }));
    fs::write(place.database(), "this is text, and long enough to be looked at as a database".repeat(20)).unwrap();
    assert!(matches!(refused(&place), OpenError::NotAJournal { .. }));
    fs::write(place.database(), "").unwrap();
    assert!(matches!(refused(&place), OpenError::NotAJournal { .. }));
}

#[test]
fn a_file_that_is_not_plain_is_refused() {
    let place = used();
    let elsewhere = place.folder.path().join("elsewhere.db");
    fs::rename(place.database(), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.database()).unwrap();
    let error = refused(&place);
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[test]
fn an_end_that_does_not_follow_is_refused() {
    for damage in [
        "UPDATE entry SET chain = zeroblob(32) WHERE seq = 1",
        "UPDATE entry SET body = x'7b7d' WHERE seq = 1",
        "UPDATE entry SET kind = 'no.kind' WHERE seq = 1",
        "UPDATE meta SET install = 'ins_x'",
    ] {
        let place = used();
        place.tamper(damage);
        let error = refused(&place);
        assert!(matches!(error, OpenError::Damaged { .. }), "{damage}: {error}");
        assert!(matches!(error.ledger_failure(), LedgerFailure::WriteFailed(_)));
    }
}

#[test]
fn rights_that_others_have_are_taken_away_and_none_is_added() {
    let place = used();
    fs::set_permissions(place.database(), fs::Permissions::from_mode(0o644)).unwrap();
    place.open();
    assert_eq!(mode(&place.database()), 0o600);
    fs::set_permissions(place.database(), fs::Permissions::from_mode(0o400)).unwrap();
    // As root this opens all the same; what counts is that the mode stays.
    drop(place.try_open());
    assert_eq!(mode(&place.database()), 0o400);
}

#[test]
fn a_read_only_journal_is_refused_by_name() {
    if rustix::process::geteuid().is_root() {
        eprintln!("not tried: root writes to read-only files");
        return;
    }
    let place = used();
    fs::set_permissions(place.database(), fs::Permissions::from_mode(0o400)).unwrap();
    let error = refused(&place);
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
    assert!(matches!(error.ledger_failure(), LedgerFailure::WriteFailed(_)));
}

#[test]
fn a_first_start_that_was_interrupted_is_finished_by_the_next() {
    // Stopped before the marker was written: only the unnamed journal is there, perhaps half made.
    let place = Place::new();
    let unnamed = files::beside(&place.database(), "-new");
    fs::create_dir_all(unnamed.parent().unwrap()).unwrap();
    fs::write(&unnamed, "half a database").unwrap();
    allow(&place.open(), "x").unwrap();
    assert!(!unnamed.exists());

    // Stopped between the marker and the name.
    let place = Place::new();
    drop(place.open());
    fs::rename(place.database(), files::beside(&place.database(), "-new")).unwrap();
    allow(&place.open(), "x").unwrap();
    assert_eq!(place.sound(), 1);

    // Not such a case: that journal has been used, and where it was is not known.
    fs::rename(place.database(), files::beside(&place.database(), "-new")).unwrap();
    assert!(matches!(refused(&place), OpenError::DatabaseMissing { .. }));
}

#[test]
fn the_log_of_a_journal_that_is_gone_does_not_get_into_a_new_one() {
    let place = Place::new();
    let log = files::beside(&place.database(), "-wal");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    fs::write(&log, "what is left").unwrap();
    assert!(matches!(refused(&place), OpenError::Leftover { .. }));
    assert!(!place.database().exists() && !place.marker().exists());
}

#[test]
fn the_build_that_writes_is_named_in_the_journal() {
    let place = used();
    let connection = rusqlite::Connection::open(place.database()).unwrap();
    let build: String = connection.query_row("SELECT build FROM meta", [], |row| row.get(0)).unwrap();
    assert_eq!(build, "0.1.0-test");
}
