//! Counters: what was spent, a pure fold over the journal's decisions. They are kept in memory and can always be counted
//! anew from the entries.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::charge::{Applied, Charge, Owner, SLIDING_PARTS, Window};
use crate::entry::{CONNECTION_LOST, SessionEndBody};
use crate::identity::{Agent, SessionId};

/// How many counters there can be. A call that needs one more is refused: forgetting one would refill it.
pub const COUNTERS_MAX: usize = 1_000_000;

/// A session's counter that nothing is added to for so long starts anew, as if the session were over: 31 days. Without a bound,
/// the counters of sessions that lost their connection and never came back would pile up.
pub const SESSION_IDLE_MS_MAX: i64 = 31 * 24 * 60 * 60 * 1000;

/// The clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// The journal's time: the wall clock, never going back. What calendar windows follow.
    pub wall_ms: i64,
    /// A clock that nobody sets, from some beginning on. What sliding windows follow.
    pub steady_ms: i64,
}

/// Names one counter of an owner.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Name {
    /// The plugin instance.
    pub plugin: Arc<str>,
    /// The plugin's name for it.
    pub key: Arc<str>,
    /// How far back it remembers.
    pub window: Window,
}

/// What a counter holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counter {
    /// What was spent in the window, as of the last time it was looked at.
    pub spent: u64,
    /// The beginning of the calendar unit it counts; 0 for other windows.
    pub since_ms: i64,
    /// When it was last added to, the steady clock's time.
    pub charged_ms: i64,
    /// For a sliding window: what was spent, by the end of the part of the window it was spent in, oldest first.
    pub parts: VecDeque<(i64, u64)>,
}

/// Why a charge cannot be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Misfit {
    /// It would pass its limit.
    Over(Over),
    /// There are too many counters.
    Full,
    /// The clock is beyond the years that the calendar knows.
    NoCalendar,
}

/// How a charge would pass its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Over {
    pub(crate) spent: u64,
    /// When it fits again, the journal's time; `None`: never, as long as the counter lives.
    pub(crate) again_ms: Option<i64>,
}

/// An entry says that a counter came to something else than it does when it is counted anew.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the counter {key:?} of {plugin} comes to {counted}, and the entry says {written}")]
pub struct Miscounted {
    /// The plugin instance.
    pub plugin: String,
    /// The counter.
    pub key: String,
    /// What it comes to.
    pub counted: u64,
    /// What is written.
    pub written: u64,
}

/// Every charge of every call looks into two of these twice.
type Table<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Every counter.
#[derive(Debug, Default)]
pub struct Counters {
    owners: Table<Owner, Table<Name, Counter>>,
    count: usize,
    /// What was added and not settled, newest last.
    added: Vec<Added>,
    /// The sessions that ended, not settled either.
    ended: Vec<SessionId>,
}

#[derive(Debug)]
struct Added {
    owner: Owner,
    name: Name,
    part: Option<i64>,
    amount: u64,
    charged_before_ms: i64,
}

/// A place to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    added: usize,
    ended: usize,
}

impl Counters {
    /// A place to go back to, as long as nothing is settled for good.
    pub fn mark(&self) -> Mark {
        Mark { added: self.added.len(), ended: self.ended.len() }
    }

    /// Takes back everything that was added since.
    pub fn roll_back(&mut self, mark: Mark) {
        self.ended.truncate(mark.ended);
        for Added { owner, name, part, amount, charged_before_ms } in self.added.drain(mark.added..).rev() {
            let counter = self.owners.get_mut(&owner).and_then(|counters| counters.get_mut(&name));
            if let Some(counter) = counter {
                counter.take_back(part, amount);
                counter.charged_ms = charged_before_ms;
            }
        }
    }

    /// What was added stays, and sessions that ended are gone with their counters.
    pub fn settle(&mut self) {
        self.added.clear();
        for session in self.ended.drain(..) {
            if let Some(counters) = self.owners.remove(&Owner::Session(session)) {
                self.count -= counters.len();
            }
        }
    }

    /// What a charge finds spent, on top of `pending`, and whether it fits.
    pub(crate) fn check(
        &mut self,
        owner: &Owner,
        name: &Name,
        charge: &Charge,
        pending: u64,
        now: Moment,
    ) -> Result<(), Misfit> {
        let counter = self.counter(owner, name, now)?;
        let spent = counter.spent.saturating_add(pending);
        if spent.saturating_add(charge.amount) <= charge.limit {
            return Ok(());
        }
        Err(Misfit::Over(Over { spent, again_ms: counter.again(&name.window, charge, pending, now) }))
    }

    /// Adds a charge to its counter.
    pub(crate) fn apply(&mut self, owner: &Owner, name: Name, charge: &Charge, now: Moment) -> Result<Applied, Misfit> {
        let counter = self.counter(owner, &name, now)?;
        let charged_before_ms = std::mem::replace(&mut counter.charged_ms, now.steady_ms);
        let part = name.window.part(now.steady_ms);
        counter.add(part, charge.amount);
        let applied = Applied {
            plugin: name.plugin.clone(),
            key: name.key.clone(),
            subject: charge.subject,
            window: name.window.clone(),
            since_ms: matches!(name.window, Window::Calendar { .. }).then_some(counter.since_ms),
            amount: charge.amount,
            spent: counter.spent,
            limit: charge.limit,
        };
        self.added.push(Added { owner: owner.clone(), name, part, amount: charge.amount, charged_before_ms });
        Ok(applied)
    }

    /// Counts what an entry says was applied at the steady clock's `clock_ms`: all of it, and tells of the first that does not
    /// add up.
    pub fn replay(
        &mut self,
        session: &SessionId,
        agent: Option<&Agent>,
        charges: &[Applied],
        clock_ms: i64,
    ) -> Result<(), Miscounted> {
        let mut miscounted = None;
        for applied in charges {
            let Applied { plugin, key, window, .. } = applied.clone();
            let owner = Owner::of(applied.subject, session, agent);
            let counter = self.entry(owner.clone(), Name { plugin, key, window });
            counter.expire(&owner, &applied.window, applied.since_ms.unwrap_or_default(), clock_ms);
            counter.charged_ms = clock_ms;
            counter.add(applied.window.part(clock_ms), applied.amount);
            if counter.spent != applied.spent && miscounted.is_none() {
                let Applied { plugin, key, spent: written, .. } = applied;
                let (plugin, key) = (plugin.to_string(), key.to_string());
                miscounted = Some(Miscounted { plugin, key, counted: counter.spent, written: *written });
            }
        }
        miscounted.map_or(Ok(()), Err)
    }

    /// A session is over, and its counters with it. One that only lost its connection may be back.
    pub fn end_session(&mut self, end: &SessionEndBody) {
        if end.how != CONNECTION_LOST {
            self.ended.push(end.session.clone());
        }
    }

    /// Forgets counters that say nothing any more. What is counted afterwards comes to the same with or without it.
    pub fn collect(&mut self, now: Moment) {
        for (owner, counters) in &mut self.owners {
            counters.retain(|name, counter| {
                let since_ms = name.window.since(now.wall_ms).unwrap_or(counter.since_ms);
                counter.expire(owner, &name.window, since_ms, now.steady_ms);
                counter.spent > 0
            });
        }
        self.owners.retain(|_, counters| !counters.is_empty());
        self.count = self.owners.values().map(HashMap::len).sum();
    }

    /// What is spent of one counter.
    pub fn spent(&self, owner: &Owner, name: &Name, now: Moment) -> u64 {
        let counter = self.owners.get(owner).and_then(|counters| counters.get(name));
        counter.map_or(0, |counter| counter.spent_at(owner, &name.window, now))
    }

    /// What is spent of the counters of one name, by owner; those of which nothing is are left out.
    pub fn spent_by_owner(&self, name: &Name, now: Moment) -> Vec<(Owner, u64)> {
        let spent = self.owners.iter().filter_map(|(owner, counters)| {
            let spent = counters.get(name)?.spent_at(owner, &name.window, now);
            (spent > 0).then(|| (owner.clone(), spent))
        });
        spent.collect()
    }

    /// Every counter that says something.
    pub fn all(&self) -> impl Iterator<Item = (&Owner, &Name, &Counter)> {
        self.owners.iter().flat_map(|(owner, counters)| {
            counters.iter().filter(|(_, counter)| counter.spent > 0).map(move |(name, counter)| (owner, name, counter))
        })
    }

    /// Puts back a counter that was written down.
    pub fn restore(&mut self, owner: Owner, name: Name, counter: Counter) {
        *self.entry(owner, name) = counter;
    }

    fn counter(&mut self, owner: &Owner, name: &Name, now: Moment) -> Result<&mut Counter, Misfit> {
        let since_ms = name.window.since(now.wall_ms).ok_or(Misfit::NoCalendar)?;
        let is_there = |of: &Self| of.owners.get(owner).is_some_and(|counters| counters.contains_key(name));
        if self.count >= COUNTERS_MAX && !is_there(self) {
            self.collect(now);
            if self.count >= COUNTERS_MAX {
                return Err(Misfit::Full);
            }
        }
        let counter = self.entry(owner.clone(), name.clone());
        counter.expire(owner, &name.window, since_ms, now.steady_ms);
        Ok(counter)
    }

    fn entry(&mut self, owner: Owner, name: Name) -> &mut Counter {
        let count = &mut self.count;
        self.owners.entry(owner).or_default().entry(name).or_insert_with(|| {
            *count += 1;
            Counter { spent: 0, since_ms: 0, charged_ms: 0, parts: VecDeque::new() }
        })
    }
}

/// Two are equal when they say the same of what was spent.
impl PartialEq for Counter {
    fn eq(&self, other: &Self) -> bool {
        (self.spent, self.since_ms, &self.parts) == (other.spent, other.since_ms, &other.parts)
    }
}

/// Two are equal when they say the same of what was spent.
impl PartialEq for Counters {
    fn eq(&self, other: &Self) -> bool {
        let mut count = 0;
        let same = self.all().all(|(owner, name, counter)| {
            count += 1;
            other.owners.get(owner).and_then(|counters| counters.get(name)) == Some(counter)
        });
        same && count == other.all().count()
    }
}

impl Window {
    /// The beginning of the calendar unit that `wall_ms` lies in; 0 for other windows.
    fn since(&self, wall_ms: i64) -> Option<i64> {
        match self {
            Self::Calendar { unit, zone } => unit.period(zone, wall_ms).map(|period| period.since_ms),
            Self::Lifetime | Self::SlidingMs(_) => Some(0),
        }
    }

    /// The end of the part of a sliding window that `steady_ms` lies in.
    fn part(&self, steady_ms: i64) -> Option<i64> {
        match self {
            Self::SlidingMs(window_ms) => {
                let length = (i64::from(*window_ms) / SLIDING_PARTS).max(1);
                Some(steady_ms.saturating_add(length - 1).div_euclid(length).saturating_mul(length))
            }
            Self::Lifetime | Self::Calendar { .. } => None,
        }
    }
}

impl Counter {
    /// What is spent in the window as of now, whenever it was last looked at.
    fn spent_at(&self, owner: &Owner, window: &Window, now: Moment) -> u64 {
        let mut counter = self.clone();
        counter.expire(owner, window, window.since(now.wall_ms).unwrap_or(self.since_ms), now.steady_ms);
        counter.spent
    }

    /// Forgets what lies outside the window, and everything of a session that nothing was heard of for a long time.
    fn expire(&mut self, owner: &Owner, window: &Window, since_ms: i64, steady_ms: i64) {
        let idle_ms = steady_ms.saturating_sub(self.charged_ms);
        if matches!(owner, Owner::Session(_)) && idle_ms >= SESSION_IDLE_MS_MAX {
            self.spent = 0;
            self.parts.clear();
        }
        match window {
            Window::Lifetime => {}
            Window::Calendar { .. } => {
                if self.since_ms != since_ms {
                    (self.since_ms, self.spent) = (since_ms, 0);
                }
            }
            Window::SlidingMs(window_ms) => {
                while let Some(&(part, amount)) = self.parts.front()
                    && part.saturating_add(i64::from(*window_ms)) <= steady_ms
                {
                    self.parts.pop_front();
                    self.spent = self.spent.saturating_sub(amount);
                }
            }
        }
    }

    fn add(&mut self, part: Option<i64>, amount: u64) {
        self.spent = self.spent.saturating_add(amount);
        let Some(part) = part else { return };
        match self.parts.back_mut() {
            Some((last, sum)) if *last == part => *sum = sum.saturating_add(amount),
            Some(_) | None => self.parts.push_back((part, amount)),
        }
    }

    fn take_back(&mut self, part: Option<i64>, amount: u64) {
        self.spent = self.spent.saturating_sub(amount);
        if let Some((last, sum)) = self.parts.back_mut()
            && Some(*last) == part
        {
            *sum = sum.saturating_sub(amount);
            if *sum == 0 {
                self.parts.pop_back();
            }
        }
    }

    /// When a charge that does not fit now will, the journal's time.
    fn again(&self, window: &Window, charge: &Charge, pending: u64, now: Moment) -> Option<i64> {
        let too_much = charge.amount.saturating_add(pending) > charge.limit;
        match window {
            _ if too_much => None,
            Window::Lifetime => None,
            Window::Calendar { unit, zone } => unit.period(zone, now.wall_ms).map(|period| period.until_ms),
            Window::SlidingMs(window_ms) => {
                let mut spent = self.spent.saturating_add(pending).saturating_add(charge.amount);
                let enough = self.parts.iter().find(|(_, amount)| {
                    spent = spent.saturating_sub(*amount);
                    spent <= charge.limit
                });
                let (part, _) = enough?;
                let wait_ms = part.saturating_add(i64::from(*window_ms)).saturating_sub(now.steady_ms);
                Some(now.wall_ms.saturating_add(wait_ms))
            }
        }
    }
}
