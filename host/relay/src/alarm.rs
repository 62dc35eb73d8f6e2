//! The clock the relay is woken by.

use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// A timer that is only set when it would ring too late: ringing early costs less than setting it with every event.
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    set_for: Option<Instant>,
}

impl Alarm {
    /// An alarm that is not set.
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), set_for: None }
    }

    /// Whether it rang; `due` has to be looked at again then.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, due: Option<Instant>) -> bool {
        let Some(due) = due else { return false };
        if self.set_for.is_none_or(|set_for| due < set_for) {
            self.sleep.as_mut().reset(due.into());
            self.set_for = Some(due);
        }
        let rang = self.sleep.as_mut().poll(context).is_ready();
        if rang {
            self.set_for = None;
        }
        rang
    }
}

/// The runtime's clock, which tests can stop.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
