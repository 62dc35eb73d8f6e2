//! The tables beside the chain, read in the chain's order next to it: they have to say what the entries say.

mod in_force;

use std::collections::{BTreeMap, HashMap};

use callgate_core::agent::{AgentBody, AgentStep, Agents};
use callgate_core::charge::Owner;
use callgate_core::counters::{Counter, Counters, Moment, Name};
use callgate_core::digest::Digest;
use callgate_core::entry::{KeptArguments, Kind, OutcomeBody, PolicyBody, PolicyStep, Record, SessionStartBody};
use callgate_core::identity::SessionId;
use callgate_core::plugin::{PluginBody, PluginEntry, PluginOrderBody, PluginResetBody, PluginStep};
use callgate_core::policy::{PolicyItem, PolicyKey};
use callgate_core::server::{CredentialBody, Registry, ServerBody, ServerStep};
use callgate_core::settle::Filing;
use rusqlite::{Connection, Row, Rows, Statement};
use serde::Deserialize;

use super::{Breach, Counted, CounterState, Flaw};
use crate::batch::unsigned;
use crate::tally::{Decided, OpenCalls, Written};
use crate::view;

/// The queries over the tables, which the cursors borrow.
pub(super) struct Beside<'c> {
    connection: &'c Connection,
    outcomes: Option<Statement<'c>>,
    sessions: Option<Statement<'c>>,
}

/// What the tables have to say, and what the entries have said so far.
pub(super) struct Tables<'s> {
    arguments_checked: u64,
    outcomes: Cursor<'s, u64>,
    /// The allowed calls whose last outcome has not come yet, or never will.
    awaiting: HashMap<u64, Awaiting>,
    sessions: Cursor<'s, String>,
    policy: BTreeMap<PolicyKey, (u64, PolicyItem)>,
    plugins: Vec<PluginEntry>,
    registry: Registry,
    agents: Agents,
    generation: u64,
    /// The newest entry about the policy.
    changed: u64,
    counters: Counters,
    written: Written,
    /// Whether what was written down was compared, after its entry.
    compared: bool,
    /// The entry taken in last.
    seq: u64,
    charges: u64,
    /// The clocks at the newest charge.
    charged: Moment,
}

/// What the entries came to, all of them.
pub(super) struct Ended {
    /// How many calls' arguments were checked.
    pub(super) arguments: u64,
    /// How many calls are pending.
    pub(super) pending_calls: u64,
    /// What the charges came to.
    pub(super) counted: Counted,
}

/// An allowed call: its session, the entry that the table names as the last that is known of it, and whether an entry before
/// that one gave it up.
struct Awaiting {
    session: SessionId,
    last: Option<u64>,
    given_up: bool,
}

impl<'c> Beside<'c> {
    pub(super) const fn of(connection: &'c Connection) -> Self {
        Self { connection, outcomes: None, sessions: None }
    }

    pub(super) fn open(&mut self) -> rusqlite::Result<Tables<'_>> {
        let prepare = |sql| self.connection.prepare(sql);
        let outcomes = self.outcomes.insert(prepare("SELECT decision, entry FROM outcome ORDER BY decision")?);
        let sessions = self.sessions.insert(prepare("SELECT started, id FROM session ORDER BY started")?);
        Ok(Tables {
            arguments_checked: 0,
            outcomes: Cursor::over("outcome", outcomes.query([])?, |row| unsigned(row.get(1)?))?,
            awaiting: HashMap::new(),
            sessions: Cursor::over("session", sessions.query([])?, |row| row.get(1))?,
            policy: BTreeMap::new(),
            plugins: Vec::new(),
            registry: Registry::default(),
            agents: Agents::default(),
            generation: 0,
            changed: 0,
            counters: Counters::default(),
            written: Written::read(self.connection)?,
            compared: false,
            seq: 0,
            charges: 0,
            charged: Moment::default(),
        })
    }
}

impl Tables<'_> {
    /// Takes in one entry, whose hash holds.
    pub(super) fn entry(&mut self, seq: u64, kind: Kind, row: &Row) -> Result<(), Flaw> {
        if self.written.seq == self.seq {
            self.as_written()?;
        }
        self.seq = seq;
        let body = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        if kind != Kind::CallDecision && view::arguments(row)?.is_some() {
            return Err(Flaw::Breach(seq, Breach::Arguments));
        }
        match kind {
            Kind::CallDecision => self.decision(seq, &read(seq, body)?, row)?,
            Kind::CallOutcome | Kind::OutcomeUnknown => self.outcome(seq, kind, &read(seq, body)?)?,
            Kind::SessionStart => self.session(seq, &read(seq, body)?)?,
            Kind::RuleAdd | Kind::BudgetAdd | Kind::GrantAdd => {
                self.policy(seq, kind, PolicyStep::Added, read(seq, body)?)?;
            }
            Kind::RuleRemove | Kind::BudgetRemove | Kind::GrantRemove => {
                self.policy(seq, kind, PolicyStep::Removed, read(seq, body)?)?;
            }
            Kind::PluginAdd => self.plugin(seq, read(seq, body)?, PluginStep::Add)?,
            Kind::PluginChange => self.plugin(seq, read(seq, body)?, PluginStep::Change)?,
            Kind::PluginRemove => self.plugin(seq, read(seq, body)?, PluginStep::Remove)?,
            Kind::PluginOrder => {
                let PluginOrderBody { order, generation } = read(seq, body)?;
                self.take_step(seq, &PluginStep::Order(order), generation)?;
            }
            Kind::PluginReset => drop(read::<PluginResetBody>(seq, body)?),
            Kind::ServerAdd => self.server(seq, &ServerStep::Add(read::<ServerBody>(seq, body)?.server))?,
            Kind::ServerRemove => self.server(seq, &ServerStep::Remove(read::<ServerBody>(seq, body)?.server))?,
            Kind::CredentialSet => {
                self.server(seq, &ServerStep::SetCredential(read::<CredentialBody>(seq, body)?))?;
            }
            Kind::CredentialRemove => {
                self.server(seq, &ServerStep::RemoveCredential(read::<CredentialBody>(seq, body)?))?;
            }
            Kind::AgentAdd => self.agent(seq, &AgentStep::Add(read::<AgentBody>(seq, body)?.agent))?,
            Kind::AgentRefresh => self.agent(seq, &AgentStep::Refresh(read::<AgentBody>(seq, body)?.agent))?,
            Kind::AgentRemove => self.agent(seq, &AgentStep::Remove(read::<AgentBody>(seq, body)?.agent))?,
            Kind::SessionEnd => {
                self.counters.end_session(&read(seq, body)?);
                self.counters.settle();
            }
            Kind::DaemonStart | Kind::DaemonStop | Kind::ClockJump | Kind::Anomaly => {}
        }
        // What spoke of this entry was taken; what is still there speaks of an entry that is not of its kind.
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
        self.charge(seq, decided, row.get(1)?)?;
        if decided.filing != Filing::Allowed {
            return Ok(());
        }
        let last = self.outcomes.take(seq)?;
        self.awaiting.insert(seq, Awaiting { session: decided.session.clone(), last, given_up: false });
        Ok(())
    }

    fn charge(&mut self, seq: u64, decided: &Decided, wall_ms: i64) -> Result<(), Flaw> {
        let body = |why: String| Flaw::Breach(seq, Breach::Body(why));
        if decided.charges.is_empty() {
            return Ok(());
        }
        let clock_ms = decided.clock_ms.ok_or_else(|| body("it is charged, and has no time for it".to_owned()))?;
        self.charges += decided.charges.len() as u64;
        self.charged = Moment { wall_ms, steady_ms: clock_ms };
        self.counters
            .replay(&decided.session, decided.agent.as_ref(), &decided.charges, clock_ms)
            .map_err(|miscounted| body(miscounted.to_string()))
    }

    /// After the entry up to which the counters and the open calls were written down: they have to be what they were.
    fn as_written(&mut self) -> Result<(), Flaw> {
        self.compared = true;
        let Written { seq, now, counters, open_calls } = &mut self.written;
        let differs = |table, why: &str| Err(Flaw::Breach(*seq, Breach::Beside { table, why: why.to_owned() }));
        self.counters.collect(*now);
        counters.collect(*now);
        if self.counters != *counters {
            return differs("counter", "the counters come to something else when they are counted anew");
        }
        let open = self.awaiting.iter().filter(|(_, call)| !call.given_up);
        if open.map(|(seq, call)| (*seq, call.session.clone())).collect::<OpenCalls>() != *open_calls {
            return differs("open_call", "other calls were open after this entry");
        }
        Ok(())
    }

    fn outcome(&mut self, seq: u64, kind: Kind, body: &OutcomeBody) -> Result<(), Flaw> {
        let known = kind == Kind::CallOutcome;
        if body.outcome.is_some() != known {
            return Err(Flaw::Breach(seq, Breach::Body("an outcome is either known or unknown".to_owned())));
        }
        match self.awaiting.get_mut(&body.decision).filter(|call| call.session == body.session) {
            Some(Awaiting { last: Some(last), .. }) if *last == seq => {
                self.awaiting.remove(&body.decision);
                Ok(())
            }
            // A late answer may follow one that was given up, and only that.
            Some(Awaiting { last: Some(last), given_up, .. }) if *last > seq && !known => {
                *given_up = true;
                Ok(())
            }
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

    fn policy(&mut self, seq: u64, kind: Kind, step: PolicyStep, body: PolicyBody) -> Result<(), Flaw> {
        let PolicyBody { item, generation } = body;
        let broken = |why: String| Flaw::Breach(seq, Breach::Body(why));
        if Kind::of_policy(item.kind(), step) != kind {
            return Err(broken(format!("it is about a {}", item.kind())));
        }
        self.follow(seq, generation)?;
        let misplaced = match step {
            PolicyStep::Added => self.policy.insert(item.key(), (seq, item.clone())).is_some(),
            PolicyStep::Removed => self.policy.remove(&item.key()).is_none_or(|(_, removed)| removed != item),
        };
        if misplaced {
            let kind = item.kind();
            return Err(broken(format!("the policy before it does not admit this change of the {kind} {item}")));
        }
        Ok(())
    }

    fn plugin(&mut self, seq: u64, body: PluginBody, step: fn(PluginEntry) -> PluginStep) -> Result<(), Flaw> {
        self.take_step(seq, &step(body.plugin), body.generation)
    }

    fn take_step(&mut self, seq: u64, step: &PluginStep, generation: u64) -> Result<(), Flaw> {
        self.follow(seq, generation)?;
        step.apply(&mut self.plugins).map_err(|error| Flaw::Breach(seq, Breach::Body(error.to_string())))
    }

    fn server(&mut self, seq: u64, step: &ServerStep) -> Result<(), Flaw> {
        self.registry.apply(step).map_err(|error| Flaw::Breach(seq, Breach::Body(error.to_string())))
    }

    fn agent(&mut self, seq: u64, step: &AgentStep) -> Result<(), Flaw> {
        self.agents.apply(step).map_err(|error| Flaw::Breach(seq, Breach::Body(error.to_string())))
    }

    /// Entries of one change stand next to each other and share the generation that they make together.
    fn follow(&mut self, seq: u64, generation: u64) -> Result<(), Flaw> {
        let same_change = self.changed > 0 && self.changed + 1 == seq && generation == self.generation;
        if !same_change && generation != self.generation + 1 {
            let why = format!("generation {generation} does not follow {}", self.generation);
            return Err(Flaw::Breach(seq, Breach::Body(why)));
        }
        (self.generation, self.changed) = (generation, seq);
        Ok(())
    }

    /// After the newest entry.
    pub(super) fn end(mut self, connection: &Connection) -> Result<Ended, Flaw> {
        self.outcomes.nothing_up_to(u64::MAX)?;
        self.sessions.nothing_up_to(u64::MAX)?;
        if self.written.seq == self.seq {
            self.as_written()?;
        }
        if !self.compared {
            let why = format!("it says that entry {} was counted, and there is none", self.written.seq);
            return Err(Flaw::Breach(0, Breach::Beside { table: "meta", why }));
        }
        let dangling = self.awaiting.iter().filter_map(|(seq, call)| Some((*seq, call.last?))).min();
        if let Some((seq, last)) = dangling {
            return Err(self.outcomes.differs(seq, format!("entry {last} is not its outcome")));
        }
        let pending_calls = u64::try_from(self.awaiting.len()).unwrap_or(u64::MAX);
        self.policy_in_force(connection)?;
        self.plugins_in_force(connection)?;
        self.servers_in_force(connection)?;
        self.agents_in_force(connection)?;
        Ok(Ended { arguments: self.arguments_checked, pending_calls, counted: self.counted() })
    }

    fn counted(mut self) -> Counted {
        self.counters.collect(self.charged);
        let state = |(owner, name, counter): (&Owner, &Name, &Counter)| CounterState {
            name: name.clone(),
            owner: owner.clone(),
            spent: counter.spent,
        };
        let mut counters: Vec<CounterState> = self.counters.all().map(state).collect();
        counters.sort();
        Counted { charges: self.charges, written_after: self.written.seq, counters }
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
