//! The install's identity: a random id that lives in the journal and, apart from it, in the config folder.
//!
//! Two places, so that a journal that went missing or was swapped is noticed. Must never make a new journal for an install
//! that has had one.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::files;
use crate::schema;

/// The id of one install: `ins_` and 32 lower-case hex digits, drawn at random when its journal was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstallId(String);

impl InstallId {
    /// An id from 128 random bits.
    pub fn from_random(bits: [u8; 16]) -> Self {
        Self(format!("ins_{:032x}", u128::from_be_bytes(bits)))
    }

    /// Reads an id; `None` for text of another form.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("ins_")?.as_bytes();
        let hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        (digits.len() == 32 && digits.iter().all(hex)).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the id that the config folder holds; `None` when there is no such file.
pub(crate) fn read_marker(marker: &Path) -> Result<Option<InstallId>, OpenError> {
    let text = match std::fs::read_to_string(marker) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io("read", marker, error)),
    };
    let id = text.strip_suffix('\n').and_then(InstallId::parse);
    id.map(Some).ok_or_else(|| OpenError::BadMarker { marker: marker.to_owned() })
}

/// Makes sure that the install has a journal and is the one it belongs to, as far as files can tell; makes both when
/// neither is there, which is so exactly once in an install's life.
///
/// The journal is made under another name, then the marker is written, then the journal gets its name. Whatever moment
/// the machine stops at, the next start finds nothing, or finds the marker and the finished journal and gives it its name.
pub(crate) fn identify(database: &Path, marker: &Path) -> Result<InstallId, OpenError> {
    let unnamed = unnamed(database);
    let here = files::Identity::of(database).map_err(|error| OpenError::io("look at", database, error))?.is_some();
    match (read_marker(marker)?, here) {
        (Some(id), true) => Ok(id),
        (None, true) => Err(OpenError::MarkerMissing { database: database.to_owned(), marker: marker.to_owned() }),
        (Some(id), false) if made(&unnamed).as_ref() == Some(&id) => name(&unnamed, database).map(|()| id),
        (Some(_), false) => {
            Err(OpenError::DatabaseMissing { database: database.to_owned(), marker: marker.to_owned() })
        }
        (None, false) => create(&unnamed, database, marker),
    }
}

fn create(unnamed: &Path, database: &Path, marker: &Path) -> Result<InstallId, OpenError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)
        .map_err(|error| OpenError::io("draw an install id for", marker, std::io::Error::other(error)))?;
    let id = InstallId::from_random(bits);
    // SQLite would take the log of a journal that is gone for the log of the new one.
    let log = files::beside(database, "-wal");
    if log.exists() {
        return Err(OpenError::Leftover { path: log });
    }
    files::private_parent(database).map_err(|error| OpenError::io("make the folder of", database, error))?;
    files::private_parent(marker).map_err(|error| OpenError::io("make the folder of", marker, error))?;
    // What an earlier start left half made; nothing was ever written to it.
    files::remove_if_there(unnamed).map_err(|error| OpenError::io("remove", unnamed, error))?;
    files::create_private(unnamed).map_err(|error| OpenError::io("create", unnamed, error))?;
    schema::create(unnamed, &id).map_err(|error| OpenError::sqlite(unnamed, &error))?;
    files::write_private(marker, format!("{id}\n").as_bytes())
        .map_err(|error| OpenError::io("write", marker, error))?;
    name(unnamed, database)?;
    Ok(id)
}

/// Gives the finished journal its name, which the caller has seen to be free.
fn name(unnamed: &Path, database: &Path) -> Result<(), OpenError> {
    std::fs::rename(unnamed, database)
        .and_then(|()| files::sync_parent(database))
        .map_err(|error| OpenError::io("create", database, error))
}

/// The install id of a journal that was made but not yet named; `None` unless it is whole and empty.
fn made(unnamed: &Path) -> Option<InstallId> {
    let connection = Connection::open_with_flags(unnamed, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let entries: i64 = connection.query_row("SELECT count(*) FROM entry", [], |row| row.get(0)).ok()?;
    let id: String = connection.query_row("SELECT install FROM meta", [], |row| row.get(0)).ok()?;
    if entries == 0 { InstallId::parse(&id) } else { None }
}

fn unnamed(database: &Path) -> PathBuf {
    files::beside(database, "-new")
}
