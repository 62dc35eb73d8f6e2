//! What is kept in memory of the entries: the counters, and the calls that are open. Both are written down now and then, so
//! that opening a journal does not go through it from its beginning; a decision's own commit writes nothing but its entry.

use std::collections::BTreeMap;

use callgate_core::charge::Applied;
use callgate_core::counters::{Counters, Moment};
use callgate_core::entry::{ArgumentsBody, Kind, OutcomeBody, SessionEndBody};
use callgate_core::identity::{Agent, SessionId};
use callgate_core::settle::Filing;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::batch::{signed, unsigned};
use crate::clock::Reading;

/// After how many entries both are written down again.
const WRITTEN_EVERY_ENTRIES: u64 = 10_000;

/// The allowed calls that nobody knows the outcome of, by the entry that allowed them, each with its session.
pub(crate) type OpenCalls = BTreeMap<u64, SessionId>;

/// The counters and the open calls, and the clock that sliding windows follow.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) counters: Counters,
    pub(crate) open_calls: OpenCalls,
    /// What the newest charged decision says of the steady clock, and its entry's time.
    last: Moment,
    /// What the steady clock said when this process first asked, and what the clocks said then.
    begun: Option<(i64, Reading)>,
    /// The entry up to which they are written down.
    written: u64,
}

/// As much of a decision as the counters, the open calls and the tables beside the chain come from. One that was not charged
/// has no `clock_ms`.
#[derive(Deserialize)]
pub(crate) struct Decided {
    pub(crate) session: SessionId,
    #[serde(rename = "decision")]
    pub(crate) filing: Filing,
    #[serde(default)]
    pub(crate) agent: Option<Agent>,
    #[serde(default)]
    pub(crate) charges: Vec<Applied>,
    #[serde(default)]
    pub(crate) clock_ms: Option<i64>,
    pub(crate) arguments: ArgumentsBody,
}

/// The counters and the open calls as they were last written down.
pub(crate) struct Written {
    /// After which entry.
    pub(crate) seq: u64,
    /// When.
    pub(crate) now: Moment,
    pub(crate) counters: Counters,
    pub(crate) open_calls: OpenCalls,
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
        let mut query = connection.prepare("SELECT decision, session FROM open_call")?;
        let open_call = |row: &Row| Ok((unsigned(row.get(0)?)?, session(row, 1)?));
        let open_calls = query.query_map([], open_call)?.collect::<rusqlite::Result<_>>()?;
        Ok(Self { seq, now, counters, open_calls })
    }
}

impl Tally {
    /// Counts what the database says.
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let Written { seq, now, counters, open_calls } = Written::read(connection)?;
        let mut tally = Self { counters, open_calls, last: now, begun: None, written: seq };
        tally.count(connection)?;
        Ok(tally)
    }

    fn count(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut query = connection.prepare(
            "SELECT seq, time_ms, kind, body FROM entry
             WHERE seq > ?1 AND kind IN ('call.decision', 'call.outcome', 'outcome.unknown', 'session.end') ORDER BY seq",
        )?;
        let mut rows = query.query([signed(self.written)])?;
        while let Some(row) = rows.next()? {
            let body = row.get_ref(3)?.as_blob()?;
            // A body that cannot be read is for `verify` to tell of.
            match row.get_ref(2)?.as_str()?.parse() {
                Ok(Kind::CallDecision) => {
                    if let Ok(decided) = serde_json::from_slice(body) {
                        self.decided(unsigned(row.get(0)?)?, row.get(1)?, decided);
                    }
                }
                Ok(Kind::SessionEnd) => {
                    if let Ok(body) = serde_json::from_slice::<SessionEndBody>(body) {
                        self.counters.end_session(&body);
                        self.counters.settle();
                    }
                }
                _ => {
                    if let Ok(OutcomeBody { decision, .. }) = serde_json::from_slice(body) {
                        self.open_calls.remove(&decision);
                    }
                }
            }
        }
        Ok(())
    }

    fn decided(&mut self, seq: u64, time_ms: i64, decided: Decided) {
        let Decided { session, filing, agent, charges, clock_ms, arguments: _ } = decided;
        if let Some(clock_ms) = clock_ms {
            self.last = Moment { wall_ms: time_ms, steady_ms: clock_ms };
            // What does not add up is for `verify` to say; what was charged counts.
            self.counters.replay(&session, agent.as_ref(), &charges, clock_ms).ok();
        }
        if filing == Filing::Allowed {
            self.open_calls.insert(seq, session);
        }
    }

    /// The same read anew, in the same process: the steady clock goes on.
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

    /// Writes both down when it is time to, in the transaction that brings the journal to `seq`.
    pub(crate) fn write(&mut self, connection: &Connection, seq: u64, now: Moment) -> rusqlite::Result<()> {
        if seq.saturating_sub(self.written) < WRITTEN_EVERY_ENTRIES {
            return Ok(());
        }
        // Every item is done. What fails from here on loses the whole transaction, and all this is read anew.
        self.counters.settle();
        self.counters.collect(now);
        connection.prepare_cached("DELETE FROM counter")?.execute([])?;
        let mut insert = connection.prepare_cached("INSERT INTO counter VALUES (?1, ?2, ?3)")?;
        for (owner, name, counter) in self.counters.all() {
            insert.execute([json(owner), json(name), json(counter)])?;
        }
        connection.prepare_cached("DELETE FROM open_call")?.execute([])?;
        let mut insert = connection.prepare_cached("INSERT INTO open_call VALUES (?1, ?2)")?;
        for (decision, session) in &self.open_calls {
            insert.execute(params![signed(*decision), session.as_str()])?;
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

fn session(row: &Row, column: usize) -> rusqlite::Result<SessionId> {
    SessionId::try_from(row.get::<_, String>(column)?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

fn text<T: DeserializeOwned>(row: &Row, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
