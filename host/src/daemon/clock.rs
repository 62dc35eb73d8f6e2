//! The machine's clocks.

use callgate_core::port::Clock;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// macOS's monotonic clock counts while the machine sleeps; Linux has one more clock for that.
#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

/// The wall clock and the boot clock.
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        milliseconds(clock_gettime(ClockId::Realtime))
    }

    fn boot_ms(&self) -> u64 {
        u64::try_from(milliseconds(clock_gettime(BOOT))).unwrap_or(0)
    }
}

fn milliseconds(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}
