//! Why a journal cannot be opened or read, and how SQLite's errors are told.

use std::io;
use std::path::{Path, PathBuf};

use callgate_core::port::LedgerFailure;
use rusqlite::ErrorCode;

use crate::install::InstallId;

/// Why a journal cannot be opened. Every call is refused until it can.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The install has a journal, and it is not there.
    #[error("the journal {} is missing, although this install has one: {} names it", .database.display(), .marker.display())]
    DatabaseMissing {
        /// Where it should be.
        database: PathBuf,
        /// What says that there is one.
        marker: PathBuf,
    },
    /// There is no journal.
    #[error("there is no journal at {}", .database.display())]
    Missing {
        /// Where it was looked for.
        database: PathBuf,
    },
    /// There is a journal, and the install does not know it.
    #[error("there is a journal at {}, but {}, which says whose it is, is missing", .database.display(), .marker.display())]
    MarkerMissing {
        /// The journal.
        database: PathBuf,
        /// What should name its install.
        marker: PathBuf,
    },
    /// The install's own file holds something else.
    #[error("{} does not hold an install id", .marker.display())]
    BadMarker {
        /// The file.
        marker: PathBuf,
    },
    /// The journal is of another install.
    #[error("the journal {} is of install {found}, this is install {expected}", .database.display())]
    OtherInstall {
        /// The journal.
        database: PathBuf,
        /// Whose it is.
        found: InstallId,
        /// Whose it should be.
        expected: InstallId,
    },
    /// A part of an earlier journal lies where a new one is to be made.
    #[error("{} is left over from a journal that is gone", .path.display())]
    Leftover {
        /// What is left over.
        path: PathBuf,
    },
    /// The journal is of a newer build.
    #[error("the journal {} is of schema {found}, written by build {build}; this build knows schema {known}", .database.display())]
    NewerSchema {
        /// The journal.
        database: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this build knows.
        known: i64,
        /// The build that last wrote it.
        build: String,
    },
    /// It is no journal.
    #[error("{} is not a callgate journal: {why}", .database.display())]
    NotAJournal {
        /// The file.
        database: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// It is a journal, and it is damaged.
    #[error("the journal {} is damaged: {why}", .database.display())]
    Damaged {
        /// The journal.
        database: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It can be read but not written.
    #[error("the journal {} is read-only", .database.display())]
    ReadOnly {
        /// The journal.
        database: PathBuf,
    },
    /// There is no room on its disk.
    #[error("the disk that holds the journal {} is full", .database.display())]
    Full {
        /// The journal.
        database: PathBuf,
    },
    /// A file or folder could not be used.
    #[error("could not {doing} {}", .path.display())]
    Io {
        /// What was being done to it.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// SQLite could not open or read it.
    #[error("could not open the journal {}: {why}", .database.display())]
    Sqlite {
        /// The journal.
        database: PathBuf,
        /// The cause.
        why: String,
    },
}

impl OpenError {
    /// The next step.
    pub fn hint(&self) -> String {
        match self {
            Self::DatabaseMissing { marker, .. } => format!(
                "put the journal back from a backup, or, to begin a new one, move {} away: its entries and rules are then gone",
                marker.display()
            ),
            Self::Missing { .. } => {
                "the daemon makes the journal when it first starts: `callgate daemon start`".to_owned()
            }
            Self::MarkerMissing { marker, .. } => format!(
                "put {} back, or move the journal away to begin a new one: its entries and rules are then gone",
                marker.display()
            ),
            Self::BadMarker { .. } => "put the file back from a backup; it holds `ins_` and 32 hex digits".to_owned(),
            Self::OtherInstall { .. } => {
                "put this install's own journal back, or move both this one and the install's id away".to_owned()
            }
            Self::Leftover { path } => format!("move {} away", path.display()),
            Self::NewerSchema { build, .. } => format!("use callgate {build} or a newer one"),
            Self::NotAJournal { .. } => "move the file away and put this install's journal back".to_owned(),
            Self::Damaged { .. } => {
                "see what is wrong with `callgate verify`, and put the journal back from a backup".to_owned()
            }
            Self::ReadOnly { database } => {
                format!("make {} and its folder writable for this user", database.display())
            }
            Self::Full { .. } => "free some space".to_owned(),
            Self::Io { path, .. } => format!("check that {} and its folder belong to this user", path.display()),
            Self::Sqlite { database, .. } => {
                format!("check that nothing else has {} open for writing", database.display())
            }
        }
    }

    /// What every call is refused with while the journal cannot be opened.
    pub fn ledger_failure(&self) -> LedgerFailure {
        match self {
            Self::DatabaseMissing { .. }
            | Self::Missing { .. }
            | Self::MarkerMissing { .. }
            | Self::BadMarker { .. }
            | Self::OtherInstall { .. }
            | Self::Leftover { .. }
            | Self::NewerSchema { .. }
            | Self::NotAJournal { .. } => LedgerFailure::Foreign(self.to_string()),
            Self::Damaged { .. } | Self::ReadOnly { .. } | Self::Sqlite { .. } => {
                LedgerFailure::WriteFailed(self.to_string())
            }
            Self::Io { source, .. } => LedgerFailure::WriteFailed(format!("{self}: {source}")),
            Self::Full { .. } => LedgerFailure::Full,
        }
    }

    /// For a journal whose first commit failed.
    pub(crate) fn first_write(database: &Path, failure: LedgerFailure) -> Self {
        let database = database.to_owned();
        match failure {
            LedgerFailure::Full => Self::Full { database },
            LedgerFailure::WriteFailed(why) | LedgerFailure::Foreign(why) => Self::Sqlite { database, why },
            LedgerFailure::Overload => Self::Sqlite { database, why: failure.to_string() },
        }
    }

    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::Full { database: path.to_owned() };
        }
        Self::Io { doing, path: path.to_owned(), source }
    }

    pub(crate) fn sqlite(database: &Path, error: &rusqlite::Error) -> Self {
        let database = database.to_owned();
        let why = told(error);
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotAJournal { database, why },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { database, why },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { database },
            Some(ErrorCode::DiskFull) => Self::Full { database },
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if crate::files::is_full(&database) => {
                Self::Full { database }
            }
            _ => Self::Sqlite { database, why },
        }
    }
}

/// What a failed read or write of the open journal at `database` means for the calls that wait for it.
pub(crate) fn ledger_failure(database: &Path, error: &rusqlite::Error) -> LedgerFailure {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => LedgerFailure::Full,
        // Where SQLite cannot grow its shared index it speaks of an I/O error, not of a full disk.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if crate::files::is_full(database) => {
            LedgerFailure::Full
        }
        Some(ErrorCode::ReadOnly) => LedgerFailure::WriteFailed("the journal is read-only".to_owned()),
        _ => LedgerFailure::WriteFailed(told(error)),
    }
}

/// SQLite's error as a phrase, with its number, which is what its documentation is searched by.
pub(crate) fn told(error: &rusqlite::Error) -> String {
    match error.sqlite_error() {
        Some(code) => format!("{error} (sqlite {})", code.extended_code),
        None => error.to_string(),
    }
}
