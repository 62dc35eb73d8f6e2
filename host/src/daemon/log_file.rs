//! The daemon's log, bounded: beyond [`LOG_BYTES_MAX`] it begins anew, so that it never fills a disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::home::PRIVATE_FILE_MODE;

/// A daemon's whole life at the usual level takes far less; what is said again and again is worth no more.
pub(super) const LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The file. A daemon that is one too many writes to the same one for a moment, so its length is asked for, never counted.
pub(super) struct LogFile(File);

impl LogFile {
    /// Opens it to go on with what is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).mode(PRIVATE_FILE_MODE).open(path).map(Self)
    }
}

impl Write for LogFile {
    /// Writes one record; the logger hands over no less.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let bytes = u64::try_from(record.len()).unwrap_or(u64::MAX);
        if self.0.metadata()?.len().saturating_add(bytes) > LOG_BYTES_MAX {
            self.0.set_len(0)?;
        }
        self.0.write(record)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stays_bounded_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let mut log = LogFile::open(&path).unwrap();
        let record = vec![b'x'; 64 * 1024];
        for _ in 0..=2 * LOG_BYTES_MAX / 65_536 {
            log.write_all(&record).unwrap();
            assert!(path.metadata().unwrap().len() <= LOG_BYTES_MAX);
        }
        let before = path.metadata().unwrap().len();
        LogFile::open(&path).unwrap().write_all(b"one more line\n").unwrap();
        assert_eq!(path.metadata().unwrap().len(), before + 14, "what is there is not gone on with");
    }
}
