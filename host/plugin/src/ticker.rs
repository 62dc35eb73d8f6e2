//! The clock that deadlines are counted in: one thread that advances the engine's epoch while plugins run.
//!
//! It never wakes an idle machine for long, and a call pays two atomic additions for it, a system call only when it is the
//! first after a rest.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::Duration;

/// How far apart ticks are: what a deadline may be exceeded by.
pub(crate) const TICK_MS: u32 = 10;

/// How many ticks without a call let the thread rest: a second.
const QUIET_TICKS_MAX: u32 = 100;

/// One more call entered, and one more inside: the high half of [`Shared::calls`] counts entries, the low half those inside.
const ENTER: u64 = (1 << 32) + 1;

pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    /// Entries so far (high half, wrapping) and calls inside (low half). One word, so that a tick sees both at once: a call
    /// of a few microseconds is hardly ever inside at a tick, but it has entered.
    calls: AtomicU64,
    resting: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    /// Starts the thread; `tick` is called about every [`TICK_MS`] while there are calls.
    pub(crate) fn start(tick: impl Fn() + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            calls: AtomicU64::new(0),
            resting: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let inside = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("callgate-epoch".to_owned()).spawn(move || inside.run(tick))?.thread().clone();
        Ok(Self { shared, thread })
    }

    /// Sees to it that ticks come for as long as the guard lives.
    pub(crate) fn enter(&self) -> Inside<'_> {
        self.shared.calls.fetch_add(ENTER, SeqCst);
        // The thread says that it rests, then looks for calls; this call says that it is there, then looks whether the
        // thread rests. Sequentially consistent, so at least one of the two sees the other.
        if self.shared.resting.load(SeqCst) && self.shared.resting.swap(false, SeqCst) {
            self.thread.unpark();
        }
        Inside(&self.shared)
    }

    #[cfg(test)]
    fn rests(&self) -> bool {
        self.shared.resting.load(SeqCst)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, SeqCst);
        self.thread.unpark();
    }
}

/// A call that is inside a plugin.
pub(crate) struct Inside<'a>(&'a Shared);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, SeqCst);
    }
}

impl Shared {
    fn run(&self, tick: impl Fn()) {
        let mut seen = self.calls.load(SeqCst);
        let mut quiet = 0;
        while !self.stopped.load(SeqCst) {
            thread::sleep(Duration::from_millis(TICK_MS.into()));
            tick();
            let calls = self.calls.load(SeqCst);
            quiet = if calls == seen && is_empty(calls) { quiet + 1 } else { 0 };
            seen = calls;
            if quiet >= QUIET_TICKS_MAX {
                self.rest();
                quiet = 0;
            }
        }
    }

    fn rest(&self) {
        self.resting.store(true, SeqCst);
        if !is_empty(self.calls.load(SeqCst)) {
            self.resting.store(false, SeqCst);
        }
        while self.resting.load(SeqCst) && !self.stopped.load(SeqCst) {
            thread::park();
        }
    }
}

const fn is_empty(calls: u64) -> bool {
    calls & 0xffff_ffff == 0
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_ticks_while_a_call_is_inside_rests_after_and_wakes_for_the_next() {
        let (sender, ticks) = mpsc::sync_channel(1);
        let ticker = Ticker::start(move || _ = sender.try_send(())).unwrap();
        for _ in 0..2 {
            let inside = ticker.enter();
            assert!(!ticker.rests());
            for _ in 0..QUIET_TICKS_MAX + 10 {
                ticks.recv().unwrap();
            }
            assert!(!ticker.rests(), "it rests while a call is inside");
            drop(inside);
            wait_for_rest(&ticker, &ticks);
            assert!(ticks.recv_timeout(Duration::from_millis(u64::from(TICK_MS) * 5)).is_err(), "it ticks at rest");
        }
    }

    #[test]
    fn it_stops_when_it_is_dropped_even_at_rest() {
        let (sender, ticks) = mpsc::sync_channel::<()>(1);
        let ticker = Ticker::start(move || _ = sender.try_send(())).unwrap();
        wait_for_rest(&ticker, &ticks);
        drop(ticker);
        // The thread holds the only sender: it is gone once the channel is closed.
        while ticks.recv().is_ok() {}
    }
    /// Takes the ticks that come until none does because the thread rests.
    fn wait_for_rest(ticker: &Ticker, ticks: &mpsc::Receiver<()>) {
        while !ticker.rests() {
            _ = ticks.recv_timeout(Duration::from_millis(TICK_MS.into()));
        }
        while ticks.try_recv().is_ok() {}
    }
}
