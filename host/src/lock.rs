//! The lock that makes one daemon. It lies beside the database, and the file under it names the daemon's socket, so that a
//! relay whose client gave it another environment still finds the one daemon there is.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::home::PRIVATE_FILE_MODE;

/// An announcement is two short paths; more is not one.
const ANNOUNCEMENT_BYTES_MAX: u64 = 16 * 1024;

/// Looking takes microseconds; who meets lookers this often in a row meets something else.
const TRIES_MAX: u32 = 100;
const TRY_EVERY: Duration = Duration::from_millis(1);

/// What a daemon says of itself in the lock file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// Its process id.
    pub(crate) pid: u32,
    /// Its build.
    pub(crate) build: String,
    /// Where it listens.
    pub(crate) socket: PathBuf,
}

/// The lock, held for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock; `None` when another daemon holds it. What an earlier holder said of itself is gone by then: its
    /// process id may be a stranger's by now.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE_MODE)
            .open(path)?;
        for _ in 0..TRIES_MAX {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    file.set_len(0)?;
                    return Ok(Some(Self { file }));
                }
                Err(rustix::io::Errno::WOULDBLOCK) if is_held(path) => return Ok(None),
                // Somebody only looked whether it is held, which takes a shared lock for a moment.
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(TRY_EVERY),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Writes what the holder is.
    pub(crate) fn announce(&mut self, announcement: &Announcement) -> io::Result<()> {
        let line = serde_json::to_vec(announcement)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

/// What the last holder said of itself; `None` when there never was one, or it is just starting.
pub(crate) fn announced(path: &Path) -> Option<Announcement> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(ANNOUNCEMENT_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether a daemon holds the lock.
pub(crate) fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_the_lock_and_what_it_announces_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        assert_eq!((announced(&path), is_held(&path)), (None, false));
        let mut lock = Lock::take(&path).unwrap().unwrap();
        let first = Announcement { pid: 1, build: "a".repeat(100), socket: "/s".into() };
        let second = Announcement { pid: 2, build: "b".into(), socket: "/t".into() };
        lock.announce(&first).unwrap();
        lock.announce(&second).unwrap();
        assert!(Lock::take(&path).unwrap().is_none() && is_held(&path));
        assert_eq!(announced(&path), Some(second));
        drop(lock);
        assert!(!is_held(&path));
        let _next = Lock::take(&path).unwrap().unwrap();
        assert_eq!(announced(&path), None, "the next holder is taken for the one before it");
    }
}
