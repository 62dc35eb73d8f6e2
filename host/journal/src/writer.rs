//! Who writes: commits batches, and after a failure finds out what the database holds before it writes again.
//!
//! Nothing kept in memory outlives a failed COMMIT, or the chain would fork. Must never write to a database that is not the
//! one this process opened, and never make one.

use std::path::PathBuf;
use std::sync::Arc;

use callgate_core::counters::{Counters, Moment};
use callgate_core::port::{Clock, LedgerFailure};
use rusqlite::{Connection, ErrorCode};

use crate::batch::{Batch, Lost, State};
use crate::clock::Reading;
use crate::error::{self, OpenError};
use crate::fault::Faults;
use crate::files::Whereabouts;
use crate::install::InstallId;
use crate::store::Store;
use crate::tally::Tally;

/// How long a journal that could not be opened again is left alone, by the boot clock: every waiting call would otherwise
/// open it once more, on a disk that may take seconds to fail.
const REOPEN_INTERVAL_MS: u64 = 500;

/// The one writer of a journal.
pub(crate) struct Writer {
    database: PathBuf,
    install: InstallId,
    clock: Arc<dyn Clock>,
    standing: Standing,
    /// What the newest COMMIT of this process left. A database without it is not the one that was written.
    committed: State,
    /// The counters, as of the same COMMIT.
    tally: Tally,
    /// Failures on demand; there are none in a build that is not for tests.
    pub(crate) faults: Faults,
}

enum Standing {
    /// The database is open.
    Open(Box<Store>, Trust),
    /// It could not be opened again; the next attempt is due at a time of the boot clock.
    Down { failure: LedgerFailure, retry_ms: u64 },
    /// For good.
    Closed,
}

/// How far the open database and what is remembered of it can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    /// The database says what is remembered.
    Current,
    /// A transaction failed: read it again.
    Reread,
    /// The connection is not to be used any more: open another and check what that finds.
    Reopen,
}

impl Writer {
    /// Opens the journal of `install`.
    pub(crate) fn open(database: PathBuf, install: InstallId, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let (store, committed) = Store::open(&database, &install, None)?;
        let tally = Tally::load(&store.connection).map_err(|error| OpenError::sqlite(&database, &error))?;
        let standing = Standing::Open(Box::new(store), Trust::Current);
        Ok(Self { database, install, clock, standing, committed, tally, faults: Faults::default() })
    }

    /// What the journal has come to.
    pub(crate) const fn committed(&self) -> State {
        self.committed
    }

    /// Runs `write` in one transaction and commits it. On a failure nothing of it counts.
    pub(crate) fn commit(&mut self, write: impl FnOnce(&mut Batch) -> Result<(), Lost>) -> Result<(), LedgerFailure> {
        self.make_ready()?;
        let Standing::Open(store, trust) = &mut self.standing else { return Err(closed()) };
        // Whoever unwinds out of `write` leaves a doubt behind, not a wrong number.
        *trust = Trust::Reread;
        let from = (self.committed, Reading::of(&*self.clock));
        match transaction(&store.connection, &self.database, from, &mut self.tally, &mut self.faults, write) {
            Ok(state) => {
                *trust = Trust::Current;
                self.tally.counters.settle();
                self.committed = state;
            }
            Err(Lost(error)) => {
                *trust = after(&error, &store.connection);
                return Err(error::ledger_failure(&self.database, &error));
            }
        }
        Ok(())
    }

    /// After a commit: whether the database still is where others will look for it, with its log.
    pub(crate) fn look(&mut self) -> Result<(), LedgerFailure> {
        let Standing::Open(store, trust) = &mut self.standing else { return Err(closed()) };
        if store.files.are_in_place(self.clock.now_ms()).map_err(|error| unseen(&error))? {
            return Ok(());
        }
        let whereabouts = store.files.database().map_err(|error| unseen(&error))?;
        if whereabouts != Whereabouts::InPlace {
            *trust = Trust::Reopen;
            return Err(self.foreign(whereabouts));
        }
        self.reopen()
    }

    /// Reads something of the committed journal.
    pub(crate) fn read<T>(
        &mut self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerFailure> {
        self.make_ready()?;
        let Standing::Open(store, _) = &self.standing else { return Err(closed()) };
        query(&store.connection).map_err(|error| error::ledger_failure(&self.database, &error))
    }

    /// The committed counters, and what the clocks say.
    pub(crate) fn counters(&mut self) -> Result<(&mut Counters, Moment), LedgerFailure> {
        self.make_ready()?;
        let reading = Reading::of(&*self.clock);
        let now = self.tally.now(reading, reading.wall_ms.max(self.committed.time_ms));
        Ok((&mut self.tally.counters, now))
    }

    #[cfg(test)]
    pub(crate) fn connection(&self) -> &Connection {
        match &self.standing {
            Standing::Open(store, _) => &store.connection,
            Standing::Down { .. } | Standing::Closed => panic!("the database is not open"),
        }
    }

    /// Closes the database, with all of it in the one file. Nothing is written or read afterwards.
    pub(crate) fn close(&mut self) -> Result<(), LedgerFailure> {
        let ready = self.make_ready();
        let Standing::Open(store, _) = std::mem::replace(&mut self.standing, Standing::Closed) else { return Ok(()) };
        ready?;
        let failure = |error: &rusqlite::Error| error::ledger_failure(&self.database, error);
        store.checkpoint().map_err(|error| failure(&error))?;
        store.connection.close().map_err(|(_, error)| failure(&error))
    }

    /// Makes sure that the database is open, is the one this process opened, and says what is remembered of it.
    fn make_ready(&mut self) -> Result<(), LedgerFailure> {
        match &mut self.standing {
            Standing::Closed => Err(closed()),
            Standing::Down { failure, retry_ms } if self.clock.boot_ms() < *retry_ms => Err(failure.clone()),
            Standing::Down { .. } => self.reopen(),
            Standing::Open(store, Trust::Current)
                if store.files.are_in_place(self.clock.now_ms()).map_err(|error| unseen(&error))? =>
            {
                Ok(())
            }
            Standing::Open(store, trust) => {
                let whereabouts = store.files.database().map_err(|error| unseen(&error))?;
                if whereabouts != Whereabouts::InPlace {
                    // The connection is kept: while it lives, so does a database that was deleted. And a file that took
                    // the place of ours is not touched, as SQLite would run our log into it.
                    *trust = Trust::Reopen;
                    return Err(self.foreign(whereabouts));
                }
                match trust {
                    Trust::Current => Ok(()),
                    Trust::Reread => self.reread(),
                    Trust::Reopen => self.reopen(),
                }
            }
        }
    }

    fn reread(&mut self) -> Result<(), LedgerFailure> {
        let Standing::Open(store, trust) = &mut self.standing else { return Err(closed()) };
        let read = store.read(Some(self.committed.head())).and_then(|state| {
            self.tally.reload(&store.connection).map_err(|error| OpenError::sqlite(&self.database, &error))?;
            Ok(state)
        });
        match read {
            Ok(state) => {
                self.committed = State { reading: self.committed.reading, ..state };
                *trust = Trust::Current;
                Ok(())
            }
            Err(_) => self.reopen(),
        }
    }

    fn reopen(&mut self) -> Result<(), LedgerFailure> {
        if let Standing::Open(store, _) = &self.standing
            && !store.files.log_is_in_place().map_err(|error| unseen(&error))?
        {
            // Only this connection still has the log. What it was good for shows when the entries are counted.
            store.checkpoint().ok();
        }
        // The old connection goes first: its locks are the process's, and its log may have to be written back.
        self.standing = Standing::Down { failure: closed(), retry_ms: 0 };
        let opened = Store::open(&self.database, &self.install, Some(self.committed.head())).and_then(|opened| {
            let (store, _) = &opened;
            self.tally.reload(&store.connection).map_err(|error| OpenError::sqlite(&self.database, &error))?;
            Ok(opened)
        });
        match opened {
            Ok((store, state)) => {
                self.committed = State { reading: self.committed.reading, ..state };
                self.standing = Standing::Open(Box::new(store), Trust::Current);
                Ok(())
            }
            Err(error) => {
                let failure = error.ledger_failure();
                // Looking whether it is back costs nothing.
                let wait_ms = if matches!(error, OpenError::Missing { .. }) { 0 } else { REOPEN_INTERVAL_MS };
                let retry_ms = self.clock.boot_ms().saturating_add(wait_ms);
                self.standing = Standing::Down { failure: failure.clone(), retry_ms };
                Err(failure)
            }
        }
    }

    fn foreign(&self, whereabouts: Whereabouts) -> LedgerFailure {
        let database = self.database.display();
        LedgerFailure::Foreign(match whereabouts {
            Whereabouts::Swapped => format!(
                "another file took the place of {database}; put the journal back, or restart the daemon to have this one checked"
            ),
            Whereabouts::Gone | Whereabouts::InPlace => {
                format!("{database} was moved or deleted while the daemon ran; put it back")
            }
        })
    }
}

fn transaction(
    connection: &Connection,
    database: &std::path::Path,
    (state, reading): (State, Reading),
    tally: &mut Tally,
    faults: &mut Faults,
    write: impl FnOnce(&mut Batch) -> Result<(), Lost>,
) -> Result<State, Lost> {
    let run = |sql| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    run("BEGIN IMMEDIATE")?;
    let mut batch = Batch::begin(connection, database, state, reading, tally)?;
    write(&mut batch)?;
    batch.write_tally()?;
    faults.before_commit()?;
    run("COMMIT")?;
    faults.after_commit()?;
    Ok(batch.state())
}

/// How far a connection is to be trusted after a transaction failed on it. One that saw an I/O error may hold pages that
/// never reached the disk, and a second fsync would not say so.
fn after(error: &rusqlite::Error, connection: &Connection) -> Trust {
    let of_the_connection = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::OutOfMemory
                | ErrorCode::InternalMalfunction
                | ErrorCode::ApiMisuse
        )
    );
    let open_still = !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err();
    if of_the_connection || open_still { Trust::Reopen } else { Trust::Reread }
}

fn closed() -> LedgerFailure {
    LedgerFailure::WriteFailed("the journal is closed".to_owned())
}

fn unseen(error: &std::io::Error) -> LedgerFailure {
    LedgerFailure::WriteFailed(format!("the journal's files cannot be looked at: {error}"))
}
