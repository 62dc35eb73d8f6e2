//! Reads a journal, beside the daemon that writes it or without one. Never writes.

use std::path::{Path, PathBuf};

use callgate_core::agent::Agents;
use callgate_core::entry::Kind;
use callgate_core::identity::ServerName;
use callgate_core::server::Registry;
use callgate_core::settle::Filing;
use rusqlite::Connection;

use crate::agents;
use crate::batch::{signed, unsigned};
use crate::error::{self, OpenError};
use crate::install::{self, InstallId};
use crate::policy::{self, Policy};
use crate::schema;
use crate::servers;
use crate::store::Head;
use crate::view::{COLUMNS, Content, Entry};

/// How many entries one page holds at most: with 64 KiB of arguments each, what fits into memory without a thought.
pub const PAGE_ENTRIES_MAX: usize = 1000;

/// A journal, open for reading.
pub struct Reader {
    pub(crate) connection: Connection,
    pub(crate) install: InstallId,
    pub(crate) database: PathBuf,
}

/// The journal could not be read.
#[derive(Debug, thiserror::Error)]
#[error("could not read the journal {}: {why}", .database.display())]
pub struct ReadError {
    /// The journal.
    pub database: PathBuf,
    /// The cause.
    pub why: String,
}

/// Which entries are wanted. Each part that is set has to fit; an outcome fits where its decision does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Only these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Only what names this server.
    pub server: Option<ServerName>,
    /// Only what names exactly this tool.
    pub tool: Option<String>,
    /// Only calls that were decided so.
    pub decision: Option<Filing>,
}

/// A run of entries.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// The entries that fit, oldest first.
    pub entries: Vec<Entry>,
    /// The newest entry that was looked at: where the next page begins.
    pub after: u64,
    /// Whether that is the newest there is.
    pub complete: bool,
}

impl Reader {
    /// Opens the journal at `database`. With `install_marker` it has to be the one of that install.
    pub fn open(database: &Path, install_marker: Option<&Path>) -> Result<Self, OpenError> {
        let expected = match install_marker {
            None => None,
            Some(marker) => {
                let expected = install::read_marker(marker)?;
                match (&expected, database.exists()) {
                    (None, true) => {
                        return Err(OpenError::MarkerMissing {
                            database: database.to_owned(),
                            marker: marker.to_owned(),
                        });
                    }
                    (Some(_), false) => {
                        return Err(OpenError::DatabaseMissing {
                            database: database.to_owned(),
                            marker: marker.to_owned(),
                        });
                    }
                    (None, false) | (Some(_), true) => {}
                }
                expected
            }
        };
        let (connection, install) = schema::open_to_read(database, expected.as_ref())?;
        Ok(Self { connection, install, database: database.to_owned() })
    }

    /// Whose journal it is.
    pub const fn install(&self) -> &InstallId {
        &self.install
    }

    /// What the chain has come to, by the newest entry.
    pub fn head(&self) -> Result<Head, ReadError> {
        let newest = self
            .connection
            .prepare_cached("SELECT seq, chain FROM entry ORDER BY seq DESC LIMIT 1")
            .and_then(|mut query| {
                let mut rows = query.query([])?;
                let head = |row: &rusqlite::Row| {
                    Ok::<_, rusqlite::Error>(Head {
                        entries: unsigned(row.get(0)?)?,
                        chain: callgate_core::digest::Digest::from_bytes(row.get(1)?),
                    })
                };
                rows.next()?.map(head).transpose()
            })
            .map_err(|error| self.failed(&error))?;
        Ok(newest.unwrap_or_else(|| Head { entries: 0, chain: crate::chain::genesis(&self.install) }))
    }

    /// The policy in force.
    pub fn policy(&self) -> Result<Policy, ReadError> {
        self.snapshot(|| policy::read(&self.connection))
    }

    /// The registered servers and their credentials.
    pub fn registry(&self) -> Result<Registry, ReadError> {
        self.snapshot(|| servers::read(&self.connection))
    }

    /// The enrolled agents.
    pub fn agents(&self) -> Result<Agents, ReadError> {
        self.snapshot(|| agents::read(&self.connection))
    }

    /// Whether a session was ever opened for this server.
    pub fn has_seen(&self, server: &ServerName) -> Result<bool, ReadError> {
        self.snapshot(|| policy::has_seen(&self.connection, server))
    }

    /// The entries after number `after` that fit, at most `limit` and [`PAGE_ENTRIES_MAX`] of them.
    pub fn page(&self, after: u64, filter: &Filter, limit: usize) -> Result<Page, ReadError> {
        let limit = limit.min(PAGE_ENTRIES_MAX);
        self.snapshot(|| {
            let mut page = Page { entries: Vec::new(), after, complete: false };
            let sql = format!("SELECT {COLUMNS} FROM entry WHERE seq > ?1 ORDER BY seq");
            let mut query = self.connection.prepare_cached(&sql)?;
            let mut rows = query.query([signed(after.min(SEQ_MAX))])?;
            while page.entries.len() < limit {
                let Some(row) = rows.next()? else {
                    page.complete = true;
                    break;
                };
                page.after = unsigned(row.get(0)?)?;
                if filter.may_fit(row.get_ref(2)?.as_str()?) {
                    page.entries.extend(self.fitting(row, filter)?);
                }
            }
            Ok(page)
        })
    }

    /// The number after which the newest `count` entries that fit begin: what [`Self::page`] is given to show them.
    pub fn after_newest(&self, count: usize, filter: &Filter) -> Result<u64, ReadError> {
        self.snapshot(|| {
            let sql = format!("SELECT {COLUMNS} FROM entry ORDER BY seq DESC");
            let mut query = self.connection.prepare_cached(&sql)?;
            let mut rows = query.query([])?;
            let mut missing = count;
            while let Some(row) = rows.next()? {
                if missing == 0 {
                    return unsigned(row.get(0)?);
                }
                let fits = filter.may_fit(row.get_ref(2)?.as_str()?)
                    && (filter.is_by_kind() || self.fitting(row, filter)?.is_some());
                missing -= usize::from(fits);
            }
            Ok(0)
        })
    }

    fn fitting(&self, row: &rusqlite::Row, filter: &Filter) -> rusqlite::Result<Option<Entry>> {
        let entry = Entry::read(&self.connection, row)?;
        Ok(filter.fits(&entry).then_some(entry))
    }

    /// Runs several reads on one state of the database, whatever is written meanwhile.
    pub(crate) fn snapshot<T>(&self, read: impl FnOnce() -> rusqlite::Result<T>) -> Result<T, ReadError> {
        self.connection
            .unchecked_transaction()
            .and_then(|transaction| {
                let answer = read()?;
                transaction.commit()?;
                Ok(answer)
            })
            .map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> ReadError {
        ReadError { database: self.database.clone(), why: error::told(error) }
    }
}

/// The largest number an entry can have.
const SEQ_MAX: u64 = i64::MAX.unsigned_abs();

impl Filter {
    /// Whether the kind alone decides.
    const fn is_by_kind(&self) -> bool {
        self.server.is_none() && self.tool.is_none() && self.decision.is_none()
    }

    /// Whether an entry of this kind can fit at all.
    fn may_fit(&self, kind: &str) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|wanted| wanted.as_str() == kind))
    }

    fn fits(&self, entry: &Entry) -> bool {
        if self.is_by_kind() {
            return true;
        }
        let fits = |server: Option<&ServerName>, tool: Option<&str>, decision: Option<Filing>| {
            self.server.as_ref().is_none_or(|wanted| server == Some(wanted))
                && self.tool.as_ref().is_none_or(|wanted| tool == Some(wanted.as_str()))
                && self.decision.is_none_or(|wanted| decision == Some(wanted))
        };
        match &entry.content {
            Content::Decision(view) => {
                fits(Some(&view.body.server.name), Some(&view.body.tool), Some(view.body.decision))
            }
            Content::Outcome(view) => view.decision.as_ref().is_some_and(|decision| {
                fits(Some(&decision.server.name), Some(&decision.tool), Some(decision.decision))
            }),
            Content::SessionStart(body) => fits(Some(&body.server.name), None, None),
            Content::PolicyAdd(body) | Content::PolicyRemove(body) => fits(body.item.server(), body.item.tool(), None),
            Content::ServerAdd(body) | Content::ServerRemove(body) => fits(Some(&body.server.name), None, None),
            Content::CredentialSet(body) | Content::CredentialRemove(body) => fits(Some(&body.server.name), None, None),
            Content::DaemonStart(_)
            | Content::DaemonStop(_)
            | Content::ClockJump(_)
            | Content::SessionEnd(_)
            | Content::Anomaly(_)
            | Content::AgentAdd(_)
            | Content::AgentRefresh(_)
            | Content::AgentRemove(_)
            | Content::PluginAdd(_)
            | Content::PluginChange(_)
            | Content::PluginRemove(_)
            | Content::PluginOrder(_)
            | Content::PluginReset(_)
            | Content::Unreadable(_) => false,
        }
    }
}
