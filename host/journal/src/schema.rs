//! The database: its tables, its marks, and how a connection to it is set up.
//!
//! docs/reference/journal-format.md describes the tables. A change here is a new [`SCHEMA`] with a migration.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::files;
use crate::install::InstallId;

/// `CGJL`, where `file` and SQLite's own tools look for it.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"CGJL");
/// The version of the schema and of the set of kinds, SQLite's `user_version`.
pub(crate) const SCHEMA: i64 = 1;

/// How long a statement waits for another process's lock. Readers never block the writer in WAL mode; only a checkpoint or
/// a recovery does, for milliseconds. A relay gives up on a decision after 2 s.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);
/// What the write-ahead log is cut back to after a checkpoint, so that one slow reader does not leave it large for good.
const LOG_BYTES_KEPT: i64 = 8 * 1024 * 1024;
/// Every statement of the writer stays prepared; there are fewer than this.
const STATEMENTS_MAX: usize = 48;

/// What a decision writes is on its way to every call, so it is one row: the arguments lie in the entry's own row, beside what
/// is hashed, and that the call is open is not written with it. The triggers and the checks are against accidents, not against someone who edits the file: that is what the chain shows.
pub(crate) const TABLES: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    install TEXT NOT NULL,
    generation INTEGER NOT NULL CHECK (generation >= 0),
    build TEXT NOT NULL,
    counted INTEGER NOT NULL DEFAULT 0,
    counted_wall_ms INTEGER NOT NULL DEFAULT 0,
    counted_steady_ms INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE counter (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE entry (
    seq INTEGER PRIMARY KEY,
    time_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    chain BLOB NOT NULL,
    salt BLOB,
    form TEXT,
    value BLOB
) STRICT;
CREATE TABLE open_call (
    decision INTEGER PRIMARY KEY,
    session TEXT NOT NULL
) STRICT;
CREATE TABLE outcome (
    decision INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL
) STRICT;
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    started INTEGER NOT NULL REFERENCES entry (seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE policy (
    added INTEGER PRIMARY KEY REFERENCES entry (seq),
    kind TEXT NOT NULL CHECK (kind IN ('rule', 'budget', 'grant')),
    key TEXT NOT NULL,
    item TEXT NOT NULL,
    UNIQUE (kind, key)
) STRICT;
CREATE TABLE plugin (
    position INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    entry TEXT NOT NULL
) STRICT;
CREATE TABLE server (
    added INTEGER PRIMARY KEY REFERENCES entry (seq),
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    entry TEXT NOT NULL
) STRICT;
CREATE TABLE credential (
    seq INTEGER PRIMARY KEY REFERENCES entry (seq),
    server TEXT NOT NULL REFERENCES server (id),
    variable TEXT NOT NULL,
    store TEXT NOT NULL CHECK (store IN ('system', 'sealed-file')),
    UNIQUE (server, variable)
) STRICT;
CREATE TABLE agent (
    added INTEGER PRIMARY KEY REFERENCES entry (seq),
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    entry TEXT NOT NULL
) STRICT;

CREATE TRIGGER entry_kept_as_written BEFORE UPDATE OF seq, time_ms, kind, body, chain ON entry
    BEGIN SELECT RAISE(ABORT, 'an entry is never changed'); END;
CREATE TRIGGER arguments_kept_or_pruned BEFORE UPDATE OF salt, form, value ON entry
    WHEN NEW.salt IS NOT NULL OR NEW.form IS NOT NULL OR NEW.value IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'arguments are pruned or stay as they are'); END;
CREATE TRIGGER entry_kept BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'an entry is never deleted'); END;
CREATE TRIGGER meta_kept BEFORE DELETE ON meta
    BEGIN SELECT RAISE(ABORT, 'a journal keeps its install'); END;
CREATE TRIGGER install_kept BEFORE UPDATE OF install ON meta
    BEGIN SELECT RAISE(ABORT, 'a journal keeps its install'); END;
";

/// Makes an empty journal in the empty file `path`, on the disk when this returns.
pub(crate) fn create(path: &Path, install: &InstallId) -> rusqlite::Result<()> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Nobody knows the file yet: one that is half made is thrown away, so it needs no rollback journal beside it.
    connection.pragma_update_and_check(None, "journal_mode", "memory", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", SCHEMA)?;
    connection.execute_batch(TABLES)?;
    connection
        .execute("INSERT INTO meta (one, install, generation, build) VALUES (1, ?1, 0, '')", [install.as_str()])?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)
}

/// Opens the journal of `install` for writing. Never creates a file that is not there.
pub(crate) fn open_to_write(database: &Path, install: &InstallId) -> Result<Connection, OpenError> {
    if there(database)? {
        files::claim(database).map_err(|error| OpenError::io("use", database, error))?;
    }
    let connection = open(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    check(&connection, database, Some(install))?;
    if connection.is_readonly("main").map_err(|error| OpenError::sqlite(database, &error))? {
        return Err(OpenError::ReadOnly { database: database.to_owned() });
    }
    durable(&connection).map_err(|error| OpenError::sqlite(database, &error))?;
    Ok(connection)
}

/// Opens a journal for reading, beside a writer or without one. `install` is whose it has to be; `None` takes any.
pub(crate) fn open_to_read(database: &Path, install: Option<&InstallId>) -> Result<(Connection, InstallId), OpenError> {
    let connection = open(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let found = check(&connection, database, install)?;
    Ok((connection, found))
}

fn open(database: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    if !there(database)? {
        return Err(OpenError::Missing { database: database.to_owned() });
    }
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(database, &error);
    let connection = Connection::open_with_flags(database, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(sqlite)?;
    guard(&connection).map_err(sqlite)?;
    Ok(connection)
}

fn there(database: &Path) -> Result<bool, OpenError> {
    let identity = files::Identity::of(database).map_err(|error| OpenError::io("look at", database, error))?;
    Ok(identity.is_some())
}

/// A database file is input like any other: nothing stored in it may run or be believed more than needed.
fn guard(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

/// WAL with `synchronous=FULL`: a COMMIT that returned survives a power cut. With NORMAL more than half of simulated power
/// cuts lost entries that had been acknowledged. `fullfsync` is what that takes on macOS, and nothing elsewhere.
fn durable(connection: &Connection) -> rusqlite::Result<()> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
            Some(format!("its file system gives no write-ahead log, only the mode {mode:?}")),
        ));
    }
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "recursive_triggers", true)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))
}

/// Checks that this is a journal, that this build knows its schema, and whose it is.
fn check(connection: &Connection, database: &Path, install: Option<&InstallId>) -> Result<InstallId, OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(database, &error);
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let mark = number("application_id").map_err(sqlite)?;
    if mark != i64::from(APPLICATION_ID) {
        let why = format!("its application id is {mark:#x}");
        return Err(OpenError::NotAJournal { database: database.to_owned(), why });
    }
    let found = number("user_version").map_err(sqlite)?;
    if found > SCHEMA {
        // `meta.build` is where it is for every schema, so that an older build can name the one that is needed.
        let build = connection.query_row("SELECT build FROM meta", [], |row| row.get(0)).map_err(sqlite)?;
        return Err(OpenError::NewerSchema { database: database.to_owned(), found, known: SCHEMA, build });
    }
    let damaged = |why: String| OpenError::Damaged { database: database.to_owned(), why };
    if found < SCHEMA {
        return Err(damaged(format!("there is no schema {found}")));
    }
    let id: String = connection.query_row("SELECT install FROM meta", [], |row| row.get(0)).map_err(sqlite)?;
    let id = InstallId::parse(&id).ok_or_else(|| damaged(format!("its install id is {id:?}")))?;
    match install {
        Some(expected) if *expected != id => {
            Err(OpenError::OtherInstall { database: database.to_owned(), found: id, expected: expected.clone() })
        }
        _ => Ok(id),
    }
}
