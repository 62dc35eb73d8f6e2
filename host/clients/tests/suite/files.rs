//! Files on a disk: what is kept of them, and when they are left alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use callgate_clients::backup::{BackupError, Backups, Restored};
use callgate_clients::file::{FileError, Snapshot};
use tempfile::TempDir;

/// A folder with one file in it.
fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn read(path: &Path) -> Snapshot {
    Snapshot::read(path).unwrap().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn mode_and_owner_stay() {
    let (_folder, path) = file("old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12_345), Some(54_321)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    read(&path).replace(b"new").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!((mode(&path), after.uid(), after.gid()), (0o640, before.uid(), before.gid()));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_symbolic_link_stays_one() {
    let (folder, path) = file("old");
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.json");
    symlink(&path, &link).unwrap();
    let snapshot = read(&link);
    assert_eq!(snapshot.path(), path.canonicalize().unwrap());
    snapshot.replace(b"new").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((fs::read(&path).unwrap(), fs::read(&link).unwrap()), (b"new".to_vec(), b"new".to_vec()));
    drop(folder);
    assert!(Snapshot::read(&link).unwrap().is_none(), "a link that leads nowhere is no file");
}

#[test]
fn a_read_only_file_is_left_alone_even_by_the_superuser() {
    let (_folder, path) = file("old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let snapshot = read(&path);
    assert!(matches!(snapshot.check(), Err(FileError::ReadOnly)));
    assert!(matches!(snapshot.replace(b"new"), Err(FileError::ReadOnly)));
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_file_that_changed_meanwhile_is_left_as_it_became() {
    let (_folder, path) = file("old");
    let snapshot = read(&path);
    fs::write(&path, "somebody else's").unwrap();
    assert!(matches!(snapshot.replace(b"new"), Err(FileError::Changed)));
    assert_eq!(fs::read(&path).unwrap(), b"somebody else's");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_file_of_several_names_is_left_alone() {
    let (folder, path) = file("old");
    fs::hard_link(&path, folder.path().join("other")).unwrap();
    assert!(matches!(read(&path).check(), Err(FileError::OtherNames(2))));
}

#[test]
fn what_is_no_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Snapshot::read(folder.path()), Err(FileError::NotAFile)));
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    assert!(matches!(Snapshot::read(&pipe), Err(FileError::NotAFile)));
    assert!(Snapshot::read(&folder.path().join("none")).unwrap().is_none());
    assert!(Snapshot::read(&pipe.join("below")).unwrap().is_none());
}

#[test]
fn of_many_that_write_at_once_one_wins_and_nothing_is_torn() {
    let (_folder, path) = file("old");
    let texts: Vec<String> = (0..8).map(|number| number.to_string().repeat(200_000)).collect();
    let snapshots: Vec<Snapshot> = texts.iter().map(|_| read(&path)).collect();
    let won: Vec<bool> = std::thread::scope(|scope| {
        let write = |(snapshot, text): (Snapshot, &String)| {
            let text = text.clone();
            scope.spawn(move || match snapshot.replace(text.as_bytes()) {
                Ok(()) => true,
                Err(FileError::Changed) => false,
                Err(error) => panic!("{error}"),
            })
        };
        let threads: Vec<_> = snapshots.into_iter().zip(&texts).map(write).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    let winner = won.iter().position(|won| *won).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), texts[winner]);
}

#[test]
fn a_backup_is_private_and_brings_back_its_one_file() {
    let (folder, path) = file("old");
    let backups = Backups::new(folder.path().join("backups"));
    let snapshot = read(&path);
    let backup = backups.keep("b", &snapshot, b"new").unwrap();
    assert!(matches!(backups.keep("b", &snapshot, b"new"), Err(BackupError::NotWritten { .. })), "none is overwritten");
    assert_eq!((mode(backup.parent().unwrap()), mode(&backup)), (0o700, 0o600));
    let done = Restored::Done(path.canonicalize().unwrap());
    let already = Restored::Already(path.canonicalize().unwrap());
    assert_eq!(backups.restore(&backup).unwrap(), already, "before it is written");
    snapshot.replace(b"new").unwrap();
    assert_eq!(backups.restore(Path::new("b-mcp.json")).unwrap(), done, "by its name alone");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(backups.restore(&backup).unwrap(), already);
}

#[test]
fn a_backup_does_not_take_back_what_somebody_else_did() {
    let (folder, path) = file("old");
    let backups = Backups::new(folder.path().join("backups"));
    let backup = backups.keep("b", &read(&path), b"new").unwrap();
    fs::write(&path, "somebody else's").unwrap();
    assert!(matches!(backups.restore(&backup), Err(BackupError::ChangedSince(_))));
    fs::remove_file(&path).unwrap();
    assert!(matches!(backups.restore(&backup), Err(BackupError::Gone(_))));
    fs::write(&backup, "not the old one").unwrap();
    assert!(matches!(backups.restore(&backup), Err(BackupError::Damaged(_))));
    assert!(matches!(backups.restore(Path::new("none")), Err(BackupError::Absent(_))));
}
