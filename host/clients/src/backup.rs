//! Copies of files as they were before they were edited, and the way back: a backup brings back the one file that it is of.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use callgate_core::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::file::{FileError, Snapshot};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The version of the record's form.
const VERSION: u32 = 1;
/// What the name of a backup's record has behind the backup's own.
const RECORD_ENDING: &str = ".record";

/// The folder of backups.
pub struct Backups(PathBuf);

/// What a backup says of itself, beside it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    /// The file that was edited, where it really is.
    path: PathBuf,
    /// What was in it: what the backup holds.
    original: Digest,
    /// What it was edited to.
    written: Digest,
}

/// What became of a file that was to be brought back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Restored {
    /// It is as it was.
    Done(PathBuf),
    /// It was as it had been already.
    Already(PathBuf),
}

/// Why there is no backup, or no way back.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It could not be written.
    #[error("cannot write the backup {path}: {source}")]
    NotWritten {
        /// The backup.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is none.
    #[error("there is no backup {0}")]
    Absent(PathBuf),
    /// It is not what was written.
    #[error("{0} is not a backup as Callgate wrote it")]
    Damaged(PathBuf),
    /// The file is not there any more.
    #[error("{0} is not there any more")]
    Gone(PathBuf),
    /// The file was changed by somebody else since it was edited.
    #[error("{0} has changed since it was edited")]
    ChangedSince(PathBuf),
    /// The file cannot be read or replaced.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
}

impl Backups {
    /// The backups in this folder.
    pub const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Keeps what a file holds before it is edited to `written`, under a name that begins so. Gives the backup's path.
    pub fn keep(&self, name: &str, file: &Snapshot, written: &[u8]) -> Result<PathBuf, BackupError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| BackupError::NotWritten { path, source }
        };
        let made = std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.0);
        made.map_err(failed(&self.0))?;
        let ending = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = self.0.join(format!("{name}-{ending}"));
        let record = Record {
            version: VERSION,
            path: file.path().to_owned(),
            original: Digest::of(file.bytes()),
            written: Digest::of(written),
        };
        let record = serde_json::to_vec_pretty(&record).map_err(|error| failed(&path)(error.into()))?;
        write_new(&path, file.bytes()).map_err(failed(&path))?;
        write_new(&record_of(&path), &record).map_err(failed(&path))?;
        File::open(&self.0).and_then(|folder| folder.sync_all()).map_err(failed(&path))?;
        Ok(path)
    }

    /// Brings back the one file that a backup is of, unless somebody else changed it since. A name without a folder is one of this
    /// folder's.
    pub fn restore(&self, backup: &Path) -> Result<Restored, BackupError> {
        let backup =
            if backup.components().count() == 1 && !backup.exists() { self.0.join(backup) } else { backup.to_owned() };
        let damaged = || BackupError::Damaged(backup.clone());
        let read = |path: &Path| match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BackupError::Absent(backup.clone())),
            read => read.map_err(|_| BackupError::Damaged(backup.clone())),
        };
        let bytes = read(&backup)?;
        let record: Record = serde_json::from_slice(&read(&record_of(&backup))?).map_err(|_| damaged())?;
        if record.version != VERSION || record.original != Digest::of(&bytes) {
            return Err(damaged());
        }
        let path = record.path;
        let file_error = |source| BackupError::File { path: path.clone(), source };
        let file = Snapshot::read(&path).map_err(file_error)?.ok_or_else(|| BackupError::Gone(path.clone()))?;
        let there = Digest::of(file.bytes());
        if there == record.original {
            return Ok(Restored::Already(path));
        }
        if there != record.written {
            return Err(BackupError::ChangedSince(path));
        }
        file.replace(&bytes).map_err(file_error)?;
        Ok(Restored::Done(path))
    }

    /// Takes a backup away again, of a file that was not edited after all.
    pub fn forget(backup: &Path) -> io::Result<()> {
        std::fs::remove_file(backup).and_then(|()| std::fs::remove_file(record_of(backup)))
    }
}

/// The record beside a backup: where its file is, and what was in it before and after.
pub fn record_of(backup: &Path) -> PathBuf {
    let mut record = backup.as_os_str().to_owned();
    record.push(RECORD_ENDING);
    PathBuf::from(record)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
