//! What an entry's time is made of, and when the wall clock is said to have jumped.

use callgate_core::port::Clock;

/// The wall clock may run this far ahead of or behind the boot clock from one commit to the next. A time daemon that slews
/// moves both clocks alike; what parts them is someone who sets the clock. Below a second an entry of its own would only
/// be noise.
pub(crate) const CLOCK_JUMP_MS: i64 = 1_000;

/// Both clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    /// The wall clock.
    pub(crate) wall_ms: i64,
    boot_ms: u64,
}

/// The wall clock is not where it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Jump {
    /// Where it should be.
    pub(crate) expected_ms: i64,
    /// Where it is.
    pub(crate) now_ms: i64,
}

impl Reading {
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self { wall_ms: clock.now_ms(), boot_ms: clock.boot_ms() }
    }

    /// How long ago `earlier` was, a reading of the same boot, milliseconds.
    pub(crate) fn booted_since(self, earlier: Self) -> i64 {
        i64::try_from(self.boot_ms.saturating_sub(earlier.boot_ms)).unwrap_or(i64::MAX)
    }

    /// Whether the wall clock jumped since `earlier`, a reading of the same boot.
    pub(crate) fn jump_since(self, earlier: Self) -> Option<Jump> {
        self.jump_from(earlier.wall_ms.saturating_add(self.booted_since(earlier)))
    }

    /// Whether the wall clock stands before `newest_ms`, the time of an entry that an earlier process wrote. How much
    /// later it may be cannot be told.
    pub(crate) fn jump_before(self, newest_ms: i64) -> Option<Jump> {
        if self.wall_ms < newest_ms { self.jump_from(newest_ms) } else { None }
    }

    fn jump_from(self, expected_ms: i64) -> Option<Jump> {
        let far = self.wall_ms.saturating_sub(expected_ms).saturating_abs() > CLOCK_JUMP_MS;
        far.then_some(Jump { expected_ms, now_ms: self.wall_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall_ms: i64, boot_ms: u64) -> Reading {
        Reading { wall_ms, boot_ms }
    }

    #[test]
    fn clocks_that_run_alike_do_not_jump() {
        assert_eq!(at(90_000_500, 90_000_000).jump_since(at(500, 0)), None);
        assert_eq!(at(1_000 + CLOCK_JUMP_MS, 0).jump_since(at(1_000, 0)), None, "the bound itself is no jump");
    }

    #[test]
    fn a_wall_clock_that_is_set_jumps_both_ways() {
        let jump = |expected_ms, now_ms| Some(Jump { expected_ms, now_ms });
        assert_eq!(at(3_600_000, 20).jump_since(at(0, 10)), jump(10, 3_600_000));
        assert_eq!(at(-3_600_000, 20).jump_since(at(0, 10)), jump(10, -3_600_000));
        assert_eq!(at(5, u64::MAX).jump_since(at(i64::MAX, 0)), jump(i64::MAX, 5));
    }

    #[test]
    fn after_a_restart_only_going_back_is_a_jump() {
        assert_eq!(at(i64::MAX, 0).jump_before(1_000), None);
        assert_eq!(at(999, 0).jump_before(1_000), None);
        assert_eq!(at(10, 0).jump_before(10_000), Some(Jump { expected_ms: 10_000, now_ms: 10 }));
    }
}
