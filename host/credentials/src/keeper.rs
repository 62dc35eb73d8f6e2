//! One thread for one store, so that a store that takes long, waits for a person or never answers holds up nobody but those who
//! need it, and them only up to a deadline.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callgate_core::secret::Secret;

use crate::{SecretStore, Trouble};

/// How many may wait for a store: more than servers that start at once. Who finds no room would not be served in time.
const WAITING_MAX: usize = 64;

/// The bounds of a store.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long one call may take. The call is not ended by that, only its caller: a thread in a library's wait cannot be.
    pub deadline: Duration,
    /// For how long a store that was found locked is not asked again but by a person: it asks for its password with every call.
    pub quiet: Duration,
}

impl Timing {
    /// As shipped. A read takes 1 ms; 5 s is what a loaded machine, or a person who is quick, may take.
    pub const STANDARD: Self = Self { deadline: Duration::from_secs(5), quiet: Duration::from_secs(60) };
}

/// For whom a store is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// A person asked for it just now.
    Person,
    /// A server starts; that may happen by itself, again and again.
    Start,
}

type Job = Box<dyn FnOnce(&mut dyn SecretStore) + Send>;

/// A store behind its thread.
pub struct Keeper {
    jobs: SyncSender<Job>,
    timing: Timing,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Since when the store has been at its present call.
    busy_since: Option<Instant>,
    /// When it was last found locked, unless it worked since.
    locked_at: Option<Instant>,
}

impl Keeper {
    /// Starts the thread of a store, which is made there.
    pub fn start<S: SecretStore>(make: impl FnOnce() -> S + Send + 'static, timing: Timing) -> std::io::Result<Self> {
        let (jobs, taken) = sync_channel(WAITING_MAX);
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::Builder::new().name("secret store".to_owned()).spawn(move || work(make(), &taken, &shared))?;
        Ok(Self { jobs, timing, state })
    }

    /// The secret of this name; `None` when there is none.
    pub fn read(&self, name: &str, urgency: Urgency) -> Result<Option<Secret>, Trouble> {
        let name = name.to_owned();
        self.ask(urgency, move |store| store.read(&name))
    }

    /// Keeps a secret. After a failure it may be kept all the same, as after every answer that is lost.
    pub fn write(&self, name: &str, secret: &Secret) -> Result<(), Trouble> {
        let (name, secret) = (name.to_owned(), Secret::copied(secret.expose()));
        self.ask(Urgency::Person, move |store| store.write(&name, &secret))
    }

    /// Removes a secret.
    pub fn remove(&self, name: &str) -> Result<(), Trouble> {
        let name = name.to_owned();
        self.ask(Urgency::Person, move |store| store.remove(&name))
    }

    /// What is wrong with the store, if anything. That is a person's question.
    pub fn check(&self) -> Result<(), Trouble> {
        self.ask(Urgency::Person, |store| store.check())
    }

    fn ask<T: Send + 'static>(
        &self,
        urgency: Urgency,
        job: impl FnOnce(&mut dyn SecretStore) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        self.admit(urgency)?;
        let (answer, answered) = sync_channel(1);
        let given_up = Arc::new(AtomicBool::new(false));
        let job: Job = {
            let given_up = Arc::clone(&given_up);
            Box::new(move |store| {
                // Nobody waits for it any more, so nothing is done for nobody.
                if !given_up.load(Ordering::Acquire) {
                    answer.send(job(store)).ok();
                }
            })
        };
        let answered = match self.jobs.try_send(job) {
            Ok(()) => answered.recv_timeout(self.timing.deadline),
            Err(_) => Err(RecvTimeoutError::Timeout),
        };
        let result = answered.unwrap_or_else(|_| {
            given_up.store(true, Ordering::Release);
            Err(Trouble::Hangs)
        });
        match &result {
            Ok(_) => self.state().locked_at = None,
            Err(Trouble::Locked) => self.state().locked_at = Some(Instant::now()),
            Err(_) => {}
        }
        result
    }

    /// Whether the store is asked at all.
    fn admit(&self, urgency: Urgency) -> Result<(), Trouble> {
        let state = self.state();
        if state.busy_since.is_some_and(|since| since.elapsed() >= self.timing.deadline) {
            return Err(Trouble::Hangs);
        }
        let found_locked = state.locked_at.is_some_and(|at| at.elapsed() < self.timing.quiet);
        if found_locked && urgency == Urgency::Start { Err(Trouble::Locked) } else { Ok(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The thread. It ends when its keeper is gone, or stays with a call that never ends until the process does.
fn work(mut store: impl SecretStore, jobs: &Receiver<Job>, state: &Mutex<State>) {
    while let Ok(job) = jobs.recv() {
        lock(state).busy_since = Some(Instant::now());
        job(&mut store);
        lock(state).busy_since = None;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // It is whole between any two statements.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Does what it is told to with every call, and answers when it is told nothing.
    struct Scripted {
        steps: Receiver<Step>,
        asked: Arc<AtomicUsize>,
        kept: HashMap<String, Vec<u8>>,
    }

    enum Step {
        Fail(Trouble),
        /// Until the other end is gone.
        Hang(Receiver<()>),
    }

    impl Scripted {
        fn step(&self) -> Result<(), Trouble> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            match self.steps.try_recv() {
                Err(_) => Ok(()),
                Ok(Step::Fail(trouble)) => Err(trouble),
                Ok(Step::Hang(until)) => {
                    until.recv().unwrap_err();
                    Ok(())
                }
            }
        }
    }

    impl SecretStore for Scripted {
        fn read(&mut self, name: &str) -> Result<Option<Secret>, Trouble> {
            self.step()?;
            Ok(self.kept.get(name).map(|bytes| Secret::copied(bytes)))
        }

        fn write(&mut self, name: &str, secret: &Secret) -> Result<(), Trouble> {
            self.step()?;
            self.kept.insert(name.to_owned(), secret.expose().to_vec());
            Ok(())
        }

        fn check(&mut self) -> Result<(), Trouble> {
            self.step()
        }

        fn remove(&mut self, name: &str) -> Result<(), Trouble> {
            self.step()?;
            self.kept.remove(name);
            Ok(())
        }
    }

    struct Bench {
        keeper: Keeper,
        steps: SyncSender<Step>,
        asked: Arc<AtomicUsize>,
    }

    impl Bench {
        fn new(timing: Timing) -> Self {
            let (steps, script) = sync_channel(4);
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&asked);
            let make = move || Scripted { steps: script, asked: counted, kept: HashMap::new() };
            Self { keeper: Keeper::start(make, timing).unwrap(), steps, asked }
        }

        fn read(&self, urgency: Urgency) -> Result<Option<Vec<u8>>, Trouble> {
            self.keeper.read("a", urgency).map(|secret| secret.map(|secret| secret.expose().to_vec()))
        }

        fn write(&self) -> Result<(), Trouble> {
            self.keeper.write("a", &Secret::copied(b"x"))
        }

        /// Makes the next call hang until what is returned is dropped.
        fn hang(&self) -> SyncSender<()> {
            let (release, hanging) = sync_channel(0);
            self.steps.send(Step::Hang(hanging)).unwrap();
            release
        }

        /// Nothing tells that a call which hung has ended, so it is tried until one is answered.
        fn read_once_it_works(&self) -> Option<Vec<u8>> {
            loop {
                if let Ok(found) = self.read(Urgency::Person) {
                    return found;
                }
            }
        }
    }

    const PATIENT: Timing = Timing { deadline: Duration::from_secs(60), quiet: Duration::from_secs(60) };
    const IMPATIENT: Timing = Timing { deadline: Duration::from_millis(100), quiet: Duration::from_secs(60) };

    #[test]
    fn what_was_written_is_read_until_it_is_removed() {
        let bench = Bench::new(PATIENT);
        bench.write().unwrap();
        assert_eq!(bench.read(Urgency::Start), Ok(Some(b"x".to_vec())));
        bench.keeper.remove("a").unwrap();
        assert_eq!(bench.read(Urgency::Start), Ok(None));
    }

    #[test]
    fn a_locked_store_is_asked_again_by_a_person_only() {
        let bench = Bench::new(PATIENT);
        bench.steps.send(Step::Fail(Trouble::Locked)).unwrap();
        assert_eq!(bench.read(Urgency::Start), Err(Trouble::Locked));
        assert_eq!(bench.read(Urgency::Start), Err(Trouble::Locked));
        assert_eq!(bench.asked.load(Ordering::SeqCst), 1, "the second start asked a store that was just found locked");
        assert_eq!(bench.read(Urgency::Person), Ok(None));
        assert_eq!(bench.read(Urgency::Start), Ok(None), "a store that works again is asked again");
    }

    #[test]
    fn a_quiet_time_that_is_over_is_over() {
        let bench = Bench::new(Timing { quiet: Duration::ZERO, ..PATIENT });
        bench.steps.send(Step::Fail(Trouble::Locked)).unwrap();
        assert_eq!(bench.read(Urgency::Start), Err(Trouble::Locked));
        assert_eq!(bench.read(Urgency::Start), Ok(None));
    }

    #[test]
    fn other_troubles_do_not_keep_a_start_from_asking() {
        let bench = Bench::new(PATIENT);
        bench.steps.send(Step::Fail(Trouble::NoBus)).unwrap();
        assert_eq!(bench.read(Urgency::Start), Err(Trouble::NoBus));
        assert_eq!(bench.read(Urgency::Start), Ok(None));
    }

    #[test]
    fn a_store_that_hangs_is_given_up_on_and_nobody_queues_behind_it() {
        let bench = Bench::new(IMPATIENT);
        let release = bench.hang();
        assert_eq!(bench.read(Urgency::Start), Err(Trouble::Hangs));
        // Even a person does not wait for it again.
        assert_eq!(bench.write(), Err(Trouble::Hangs));
        assert!(bench.asked.load(Ordering::SeqCst) <= 1, "a second call reached a store that hangs");
        drop(release);
        assert_eq!(bench.read_once_it_works(), None);
    }

    #[test]
    fn what_nobody_waits_for_is_not_done() {
        let bench = Bench::new(IMPATIENT);
        let release = bench.hang();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| bench.read(Urgency::Person));
            // In front of the write, whatever the threads do.
            while bench.asked.load(Ordering::SeqCst) == 0 && !first.is_finished() {
                std::thread::yield_now();
            }
            assert_eq!(bench.write(), Err(Trouble::Hangs));
            assert_eq!(first.join().unwrap(), Err(Trouble::Hangs));
        });
        drop(release);
        assert_eq!(bench.read_once_it_works(), None, "a write that was given up on was made later");
    }
}
