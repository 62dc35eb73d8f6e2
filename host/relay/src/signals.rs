//! The signals a relay listens to.

use std::io;
use std::task::Context;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Made before the child, so that its end is not missed.
pub(crate) struct Signals {
    child: Stream,
    asked_to_end: [(Signal, Stream); 3],
}

impl Signals {
    /// Listens from now on, for as long as the process lives.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            asked_to_end: [
                (Signal::TERM, signal(SignalKind::terminate())?),
                (Signal::INT, signal(SignalKind::interrupt())?),
                (Signal::HUP, signal(SignalKind::hangup())?),
            ],
        })
    }

    /// Whether a child may have changed since the last time.
    pub(crate) fn poll_child(&mut self, context: &mut Context<'_>) -> bool {
        self.child.poll_recv(context).is_ready()
    }

    /// A signal that asks us to end.
    pub(crate) fn poll_asked_to_end(&mut self, context: &mut Context<'_>) -> Option<Signal> {
        let mut asked = self.asked_to_end.iter_mut();
        asked.find_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal))
    }
}
