//! The open database: one connection that writes, and where its files are.

use std::path::{Path, PathBuf};

use callgate_core::digest::Digest;
use callgate_core::entry::Kind;
use rusqlite::{Connection, OptionalExtension};

use crate::batch::{State, signed, unsigned};
use crate::chain;
use crate::error::OpenError;
use crate::files::OpenFiles;
use crate::install::InstallId;
use crate::schema;

/// How many of the newest entries are checked when a journal is opened: enough to notice a torn end at once, and the same
/// for a journal of any size. `verify` checks all of them.
const TAIL_ENTRIES: u64 = 256;

/// The open database.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) connection: Connection,
    pub(crate) files: OpenFiles,
    database: PathBuf,
    install: InstallId,
}

/// A place in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// How many entries there are, which is also the newest one's number.
    pub entries: u64,
    /// The chain's hash after it.
    pub chain: Digest,
}

impl Store {
    /// Opens the journal of `install` and checks its newest entries. `known`, a place that this process has brought the
    /// chain to, has to be in it.
    pub(crate) fn open(database: &Path, install: &InstallId, known: Option<Head>) -> Result<(Self, State), OpenError> {
        let connection = schema::open_to_write(database, install)?;
        // A first transaction, so that the log is there; a writer that cannot even begin is found now.
        connection.execute_batch("BEGIN IMMEDIATE; COMMIT").map_err(|error| OpenError::sqlite(database, &error))?;
        let files = OpenFiles::of(database).map_err(|error| OpenError::io("look at the files of", database, error))?;
        let store = Self { connection, files, database: database.to_owned(), install: install.clone() };
        let state = store.read(known)?;
        Ok((store, state))
    }

    /// What the database says, with no transaction open. Checks the newest entries, and that `known` is in the chain.
    pub(crate) fn read(&self, known: Option<Head>) -> Result<State, OpenError> {
        let sqlite = |error: rusqlite::Error| OpenError::sqlite(&self.database, &error);
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").map_err(sqlite)?;
        }
        let newest: i64 =
            self.connection.query_row("SELECT ifnull(max(seq), 0) FROM entry", [], |row| row.get(0)).map_err(sqlite)?;
        let newest = unsigned(newest).map_err(sqlite)?;
        let from = known.map_or(newest.saturating_sub(TAIL_ENTRIES), |head| head.entries);
        let mut state = State {
            seq: from,
            chain: self.chain_at(from)?,
            time_ms: i64::MIN,
            generation: self.generation().map_err(sqlite)?,
            reading: None,
        };
        if known.is_some_and(|head| head.chain != state.chain) {
            return Err(self.lost_entries());
        }
        self.follow(&mut state)?;
        if state.time_ms == i64::MIN && from > 0 {
            state.time_ms = self
                .connection
                .query_row("SELECT time_ms FROM entry WHERE seq = ?1", [signed(from)], |row| row.get(0))
                .map_err(sqlite)?;
        }
        Ok(state)
    }

    /// Moves what is in the write-ahead log into the database, as far as readers let it.
    pub(crate) fn checkpoint(&self) -> rusqlite::Result<()> {
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    fn generation(&self) -> rusqlite::Result<u64> {
        let mut query = self.connection.prepare_cached("SELECT generation FROM meta")?;
        query.query_row([], |row| unsigned(row.get(0)?))
    }

    /// The chain's hash after entry `seq`.
    fn chain_at(&self, seq: u64) -> Result<Digest, OpenError> {
        if seq == 0 {
            return Ok(chain::genesis(&self.install));
        }
        let chain = self
            .connection
            .query_row("SELECT chain FROM entry WHERE seq = ?1", [signed(seq)], |row| row.get(0))
            .optional()
            .map_err(|error| OpenError::sqlite(&self.database, &error))?;
        chain.map(Digest::from_bytes).ok_or_else(|| self.lost_entries())
    }

    /// Walks from `state` to the newest entry and checks every link on the way.
    fn follow(&self, state: &mut State) -> Result<(), OpenError> {
        let sqlite = |error: rusqlite::Error| OpenError::sqlite(&self.database, &error);
        let mut query = self
            .connection
            .prepare("SELECT seq, time_ms, kind, body, chain FROM entry WHERE seq > ?1 ORDER BY seq")
            .map_err(sqlite)?;
        let mut rows = query.query([signed(state.seq)]).map_err(sqlite)?;
        while let Some(row) = rows.next().map_err(sqlite)? {
            let seq = state.seq + 1;
            let link = || -> rusqlite::Result<Option<(i64, Digest)>> {
                let time_ms = row.get(1)?;
                let kind = row.get_ref(2)?.as_str()?.parse::<Kind>();
                let Ok(kind) = kind else { return Ok(None) };
                let chain = chain::link(&state.chain, &chain::leaf(seq, time_ms, kind, row.get_ref(3)?.as_blob()?));
                let fits = row.get::<_, i64>(0)? == signed(seq) && row.get::<_, [u8; 32]>(4)? == *chain.as_bytes();
                Ok(fits.then_some((time_ms, chain)))
            };
            let Some((time_ms, chain)) = link().map_err(sqlite)? else {
                let why = format!("entry {seq} does not follow from the one before it");
                return Err(OpenError::Damaged { database: self.database.clone(), why });
            };
            *state = State { seq, chain, time_ms, ..*state };
        }
        Ok(())
    }

    fn lost_entries(&self) -> OpenError {
        OpenError::NotAJournal {
            database: self.database.clone(),
            why: "it lacks entries that this daemon has written".to_owned(),
        }
    }
}
