//! Compiling, with an end to it: the engine does not promise to compile hostile code in good time.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a component may take to compile: a Python one, the slowest kind, takes 10 s on two idle cores.
pub(crate) const COMPILE_TIME_MAX: Duration = Duration::from_secs(60);

/// One place to compile at. A compilation cannot be stopped, so one that is given up goes on, and nobody else gets the place
/// until it ends: there is never more than one.
#[derive(Default)]
pub(crate) struct Bench {
    taken: Mutex<bool>,
    freed: Condvar,
}

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfinished {
    /// It was not done in time.
    OutOfTime,
    /// The compiler panicked, or its thread could not be started.
    Crashed,
}

impl Bench {
    /// Runs `job` on a thread of its own and waits for it, and for the place, for at most `time` in all.
    pub(crate) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        time: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        let end = Instant::now() + time;
        let place = self.take(end)?;
        let (sender, result) = mpsc::sync_channel(1);
        let work = move || {
            let result = job();
            give_back_free_memory();
            drop(place);
            drop(sender.send(result));
        };
        thread::Builder::new().name("callgate-compile".to_owned()).spawn(work).map_err(|_| Unfinished::Crashed)?;
        result.recv_timeout(end.saturating_duration_since(Instant::now())).map_err(|error| match error {
            RecvTimeoutError::Timeout => Unfinished::OutOfTime,
            RecvTimeoutError::Disconnected => Unfinished::Crashed,
        })
    }

    fn take(self: &Arc<Self>, end: Instant) -> Result<Place, Unfinished> {
        let mut taken = self.lock();
        while *taken {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unfinished::OutOfTime);
            }
            (taken, _) = self.freed.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
        Ok(Place(Arc::clone(self)))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Place(Arc<Bench>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.freed.notify_one();
    }
}

/// Compiling takes tens of megabytes in small pieces on several threads, and glibc keeps what is freed of them for whoever asks
/// next: in a daemon, for days. Other C libraries give it back by themselves.
fn give_back_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "there is no safe way to ask for it")]
    // SAFETY: takes no pointer, and gives back only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn what_takes_too_long_is_given_up_and_keeps_the_place_until_it_ends() {
        let bench = Arc::new(Bench::default());
        assert_eq!(bench.run(LONG, || 7), Ok(7));

        let (release, held) = mpsc::sync_channel::<()>(0);
        assert_eq!(bench.run(SHORT, move || held.recv().unwrap()), Err(Unfinished::OutOfTime));
        assert_eq!(bench.run(SHORT, || 8), Err(Unfinished::OutOfTime), "two at a time");
        release.send(()).unwrap();
        assert_eq!(bench.run(LONG, || 9), Ok(9));
    }

    #[test]
    fn a_compilation_that_panics_frees_the_place() {
        let bench = Arc::new(Bench::default());
        assert_eq!(bench.run(LONG, || -> i32 { panic!("on purpose") }), Err(Unfinished::Crashed));
        assert_eq!(bench.run(LONG, || 1), Ok(1));
    }
}
