//! Breakers: a plugin that keeps failing for one agent is not asked for that agent any more, so that what it costs to fail is
//! paid a few times and not at every call.
//!
//! One a plugin and agent: other agents and other plugins are not concerned. An open breaker denies, and stays open until
//! somebody closes it or the plugin is configured anew.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use callgate_core::identity::Agent;
use callgate_core::verdict::Failure;

/// How many failures open a breaker when no answer comes between them: enough for one to be an accident, few enough for a
/// loop that runs into its deadline to cost half a second.
const FAILURES_MAX: u32 = 5;

/// How many answers make up for one failure: a plugin that fails for one call in a hundred is still of use, and one that an
/// agent can make fail at will does not get away with an easy call in between.
const ANSWERS_PER_FAILURE: u32 = 100;

/// From this weight of failures on a breaker is open.
const OPEN_WEIGHT: u32 = (FAILURES_MAX - 1) * ANSWERS_PER_FAILURE + 1;

/// For how many agents failures are remembered; those of further ones are not, and each is a denial of its own.
const AGENTS_MAX: usize = 1024;

/// A breaker that is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenBreaker {
    /// The agent whose calls are denied; `None` for calls whose agent is not established.
    pub agent: Option<Agent>,
    /// How the plugin failed last.
    pub last: Failure,
    /// How many calls were denied since, without asking it.
    pub denied: u64,
}

/// The breakers of one plugin with its settings.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    /// How many agents are in trouble: while there are none, which is the rule, a call pays one load for all of this.
    troubled: AtomicUsize,
    /// By the agent's id, `None` for calls whose agent is not established.
    troubles: Mutex<BTreeMap<Option<String>, Trouble>>,
}

#[derive(Debug)]
struct Trouble {
    agent: Option<Agent>,
    /// What the failures weigh: [`ANSWERS_PER_FAILURE`] each, less one for every answer.
    weight: u32,
    last: Failure,
    denied: u64,
}

impl Trouble {
    const fn is_open(&self) -> bool {
        self.weight >= OPEN_WEIGHT
    }

    fn failure(&self) -> Failure {
        Failure::Breaker { last: Box::new(self.last.clone()) }
    }
}

impl Breakers {
    /// Whether the plugin may be asked for this agent; an open breaker counts the call that it denies.
    pub(crate) fn check(&self, agent: Option<&Agent>) -> Result<(), Failure> {
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        match self.lock().get_mut(&key(agent)) {
            Some(trouble) if trouble.is_open() => {
                trouble.denied += 1;
                Err(trouble.failure())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The same for a call that nobody makes, which is not counted.
    pub(crate) fn look(&self, agent: Option<&Agent>) -> Result<(), Failure> {
        match self.lock().get(&key(agent)) {
            Some(trouble) if trouble.is_open() => Err(trouble.failure()),
            Some(_) | None => Ok(()),
        }
    }

    /// Notes what came of asking it.
    pub(crate) fn note<T>(&self, agent: Option<&Agent>, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) => self.note_answer(agent),
            Err(failure) if is_its_own(failure) => self.note_failure(agent, failure),
            Err(_) => {}
        }
    }

    fn note_answer(&self, agent: Option<&Agent>) {
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut troubles = self.lock();
        let key = key(agent);
        // A call that was under way when the breaker opened does not close it.
        let Some(trouble) = troubles.get_mut(&key).filter(|trouble| !trouble.is_open()) else { return };
        trouble.weight -= 1;
        if trouble.weight == 0 {
            troubles.remove(&key);
            self.troubled.store(troubles.len(), Ordering::Relaxed);
        }
    }

    fn note_failure(&self, agent: Option<&Agent>, failure: &Failure) {
        let mut troubles = self.lock();
        let key = key(agent);
        if troubles.len() >= AGENTS_MAX && !troubles.contains_key(&key) {
            return;
        }
        let trouble = troubles.entry(key).or_insert_with(|| Trouble {
            agent: agent.cloned(),
            weight: 0,
            last: failure.clone(),
            denied: 0,
        });
        trouble.weight = trouble.weight.saturating_add(ANSWERS_PER_FAILURE);
        trouble.last = failure.clone();
        self.troubled.store(troubles.len(), Ordering::Relaxed);
    }

    /// The open ones, the one for agents that are not established first, then by the agent's id.
    pub(crate) fn open(&self) -> Vec<OpenBreaker> {
        let troubles = self.lock();
        let open = troubles.values().filter(|trouble| trouble.is_open());
        open.map(|Trouble { agent, last, denied, .. }| OpenBreaker {
            agent: agent.clone(),
            last: last.clone(),
            denied: *denied,
        })
        .collect()
    }

    /// Forgets all failures; how many breakers were open.
    pub(crate) fn reset(&self) -> usize {
        let mut troubles = self.lock();
        let open = troubles.values().filter(|trouble| trouble.is_open()).count();
        troubles.clear();
        self.troubled.store(0, Ordering::Relaxed);
        open
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<String>, Trouble>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(agent: Option<&Agent>) -> Option<String> {
    agent.map(|agent| agent.id.clone())
}

/// Whether a failure is the plugin's own, and not for want of room in the host, the call's or a breaker's.
const fn is_its_own(failure: &Failure) -> bool {
    match failure {
        Failure::Deadline { .. }
        | Failure::Fuel { .. }
        | Failure::Memory { .. }
        | Failure::Trap(_)
        | Failure::BadAnswer(_)
        | Failure::NotReady(_) => true,
        Failure::Overload | Failure::TooLarge { .. } | Failure::Breaker { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPENT: Failure = Failure::Fuel { limit: 7 };

    fn agent(name: &str) -> Agent {
        Agent { id: format!("agt_{name}"), name: name.parse().unwrap(), evidence: "executable".to_owned() }
    }

    fn fail(breakers: &Breakers, agent: Option<&Agent>, times: u32) {
        (0..times).for_each(|_| breakers.note::<()>(agent, &Err(SPENT)));
    }

    fn answer(breakers: &Breakers, agent: Option<&Agent>, times: u32) {
        (0..times).for_each(|_| breakers.note(agent, &Ok(())));
    }

    fn is_open(breakers: &Breakers, agent: Option<&Agent>) -> bool {
        breakers.check(agent).is_err()
    }

    #[test]
    fn the_fifth_failure_in_a_row_opens_it_for_that_agent_alone() {
        let (breakers, bomber, other) = (Breakers::default(), agent("bomber"), agent("other"));
        fail(&breakers, Some(&bomber), 4);
        assert_eq!(breakers.check(Some(&bomber)), Ok(()));
        fail(&breakers, Some(&bomber), 1);
        let denied = breakers.check(Some(&bomber));
        assert_eq!(denied, Err(Failure::Breaker { last: Box::new(SPENT) }));
        assert_eq!((breakers.check(Some(&other)), breakers.check(None)), (Ok(()), Ok(())));
        assert_eq!(breakers.open(), [OpenBreaker { agent: Some(bomber), last: SPENT, denied: 1 }]);
    }

    #[test]
    fn agents_that_are_not_established_share_one() {
        let breakers = Breakers::default();
        fail(&breakers, None, 5);
        assert!(is_open(&breakers, None) && !is_open(&breakers, Some(&agent("cursor"))));
    }

    #[test]
    fn it_stays_open_whatever_comes_until_it_is_reset() {
        let breakers = Breakers::default();
        fail(&breakers, None, 5);
        answer(&breakers, None, 10_000);
        assert!(is_open(&breakers, None));
        assert_eq!((breakers.reset(), breakers.reset()), (1, 0));
        assert!(!is_open(&breakers, None) && breakers.open().is_empty());
        fail(&breakers, None, 4);
        assert!(!is_open(&breakers, None), "failures from before the reset count");
    }

    #[test]
    fn a_hundred_answers_make_up_for_a_failure_and_one_does_not() {
        let breakers = Breakers::default();
        for _ in 0..50 {
            fail(&breakers, None, 1);
            answer(&breakers, None, 100);
        }
        assert_eq!(breakers.troubled.load(Ordering::Relaxed), 0);
        for _ in 0..5 {
            assert!(!is_open(&breakers, None));
            fail(&breakers, None, 1);
            answer(&breakers, None, 1);
        }
        fail(&breakers, None, 1);
        assert!(is_open(&breakers, None));
    }

    #[test]
    fn what_is_not_the_plugins_fault_does_not_count() {
        let breakers = Breakers::default();
        for _ in 0..100 {
            let breaker = Failure::Breaker { last: Box::new(SPENT) };
            for failure in [Failure::Overload, Failure::TooLarge { bytes: 2, limit_bytes: 1 }, breaker] {
                breakers.note::<()>(None, &Err(failure));
            }
        }
        assert!(!is_open(&breakers, None));
    }

    #[test]
    fn agents_without_end_are_not_remembered_without_end() {
        let breakers = Breakers::default();
        let agents: Vec<Agent> = (0..=AGENTS_MAX).map(|number| agent(&format!("a{number}"))).collect();
        for agent in &agents {
            fail(&breakers, Some(agent), 5);
        }
        assert_eq!(breakers.open().len(), AGENTS_MAX);
        assert!(is_open(&breakers, Some(&agents[0])) && !is_open(&breakers, agents.last()));
    }
}
