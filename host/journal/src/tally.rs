//! The counters beside the chain: kept in memory, counted from the entries, and written down now and then so that opening
//! a journal does not count it from its beginning.

use callgate_core::charge::Applied;
use callgate_core::counters::{Counters, Moment};
use callgate_core::entry::{Kind, SessionEndBody};
use callgate_core::identity::{Agent, SessionId};
use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::batch::{signed, unsigned};
use crate::clock::Reading;

/// After how many entries the counters are written down again.
const WRITTEN_EVERY_ENTRIES: u64 = 10_000;

/// The counters, and the clock that sliding windows follow.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) counters: Counters,
    /// What the newest charged decision says of the steady clock, and its entry's time.
    last: Moment,
    /// What the steady clock said when this process first asked, and what the clocks said then.
    begun: Option<(i64, Reading)>,
    /// The entry up to which they are written down.
    written: u64,
}

/// As much of a decision that was charged as the counters come from. A decision that was not has no `clock_ms`.
#[derive(Deserialize)]
struct Charged {
    clock_ms: i64,
    session: SessionId,
    #[serde(default)]
    agent: Option<Agent>,
    charges: Vec<Applied>,
}

/// The counters as they were last written down.
pub(crate) struct Written {
    /// After which entry.
    pub(crate) seq: u64,
    /// When.
    pub(crate) now: Moment,
    pub(crate) counters: Counters,
}

impl Written {
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let (seq, now) =
            connection.query_row("SELECT counted, counted_wall_ms, counted_steady_ms FROM meta", [], |row| {
                Ok((unsigned(row.get(0)?)?, Moment { wall_ms: row.get(1)?, steady_ms: row.get(2)? }))
            })?;
        let mut counters = Counters::default();
        let mut query = connection.prepare("SELECT owner, name, value FROM counter")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            counters.restore(text(row, 0)?, text(row, 1)?, text(row, 2)?);
        }
        Ok(Self { seq, now, counters })
    }
}

impl Tally {
    /// Counts what the database says.
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let Written { seq, now, counters } = Written::read(connection)?;
        let mut tally = Self { counters, last: now, begun: None, written: seq };
        tally.count(connection)?;
        Ok(tally)
    }

    fn count(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut query = connection.prepare(
            "SELECT time_ms, kind, body FROM entry
             WHERE seq > ?1 AND kind IN ('call.decision', 'session.end') ORDER BY seq",
        )?;
        let mut rows = query.query([signed(self.written)])?;
        while let Some(row) = rows.next()? {
            let body = row.get_ref(2)?.as_blob()?;
            if row.get_ref(1)?.as_str()? == Kind::SessionEnd.as_str() {
                if let Ok(body) = serde_json::from_slice::<SessionEndBody>(body) {
                    self.counters.end_session(&body);
                    self.counters.settle();
                }
                continue;
            }
            let Ok(Charged { session, agent, charges, clock_ms }) = serde_json::from_slice(body) else { continue };
            self.last = Moment { wall_ms: row.get(0)?, steady_ms: clock_ms };
            // What does not add up is for `verify` to say; what was charged counts.
            self.counters.replay(&session, agent.as_ref(), &charges, clock_ms).ok();
        }
        Ok(())
    }

    /// The same counters read anew, in the same process: the steady clock goes on.
    pub(crate) fn reload(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let begun = self.begun;
        *self = Self { begun, ..Self::load(connection)? };
        Ok(())
    }

    /// What the clocks say at `reading`, with the journal's time `wall_ms`.
    pub(crate) fn now(&mut self, reading: Reading, wall_ms: i64) -> Moment {
        // What passed while no daemon ran, only the wall clock can tell.
        let passed_ms = reading.wall_ms.saturating_sub(self.last.wall_ms).max(0);
        let (steady_ms, then) = *self.begun.get_or_insert((self.last.steady_ms.saturating_add(passed_ms), reading));
        Moment { wall_ms, steady_ms: steady_ms.saturating_add(reading.booted_since(then)) }
    }

    /// Writes the counters down when it is time to, in the transaction that brings the journal to `seq`.
    pub(crate) fn write(&mut self, connection: &Connection, seq: u64, now: Moment) -> rusqlite::Result<()> {
        if seq.saturating_sub(self.written) < WRITTEN_EVERY_ENTRIES {
            return Ok(());
        }
        // Every item is done. What fails from here on loses the whole transaction, and the counters are read anew.
        self.counters.settle();
        self.counters.collect(now);
        connection.prepare_cached("DELETE FROM counter")?.execute([])?;
        let mut insert = connection.prepare_cached("INSERT INTO counter VALUES (?1, ?2, ?3)")?;
        for (owner, name, counter) in self.counters.all() {
            insert.execute([json(owner), json(name), json(counter)])?;
        }
        connection
            .prepare_cached("UPDATE meta SET counted = ?1, counted_wall_ms = ?2, counted_steady_ms = ?3")?
            .execute([signed(seq), now.wall_ms, now.steady_ms])?;
        self.written = seq;
        Ok(())
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a counter is made of text and numbers")
}

fn text<T: DeserializeOwned>(row: &Row, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
