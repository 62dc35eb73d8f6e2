//! How a child is brought to its end: asked ever more firmly, at fixed times. Values only; no clock, no signal.

use std::time::{Duration, Instant};

/// When each step is taken, counted from the moment the descent begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// The child's standard input is closed, whatever still waits to be written to it.
    pub close: Duration,
    /// The group gets SIGTERM.
    pub terminate: Duration,
    /// The group gets SIGKILL.
    pub kill: Duration,
    /// Nothing is waited for any more.
    pub leave: Duration,
}

impl Ladder {
    /// 1.5 s in all: MCP clients wait 2 s after closing our input before they kill us, and a killed relay cannot clean up.
    pub const STANDARD: Self = Self {
        close: Duration::from_millis(800),
        terminate: Duration::from_secs(1),
        kill: Duration::from_millis(1400),
        leave: Duration::from_millis(1500),
    };
}

/// A step of the ladder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rung {
    /// Close the child's standard input.
    Close,
    /// Send SIGTERM to its group.
    Terminate,
    /// Send SIGKILL to its group.
    Kill,
    /// Wait no longer.
    Leave,
}

impl Rung {
    const ALL: [Self; 4] = [Self::Close, Self::Terminate, Self::Kill, Self::Leave];
}

/// A descent under way.
#[derive(Clone, Copy, Debug)]
pub struct Descent {
    ladder: Ladder,
    began: Instant,
    taken: usize,
}

impl Descent {
    /// A descent that begins at `now`.
    pub const fn new(ladder: Ladder, now: Instant) -> Self {
        Self { ladder, began: now, taken: 0 }
    }

    /// The next step that is due, each once, in order.
    pub fn step(&mut self, now: Instant) -> Option<Rung> {
        let rung = *Rung::ALL.get(self.taken)?;
        if now < self.at(rung) {
            return None;
        }
        self.taken += 1;
        Some(rung)
    }

    /// When the next step is due; `None` after the last.
    pub fn next_at(&self) -> Option<Instant> {
        Rung::ALL.get(self.taken).map(|rung| self.at(*rung))
    }

    /// Whether a step has been taken.
    pub fn took(&self, rung: Rung) -> bool {
        Rung::ALL[..self.taken].contains(&rung)
    }

    fn at(&self, rung: Rung) -> Instant {
        self.began
            + match rung {
                Rung::Close => self.ladder.close,
                Rung::Terminate => self.ladder.terminate,
                Rung::Kill => self.ladder.kill,
                Rung::Leave => self.ladder.leave,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_taken_once_in_order_and_not_before_its_time() {
        let began = Instant::now();
        let mut descent = Descent::new(Ladder::STANDARD, began);
        let mut steps = Vec::new();
        for millisecond in 0..2000 {
            while let Some(rung) = descent.step(began + Duration::from_millis(millisecond)) {
                steps.push((rung, millisecond));
            }
        }
        let expected = [(Rung::Close, 800), (Rung::Terminate, 1000), (Rung::Kill, 1400), (Rung::Leave, 1500)];
        assert_eq!(steps, expected);
        assert_eq!(descent.next_at(), None);
    }

    #[test]
    fn a_descent_that_was_not_watched_catches_up_step_by_step() {
        let began = Instant::now();
        let mut descent = Descent::new(Ladder::STANDARD, began);
        let late = began + Duration::from_millis(1450);
        assert_eq!(
            std::iter::from_fn(|| descent.step(late)).collect::<Vec<_>>(),
            [Rung::Close, Rung::Terminate, Rung::Kill]
        );
        assert!(descent.took(Rung::Kill) && !descent.took(Rung::Leave));
        assert_eq!(descent.next_at(), Some(began + Ladder::STANDARD.leave));
    }
}
