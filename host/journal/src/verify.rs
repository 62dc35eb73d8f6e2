//! Verifies a journal: every hash over the bytes as stored, and that the tables beside the chain say what the entries say.
//!
//! One pass in the order of the chain, with memory for the calls that are open, the policy in force and the counters, and nothing else.
//! Never writes, and never serialises a body again.

mod beside;

use std::fmt;
use std::path::Path;

use callgate_core::charge::Owner;
use callgate_core::counters::Name;
use callgate_core::digest::Digest;
use callgate_core::entry::{Kind, UnknownKind};
use rusqlite::{ErrorCode, Row};

use crate::batch::unsigned;
use crate::chain;
use crate::error::{self, OpenError};
use crate::install::InstallId;
use crate::reader::Reader;
use crate::store::Head;
use crate::view::COLUMNS;
use beside::{Beside, Ended};

/// What came of verifying a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verification {
    /// It holds.
    Sound(Sound),
    /// It does not.
    Broken {
        /// The first entry where it does not; 0 for the journal as a whole.
        seq: u64,
        /// How.
        breach: Breach,
    },
    /// It could not be verified.
    Unverifiable {
        /// What is missing for that.
        missing: String,
        /// The next step.
        hint: String,
    },
}

/// A journal that holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sound {
    /// Whose it is.
    pub install: InstallId,
    /// What the chain has come to.
    pub head: Head,
    /// What was proved.
    pub claim: Claim,
    /// How many calls' arguments are kept whole beside the chain, and are those that their entries commit to.
    pub arguments: u64,
    /// How many allowed calls wait for their outcome.
    pub pending_calls: u64,
    /// What the charges come to.
    pub counted: Counted,
}

/// The counters, counted anew from the entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// How many charges were counted. Each brought its counter to what its entry says.
    pub charges: u64,
    /// After which entry the counters were last written down, just as they are counted; 0 when they never were.
    pub written_after: u64,
    /// Every counter that says something as of the newest charge, in an order that depends on nothing else.
    pub counters: Vec<CounterState>,
}

/// One counter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CounterState {
    /// Its name.
    pub name: Name,
    /// Whose it is.
    pub owner: Owner,
    /// What is spent.
    pub spent: u64,
}

/// What a verification proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The entries follow from each other.
    Chained {
        /// How many there are.
        entries: u64,
    },
    /// And they are the ones that led to a head that someone kept elsewhere.
    ChainedThrough {
        /// How many there are.
        entries: u64,
        /// How many there were when the head was kept.
        kept: u64,
    },
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chained { entries: 0 } => f.write_str("the journal has no entries yet"),
            Self::Chained { entries } => write!(
                f,
                "hash-chained from entry 1 to entry {entries}: each is as it was hashed, and none is missing between them. \
                 This cannot show entries cut off at the end, nor a journal written anew as a whole; a head kept elsewhere can"
            ),
            Self::ChainedThrough { entries, kept: 0 } => write!(
                f,
                "hash-chained to entry {entries}, from the empty journal whose head was given: each entry is as it was hashed"
            ),
            Self::ChainedThrough { entries, kept } => write!(
                f,
                "hash-chained from entry 1 to entry {entries}, and entries 1 to {kept} are the very ones that led to the \
                 head that was given. This cannot show entries cut off after entry {kept}"
            ),
        }
    }
}

/// How a journal does not hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Breach {
    /// An entry is missing.
    #[error("it is missing: entry {next} comes next")]
    Missing {
        /// The entry that stands in its place.
        next: u64,
    },
    /// Its time is before that of the entry in front of it.
    #[error("it is {by_ms} ms earlier than the entry in front of it")]
    Earlier {
        /// How much.
        by_ms: u64,
    },
    /// Its kind is not known.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// Its hash is not the one its bytes give.
    #[error("its bytes, or an earlier entry's, are not the ones that were hashed")]
    Hash,
    /// It is hashed rightly, and is not what its kind is.
    #[error("its body is not one of its kind: {0}")]
    Body(String),
    /// What is kept of the arguments is not what it commits to.
    #[error("the arguments kept for it are not the ones it commits to")]
    Arguments,
    /// A table beside the chain says something else.
    #[error("the table {table:?} does not say what the entries say: {why}")]
    Beside {
        /// The table.
        table: &'static str,
        /// What it says.
        why: String,
    },
    /// A head that was kept elsewhere is not in the chain.
    #[error("the head {0} is nowhere in the chain: entries were cut off, or this is another journal")]
    HeadNotFound(Digest),
    /// The database cannot be read there.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is of another install.
    #[error("the journal is of install {found}, this is install {expected}")]
    OtherInstall {
        /// Whose it is.
        found: InstallId,
        /// Whose it should be.
        expected: InstallId,
    },
}

/// Verifies the journal at `database`. With `install_marker` it also has to be the one of that install, with
/// `expected_head` it has to contain that head, anywhere: a journal that has grown since is no worse for it.
pub fn verify(database: &Path, install_marker: Option<&Path>, expected_head: Option<Digest>) -> Verification {
    match Reader::open(database, install_marker) {
        Ok(reader) => reader.verify(expected_head),
        Err(OpenError::OtherInstall { found, expected, .. }) => {
            Verification::Broken { seq: 0, breach: Breach::OtherInstall { found, expected } }
        }
        Err(OpenError::Damaged { why, .. }) => Verification::Broken { seq: 0, breach: Breach::Unreadable(why) },
        Err(error) => Verification::Unverifiable { hint: error.hint(), missing: error.to_string() },
    }
}

impl Reader {
    /// See [`verify()`].
    pub fn verify(&self, expected_head: Option<Digest>) -> Verification {
        let mut walk = Walk::from(chain::genesis(&self.install), expected_head);
        let verified = self.snapshot(|| Ok(walk.run(self)));
        match verified {
            Ok(Ok(Ended { arguments, pending_calls, counted })) => {
                let head = Head { entries: walk.seq, chain: walk.chain };
                let claim = match walk.found_at {
                    Some(kept) => Claim::ChainedThrough { entries: head.entries, kept },
                    None => Claim::Chained { entries: head.entries },
                };
                Verification::Sound(Sound {
                    install: self.install.clone(),
                    head,
                    claim,
                    arguments,
                    pending_calls,
                    counted,
                })
            }
            Ok(Err(Flaw::Breach(seq, breach))) => Verification::Broken { seq, breach },
            Ok(Err(Flaw::Storage(error))) => self.unread(walk.seq + 1, &error),
            Err(error) => Verification::Unverifiable { missing: error.to_string(), hint: TRY_AGAIN.to_owned() },
        }
    }

    /// A damaged file is a broken journal; a disk or a lock that is in the way says nothing about it.
    fn unread(&self, seq: u64, error: &rusqlite::Error) -> Verification {
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::CannotOpen,
            ) => {
                let missing =
                    format!("{} could not be read at entry {seq}: {}", self.database.display(), error::told(error));
                Verification::Unverifiable { missing, hint: TRY_AGAIN.to_owned() }
            }
            _ => Verification::Broken { seq, breach: Breach::Unreadable(error::told(error)) },
        }
    }
}

const TRY_AGAIN: &str = "try again; if it stays so, verify a copy of the database on another disk";

/// Why a walk ended early.
enum Flaw {
    /// The journal does not hold at this entry.
    Breach(u64, Breach),
    /// It could not be read.
    Storage(rusqlite::Error),
}

impl From<rusqlite::Error> for Flaw {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error)
    }
}

/// The way along the chain.
struct Walk {
    seq: u64,
    time_ms: i64,
    chain: Digest,
    expected_head: Option<Digest>,
    /// After how many entries the chain came by the expected head.
    found_at: Option<u64>,
}

impl Walk {
    fn from(genesis: Digest, expected_head: Option<Digest>) -> Self {
        let found_at = (expected_head == Some(genesis)).then_some(0);
        Self { seq: 0, time_ms: i64::MIN, chain: genesis, expected_head, found_at }
    }

    /// Walks to the end.
    fn run(&mut self, reader: &Reader) -> Result<Ended, Flaw> {
        let connection = &reader.connection;
        let mut beside = Beside::of(connection);
        let mut tables = beside.open()?;
        let mut query = connection.prepare(&format!("SELECT {COLUMNS} FROM entry ORDER BY seq"))?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let kind = self.step(row)?;
            tables.entry(self.seq, kind, row)?;
        }
        let ended = tables.end(connection)?;
        match self.expected_head {
            Some(head) if self.found_at.is_none() => Err(Flaw::Breach(self.seq, Breach::HeadNotFound(head))),
            _ => Ok(ended),
        }
    }

    /// Checks one entry and goes on to it.
    fn step(&mut self, row: &Row) -> Result<Kind, Flaw> {
        let seq = self.seq + 1;
        let broken = |breach| Flaw::Breach(seq, breach);
        let found = unsigned(row.get(0)?)?;
        if found != seq {
            return Err(broken(Breach::Missing { next: found }));
        }
        let kind = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        let kind: Kind = kind.parse().map_err(|unknown| broken(Breach::Kind(unknown)))?;
        let time_ms: i64 = row.get(1)?;
        let body = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let chain = chain::link(&self.chain, &chain::leaf(seq, time_ms, kind, body));
        if row.get::<_, [u8; 32]>(4)? != *chain.as_bytes() {
            return Err(broken(Breach::Hash));
        }
        if time_ms < self.time_ms {
            return Err(broken(Breach::Earlier { by_ms: self.time_ms.abs_diff(time_ms) }));
        }
        if self.expected_head == Some(chain) {
            self.found_at = Some(seq);
        }
        *self = Self { seq, time_ms, chain, ..*self };
        Ok(kind)
    }
}
