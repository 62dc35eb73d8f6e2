//! The tables beside the chain, read in the chain's order next to it: they have to say what the entries say.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use callgate_core::charge::Applied;
use callgate_core::counters::Counters;
use callgate_core::digest::Digest;
use callgate_core::entry::{ArgumentsBody, KeptArguments, Kind, OutcomeBody, Record, RuleBody, SessionStartBody};
use callgate_core::identity::{Agent, SessionId};
use callgate_core::plugin::{PluginBody, PluginEntry, PluginOrderBody, PluginResetBody, PluginStep};
use callgate_core::rule::{RuleEntry, RuleKey};
use callgate_core::settle::Filing;
use rusqlite::{Connection, Row, Rows, Statement};
use serde::Deserialize;

use super::{Breach, Flaw};
use crate::batch::unsigned;
use crate::plugins;
use crate::rules;
use crate::tally::Written;
use crate::view;

/// The queries over the tables, which the cursors borrow.
pub(super) struct Beside<'c> {
    connection: &'c Connection,
    open_calls: Option<Statement<'c>>,
    outcomes: Option<Statement<'c>>,
    sessions: Option<Statement<'c>>,
}

/// What the tables have to say, and what the entries have said so far.
pub(super) struct Tables<'s> {
    arguments_checked: u64,
    open_calls: Cursor<'s, String>,
    outcomes: Cursor<'s, u64>,
    /// The allowed calls whose last outcome has not come yet, or never will.
    awaiting: HashMap<u64, Awaiting>,
    sessions: Cursor<'s, String>,
    rules: BTreeMap<RuleKey, (u64, RuleEntry)>,
    plugins: Vec<PluginEntry>,
    /// The newest entry that changed them, and its generation.
    plugin_step: Option<(u64, u64)>,
    generation: u64,
    counters: Counters,
    written: Written,
}

/// An allowed call: its session, and the entry that its table names as the last that is known of it.
struct Awaiting {
    session: String,
    last: Option<u64>,
}

/// As much of a decision as the tables have to agree with.
#[derive(Deserialize)]
struct Decided<'a> {
    #[serde(borrow)]
    session: Cow<'a, str>,
    #[serde(rename = "decision")]
    filing: Filing,
    #[serde(default)]
    agent: Option<Agent>,
    #[serde(default)]
    charges: Vec<Applied>,
    #[serde(default)]
    clock_ms: Option<i64>,
    arguments: ArgumentsBody,
}

impl<'c> Beside<'c> {
    pub(super) const fn of(connection: &'c Connection) -> Self {
        Self { connection, open_calls: None, outcomes: None, sessions: None }
    }

    pub(super) fn open(&mut self) -> rusqlite::Result<Tables<'_>> {
        let prepare = |sql| self.connection.prepare(sql);
        let open_calls = self.open_calls.insert(prepare("SELECT decision, session FROM open_call ORDER BY decision")?);
        let outcomes = self.outcomes.insert(prepare("SELECT decision, entry FROM outcome ORDER BY decision")?);
        let sessions = self.sessions.insert(prepare("SELECT started, id FROM session ORDER BY started")?);
        Ok(Tables {
            arguments_checked: 0,
            open_calls: Cursor::over("open_call", open_calls.query([])?, |row| row.get(1))?,
            outcomes: Cursor::over("outcome", outcomes.query([])?, |row| unsigned(row.get(1)?))?,
            awaiting: HashMap::new(),
            sessions: Cursor::over("session", sessions.query([])?, |row| row.get(1))?,
            rules: BTreeMap::new(),
            plugins: Vec::new(),
            plugin_step: None,
            generation: 0,
            counters: Counters::default(),
            written: Written::read(self.connection)?,
        })
    }
}

impl Tables<'_> {
    /// Takes in one entry, whose hash holds.
    pub(super) fn entry(&mut self, seq: u64, kind: Kind, row: &Row) -> Result<(), Flaw> {
        let body = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        if kind != Kind::CallDecision && view::arguments(row)?.is_some() {
            return Err(Flaw::Breach(seq, Breach::Arguments));
        }
        match kind {
            Kind::CallDecision => self.decision(seq, &read(seq, body)?, row)?,
            Kind::CallOutcome | Kind::OutcomeUnknown => self.outcome(seq, kind, &read(seq, body)?)?,
            Kind::SessionStart => self.session(seq, &read(seq, body)?)?,
            Kind::RuleAdd | Kind::RuleRemove => self.rule(seq, kind, read(seq, body)?)?,
            Kind::PluginAdd => self.plugin(seq, read(seq, body)?, PluginStep::Add)?,
            Kind::PluginChange => self.plugin(seq, read(seq, body)?, PluginStep::Change)?,
            Kind::PluginRemove => self.plugin(seq, read(seq, body)?, PluginStep::Remove)?,
            Kind::PluginOrder => {
                let PluginOrderBody { order, generation } = read(seq, body)?;
                self.take_step(seq, &PluginStep::Order(order), generation)?;
            }
            Kind::PluginReset => drop(read::<PluginResetBody>(seq, body)?),
            Kind::SessionEnd => {
                self.counters.end_session(&read(seq, body)?);
                self.counters.settle();
            }
            Kind::DaemonStart | Kind::DaemonStop | Kind::ClockJump | Kind::Anomaly => {}
        }
        if seq == self.written.seq {
            self.counters_as_written(seq)?;
        }
        // What spoke of this entry was taken; what is still there speaks of an entry that is not of its kind.
        self.open_calls.nothing_up_to(seq)?;
        self.outcomes.nothing_up_to(seq)?;
        self.sessions.nothing_up_to(seq)
    }

    fn decision(&mut self, seq: u64, decided: &Decided, row: &Row) -> Result<(), Flaw> {
        if let Some(KeptArguments { salt, value: Some(value), form: Record::Full }) = view::arguments(row)? {
            if Digest::of_parts(&[&salt, &value]) != decided.arguments.digest {
                return Err(Flaw::Breach(seq, Breach::Arguments));
            }
            self.arguments_checked += 1;
        }
        self.charge(seq, decided)?;
        if decided.filing != Filing::Allowed {
            return Ok(());
        }
        let last = match (self.open_calls.take(seq)?, self.outcomes.take(seq)?) {
            (Some(session), None) if session == decided.session => None,
            (None, Some(last)) => Some(last),
            _ => return Err(self.open_calls.differs(seq, "a call is either open or has an outcome".to_owned())),
        };
        self.awaiting.insert(seq, Awaiting { session: decided.session.clone().into_owned(), last });
        Ok(())
    }

    fn charge(&mut self, seq: u64, decided: &Decided) -> Result<(), Flaw> {
        let body = |why: String| Flaw::Breach(seq, Breach::Body(why));
        if decided.charges.is_empty() {
            return Ok(());
        }
        let clock_ms = decided.clock_ms.ok_or_else(|| body("it is charged, and has no time for it".to_owned()))?;
        let session =
            SessionId::try_from(decided.session.clone().into_owned()).map_err(|error| body(error.to_string()))?;
        self.counters
            .replay(&session, decided.agent.as_ref(), &decided.charges, clock_ms)
            .map_err(|miscounted| body(miscounted.to_string()))
    }

    fn counters_as_written(&mut self, seq: u64) -> Result<(), Flaw> {
        let Written { now, counters, .. } = &mut self.written;
        self.counters.collect(*now);
        counters.collect(*now);
        if self.counters == *counters {
            return Ok(());
        }
        let why = "the counters come to something else when they are counted anew".to_owned();
        Err(Flaw::Breach(seq, Breach::Beside { table: "counter", why }))
    }

    fn outcome(&mut self, seq: u64, kind: Kind, body: &OutcomeBody) -> Result<(), Flaw> {
        let known = kind == Kind::CallOutcome;
        if body.outcome.is_some() != known {
            return Err(Flaw::Breach(seq, Breach::Body("an outcome is either known or unknown".to_owned())));
        }
        let call = self.awaiting.get(&body.decision).filter(|call| call.session == body.session.as_str());
        match call.map(|call| call.last) {
            Some(Some(last)) if last == seq => {
                self.awaiting.remove(&body.decision);
                Ok(())
            }
            // A late answer may follow one that was given up, and only that.
            Some(Some(last)) if last > seq && !known => Ok(()),
            _ => Err(self.outcomes.differs(seq, format!("it is not an outcome of call {}", body.decision))),
        }
    }

    fn session(&mut self, seq: u64, body: &SessionStartBody) -> Result<(), Flaw> {
        match self.sessions.take(seq)? {
            Some(id) if id == body.session.as_str() => Ok(()),
            None if body.resumed => Ok(()),
            Some(id) => Err(self.sessions.differs(seq, format!("it began session {id}"))),
            None => Err(self.sessions.differs(seq, format!("session {} is not there", body.session))),
        }
    }

    fn rule(&mut self, seq: u64, kind: Kind, body: RuleBody) -> Result<(), Flaw> {
        let RuleBody { rule, generation } = body;
        self.follow(seq, generation)?;
        let replaced = if kind == Kind::RuleAdd {
            self.rules.insert(rule.key.clone(), (seq, rule.clone())).is_some()
        } else {
            self.rules.remove(&rule.key).is_none_or(|(_, removed)| removed != rule)
        };
        if replaced {
            return Err(Flaw::Breach(
                seq,
                Breach::Body(format!("the rules before it do not admit this change of {rule}")),
            ));
        }
        Ok(())
    }

    fn plugin(&mut self, seq: u64, body: PluginBody, step: fn(PluginEntry) -> PluginStep) -> Result<(), Flaw> {
        self.take_step(seq, &step(body.plugin), body.generation)
    }

    fn take_step(&mut self, seq: u64, step: &PluginStep, generation: u64) -> Result<(), Flaw> {
        // Several steps may be one change; then nothing stands between their entries.
        if self.plugin_step != Some((seq - 1, generation)) {
            self.follow(seq, generation)?;
        }
        self.plugin_step = Some((seq, generation));
        step.apply(&mut self.plugins).map_err(|error| Flaw::Breach(seq, Breach::Body(error.to_string())))
    }

    fn follow(&mut self, seq: u64, generation: u64) -> Result<(), Flaw> {
        if generation != self.generation + 1 {
            let why = format!("generation {generation} does not follow {}", self.generation);
            return Err(Flaw::Breach(seq, Breach::Body(why)));
        }
        self.generation = generation;
        Ok(())
    }

    /// After the newest entry; how many calls' arguments were checked, and how many calls are pending.
    pub(super) fn end(mut self, connection: &Connection) -> Result<(u64, u64), Flaw> {
        self.open_calls.nothing_up_to(u64::MAX)?;
        self.outcomes.nothing_up_to(u64::MAX)?;
        self.sessions.nothing_up_to(u64::MAX)?;
        let dangling = self.awaiting.iter().filter_map(|(seq, call)| Some((*seq, call.last?))).min();
        if let Some((seq, last)) = dangling {
            return Err(self.outcomes.differs(seq, format!("entry {last} is not its outcome")));
        }
        let pending = u64::try_from(self.awaiting.len()).unwrap_or(u64::MAX);
        self.rules_in_force(connection)?;
        self.plugins_in_force(connection)?;
        Ok((self.arguments_checked, pending))
    }

    fn plugins_in_force(&self, connection: &Connection) -> Result<(), Flaw> {
        let found = plugins::read(connection)?;
        if found == self.plugins {
            return Ok(());
        }
        let names = |plugins: &[PluginEntry]| {
            let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let why = format!(
            "it has {}, where the entries come to {}, or one of them differs",
            names(&found),
            names(&self.plugins)
        );
        Err(Flaw::Breach(0, Breach::Beside { table: "plugin", why }))
    }

    fn rules_in_force(&self, connection: &Connection) -> Result<(), Flaw> {
        let expected: BTreeMap<u64, RuleEntry> = self.rules.values().cloned().collect();
        let found = rules::read_by_entry(connection)?;
        let differs = |seq: u64, why: String| Flaw::Breach(seq, Breach::Beside { table: "rule", why });
        if let Some((seq, rule)) = found.iter().find(|(seq, rule)| expected.get(seq) != Some(rule)) {
            return Err(differs(*seq, format!("it has {rule}")));
        }
        if let Some((seq, rule)) = expected.iter().find(|(seq, _)| !found.contains_key(seq)) {
            return Err(differs(*seq, format!("it lacks {rule}")));
        }
        let generation = rules::read(connection)?.generation;
        if generation != self.generation {
            let why = format!("generation {generation} instead of {}", self.generation);
            return Err(Flaw::Breach(0, Breach::Beside { table: "meta", why }));
        }
        Ok(())
    }
}

fn read<'a, T: Deserialize<'a>>(seq: u64, body: &'a [u8]) -> Result<T, Flaw> {
    serde_json::from_slice(body).map_err(|error| Flaw::Breach(seq, Breach::Body(error.to_string())))
}

/// A table in the order of the entries that its rows speak of.
struct Cursor<'s, T> {
    table: &'static str,
    rows: Rows<'s>,
    read: fn(&Row) -> rusqlite::Result<T>,
    next: Option<(u64, T)>,
}

impl<'s, T> Cursor<'s, T> {
    fn over(table: &'static str, rows: Rows<'s>, read: fn(&Row) -> rusqlite::Result<T>) -> rusqlite::Result<Self> {
        let mut cursor = Self { table, rows, read, next: None };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> rusqlite::Result<Option<(u64, T)>> {
        let next = match self.rows.next()? {
            Some(row) => Some((unsigned(row.get(0)?)?, (self.read)(row)?)),
            None => None,
        };
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// The row that speaks of entry `seq`, if there is one.
    fn take(&mut self, seq: u64) -> Result<Option<T>, Flaw> {
        if self.next.as_ref().is_none_or(|(next, _)| *next != seq) {
            return Ok(None);
        }
        Ok(self.advance()?.map(|(_, row)| row))
    }

    /// Fails when a row speaks of an entry up to `seq`.
    fn nothing_up_to(&mut self, seq: u64) -> Result<(), Flaw> {
        match &self.next {
            Some((next, _)) if *next <= seq => Err(self.differs(*next, "it has a row for this entry".to_owned())),
            _ => Ok(()),
        }
    }

    fn differs(&self, seq: u64, why: String) -> Flaw {
        Flaw::Breach(seq, Breach::Beside { table: self.table, why })
    }
}
