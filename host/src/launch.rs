//! Starting the daemon: detached from whoever needs it first, found through the lock.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use callgate_stdio::detached::{Detached, spawn_detached};

use crate::client::listens;
use crate::failure::{Exit, Failure};
use crate::home::Home;
use crate::lock;

/// A daemon listens within milliseconds; it compiles after that.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// As much of the daemon's log as is searched for why it did not start.
const LOG_READ_BYTES: u64 = 64 * 1024;

/// Spawns a daemon and does not wait for it. One too many ends by itself: it does not get the lock.
pub(crate) fn spawn(home: &Home) -> Result<Detached, Failure> {
    home.prepare()?;
    home.socket()?;
    let program = this_program()?;
    spawn_detached(program.as_os_str(), &["daemon", "serve", "--detached"].map(OsString::from))
        .map_err(|error| Failure::environment(format!("cannot start the daemon {}: {error}", program.display())))
}

/// Spawns a daemon and waits until one listens.
pub(crate) fn start(home: &Home) -> Result<(), Failure> {
    let logged_before = std::fs::metadata(home.daemon_log()).map_or(0, |log| log.len());
    let mut daemon = spawn(home)?;
    let deadline = Instant::now() + LISTEN_TIMEOUT;
    loop {
        let ended = daemon.ended();
        if lock::announced(&home.lock_file()).is_some_and(|announcement| listens(&announcement.socket)) {
            return Ok(());
        }
        // One that ended because another holds the lock is no failure: the other one will listen.
        if (ended.is_some() && !lock::is_held(&home.lock_file())) || Instant::now() > deadline {
            return Err(not_started(home, logged_before, ended));
        }
        std::thread::sleep(POLL);
    }
}

/// The path of this very binary.
pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::environment(format!("cannot tell where this program is: {error}")))
}

/// What a person is told when no daemon could be had: what it said itself since it was started, if it said anything.
fn not_started(home: &Home, logged_before: u64, ended: Option<ExitStatus>) -> Failure {
    let log = home.daemon_log();
    let said = said_since(&log, logged_before);
    let (why, hint) = said.as_deref().and_then(last_failure).unzip();
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let hint = hint
        .flatten()
        .map_or_else(|| format!("see {}, or run `callgate daemon serve` to watch it", log.display()), str::to_owned);
    let failure = Failure::environment(format!("the daemon did not start{why}")).hint(hint);
    // A configuration that cannot be read is the same mistake whoever reads it.
    let exit = if ended.and_then(|status| status.code()) == Some(2) { Exit::Usage } else { failure.exit };
    Failure { exit, ..failure }
}

fn said_since(log: &Path, logged_before: u64) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    // A log that is shorter than it was began anew.
    let new = if length < logged_before { 0 } else { logged_before };
    file.seek(SeekFrom::Start(new.max(length.saturating_sub(LOG_READ_BYTES)))).ok()?;
    let mut said = Vec::new();
    file.take(LOG_READ_BYTES).read_to_end(&mut said).ok()?;
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// The last failure that a daemon ended with, and its hint. Both stand in one record, the second line of it indented.
fn last_failure(log: &str) -> Option<(&str, Option<&str>)> {
    let (_, record) = log.rsplit_once("ERROR] error: ")?;
    let mut lines = record.lines();
    let why = lines.next()?;
    Some((why, lines.next().and_then(|line| line.trim_start().strip_prefix("hint: "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_log_only_what_is_new_is_told_and_the_hint_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("daemon.log");
        let earlier = "[2026-01-01T00:00:00Z ERROR] error: the disk is full\n    hint: free some space\n";
        std::fs::write(&log, earlier).unwrap();
        let before = u64::try_from(earlier.len()).unwrap();
        assert_eq!(last_failure(&said_since(&log, before).unwrap()), None);

        let later = "[2026-01-02T00:00:00Z INFO ] hello\n[2026-01-02T00:00:00Z ERROR] error: no socket\n";
        std::fs::write(&log, format!("{earlier}{later}")).unwrap();
        assert_eq!(last_failure(&said_since(&log, before).unwrap()), Some(("no socket", None)));
        // It began anew.
        std::fs::write(&log, "[2026-01-03T00:00:00Z ERROR] error: x\n    hint: y\n").unwrap();
        assert_eq!(last_failure(&said_since(&log, before).unwrap()), Some(("x", Some("y"))));
    }
}
