//! Waiting for what other processes do.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up: far beyond what is normal on a loaded machine, so that it only
/// bounds a failure and never decides a success.
pub const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(2);

/// Asks `probe` again and again until it has an answer; panics with `what` when there is none for [`PATIENCE`].
#[track_caller]
pub fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::sleep(POLL);
    }
}

/// Waits until `holds`.
#[track_caller]
pub fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || holds().then_some(()));
}
