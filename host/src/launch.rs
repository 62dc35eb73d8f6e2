//! Starting the daemon: detached from whoever needs it first, found through the lock.

use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use callgate_stdio::detached::{Detached, spawn_detached};

use crate::client::listens;
use crate::failure::Failure;
use crate::home::Home;
use crate::lock;

/// A daemon listens within milliseconds; it compiles after that.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// As much of the daemon's log as a person is shown when it does not start.
const LOG_TAIL_BYTES: u64 = 2048;

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
    let mut daemon = spawn(home)?;
    let deadline = Instant::now() + LISTEN_TIMEOUT;
    loop {
        let ended = daemon.ended().is_some();
        if lock::announced(&home.lock_file()).is_some_and(|announcement| listens(&announcement.socket)) {
            return Ok(());
        }
        // One that ended because another holds the lock is no failure: the other one will listen.
        if (ended && !lock::is_held(&home.lock_file())) || Instant::now() > deadline {
            return Err(not_started(home));
        }
        std::thread::sleep(POLL);
    }
}

/// The path of this very binary.
pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::environment(format!("cannot tell where this program is: {error}")))
}

/// What a person is told when no daemon could be had.
pub(crate) fn not_started(home: &Home) -> Failure {
    let log = home.daemon_log();
    let said = std::fs::File::open(&log).ok().and_then(|mut file| {
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).ok()?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail).ok()?;
        let tail = String::from_utf8_lossy(&tail).into_owned();
        tail.lines().rev().find_map(|line| line.split_once("error: ").map(|(_, why)| why.to_owned()))
    });
    let message =
        said.map_or_else(|| "the daemon did not start".to_owned(), |why| format!("the daemon did not start: {why}"));
    Failure::environment(message).hint(format!("see {}, or run `callgate daemon serve` to watch it", log.display()))
}
