//! One transaction in the making: entries are appended to it, and each item that fails is taken back alone.

use std::path::Path;

use callgate_core::counters::{Counters, Moment};
use callgate_core::digest::Digest;
use callgate_core::entry::{ClockBody, Draft, Kind};
use callgate_core::port::LedgerFailure;
use rusqlite::{Connection, ErrorCode, params};

use crate::calls;
use crate::chain;
use crate::clock::Reading;
use crate::error;
use crate::store::Head;
use crate::tally::{OpenCalls, Tally};

/// A larger body is refused, and with it the call it is about: a body is text about a call, and the parts that a client
/// chooses (a tool's name, an id) would otherwise let it write as much as a frame may hold.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// How far the journal has come. Equal to what the database says whenever no transaction is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// The newest entry, 0 before the first.
    pub(crate) seq: u64,
    /// The chain's hash after it.
    pub(crate) chain: Digest,
    /// Its time.
    pub(crate) time_ms: i64,
    /// The generation in force.
    pub(crate) generation: u64,
    /// The clocks at the newest commit of this process.
    pub(crate) reading: Option<Reading>,
}

impl State {
    /// The place in the chain.
    pub(crate) const fn head(&self) -> Head {
        Head { entries: self.seq, chain: self.chain }
    }
}

/// Why one item of a transaction was not written.
#[derive(Debug)]
pub(crate) enum Stop<R> {
    /// It cannot be done, for a reason of its own.
    Refused(R),
    /// It cannot be written, and SQLite was not even asked.
    Unwritable(LedgerFailure),
    /// SQLite would not write it.
    Storage(rusqlite::Error),
    /// SQLite would not append the entry: whatever is wrong is wrong with the whole transaction.
    Chain(rusqlite::Error),
}

impl<R> Stop<R> {
    /// The same with another word for the item's own reason.
    pub(crate) fn refused<S>(self, name: impl FnOnce(R) -> S) -> Stop<S> {
        match self {
            Self::Refused(reason) => Stop::Refused(name(reason)),
            Self::Unwritable(failure) => Stop::Unwritable(failure),
            Self::Storage(error) => Stop::Storage(error),
            Self::Chain(error) => Stop::Chain(error),
        }
    }
}

impl<R> From<rusqlite::Error> for Stop<R> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error)
    }
}

/// The whole transaction is lost, for this reason.
#[derive(Debug)]
pub(crate) struct Lost(pub(crate) rusqlite::Error);

impl From<rusqlite::Error> for Lost {
    fn from(error: rusqlite::Error) -> Self {
        Self(error)
    }
}

/// Why an item failed although the transaction goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure<R> {
    /// It cannot be done.
    Refused(R),
    /// It could not be written.
    Unwritten(LedgerFailure),
}

/// An open transaction.
pub(crate) struct Batch<'a> {
    connection: &'a Connection,
    database: &'a Path,
    state: State,
    tally: &'a mut Tally,
}

impl<'a> Batch<'a> {
    /// Wraps the transaction that is open on `connection`, and notes what the clocks say.
    pub(crate) fn begin(
        connection: &'a Connection,
        database: &'a Path,
        state: State,
        reading: Reading,
        tally: &'a mut Tally,
    ) -> Result<Self, Lost> {
        let mut batch = Self { connection, database, state, tally };
        let jump = match state.reading {
            Some(earlier) => reading.jump_since(earlier),
            None => reading.jump_before(state.time_ms),
        };
        batch.state.reading = Some(reading);
        if let Some(jump) = jump {
            let body = ClockBody { expected_ms: jump.expected_ms, now_ms: jump.now_ms };
            batch.chain(&Draft::of(Kind::ClockJump, &body))?;
        }
        Ok(batch)
    }

    /// The connection, for tables beside the chain.
    pub(crate) const fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// The generation that this transaction has come to.
    pub(crate) const fn generation(&self) -> u64 {
        self.state.generation
    }

    /// What the journal will have come to when this transaction is committed.
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// The counters, and what the clocks say.
    pub(crate) fn counters(&mut self) -> (&mut Counters, Moment) {
        let now = self.now();
        (&mut self.tally.counters, now)
    }

    /// The calls that are open.
    pub(crate) fn open_calls(&mut self) -> &mut OpenCalls {
        &mut self.tally.open_calls
    }

    /// Writes down what is kept in memory when it is time to.
    pub(crate) fn write_tally(&mut self) -> rusqlite::Result<()> {
        let now = self.now();
        self.tally.write(self.connection, self.state.seq, now)
    }

    fn now(&mut self) -> Moment {
        match self.state.reading {
            Some(reading) => self.tally.now(reading, reading.wall_ms.max(self.state.time_ms)),
            None => Moment::default(),
        }
    }

    /// Puts another generation in force.
    pub(crate) fn set_generation(&mut self, generation: u64) -> rusqlite::Result<()> {
        self.connection.prepare_cached("UPDATE meta SET generation = ?1")?.execute([signed(generation)])?;
        self.state.generation = generation;
        Ok(())
    }

    /// Appends an entry and returns its number.
    pub(crate) fn append<R>(&mut self, draft: &Draft) -> Result<u64, Stop<R>> {
        let bytes = draft.body.len();
        if bytes > BODY_BYTES_MAX {
            let why = format!("an entry of {bytes} bytes is larger than the {BODY_BYTES_MAX} it may have");
            return Err(Stop::Unwritable(LedgerFailure::WriteFailed(why)));
        }
        self.chain(draft).map_err(Stop::Chain)
    }

    /// Appends an entry of the journal's own making.
    pub(crate) fn chain(&mut self, draft: &Draft) -> rusqlite::Result<u64> {
        let seq = self.state.seq + 1;
        // Never earlier than the entry before it, whatever the wall clock does.
        let time_ms = self.state.reading.map_or(self.state.time_ms, |now| now.wall_ms.max(self.state.time_ms));
        let chain = chain::link(&self.state.chain, &chain::leaf(seq, time_ms, draft.kind, &draft.body));
        let beside = draft.arguments.as_ref();
        self.connection.prepare_cached("INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?.execute(
            params![
                signed(seq),
                time_ms,
                draft.kind.as_str(),
                draft.body,
                chain.as_bytes(),
                beside.map(|kept| kept.salt),
                beside.map(|kept| calls::form_text(kept.form)),
                beside.and_then(|kept| kept.value.as_deref()),
            ],
        )?;
        self.state = State { seq, chain, time_ms, ..self.state };
        Ok(seq)
    }

    /// Runs one item so that, when it fails, everything it wrote is taken back and the others are not.
    pub(crate) fn alone<T, R>(
        &mut self,
        item: impl FnOnce(&mut Self) -> Result<T, Stop<R>>,
    ) -> Result<Result<T, Failure<R>>, Lost> {
        let before = self.state;
        let mark = self.tally.counters.mark();
        self.run("SAVEPOINT item")?;
        let failure = match item(self) {
            Ok(done) => {
                self.run("RELEASE item")?;
                return Ok(Ok(done));
            }
            Err(Stop::Refused(reason)) => Failure::Refused(reason),
            Err(Stop::Unwritable(failure)) => Failure::Unwritten(failure),
            Err(Stop::Storage(error)) if self.is_items_own(&error) => {
                Failure::Unwritten(error::ledger_failure(self.database, &error))
            }
            Err(Stop::Storage(error) | Stop::Chain(error)) => return Err(Lost(error)),
        };
        self.run("ROLLBACK TO item")?;
        self.run("RELEASE item")?;
        self.state = before;
        self.tally.counters.roll_back(mark);
        Ok(Err(failure))
    }

    /// Whether an error says something about one item and not about the disk, the file or the connection.
    fn is_items_own(&self, error: &rusqlite::Error) -> bool {
        let own = match error.sqlite_error_code() {
            Some(code) => {
                matches!(code, ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
            }
            None => true,
        };
        own && !self.connection.is_autocommit()
    }

    fn run(&self, sql: &str) -> Result<(), Lost> {
        self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map_err(Lost)?;
        Ok(())
    }
}

/// Numbers of entries and generations as SQLite keeps them. A journal has fewer than 2^63 entries: a larger number, which
/// only a peer or a changed file can name, becomes one that is none.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The way back; a database may hold anything.
pub(crate) fn unsigned(number: i64) -> rusqlite::Result<u64> {
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, number))
}
