//! Reading a client's file, and putting another in its place: whole or not at all, and only if nobody changed it meanwhile.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Larger than any state that a client keeps beside its servers.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long another run may take with the same file. Each holds it for a few milliseconds.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A file as it was read.
pub struct Snapshot {
    /// Where it really is: what a symbolic link leads to.
    path: PathBuf,
    bytes: Vec<u8>,
}

/// Why a file cannot be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is a folder, a pipe, a device.
    #[error("it is not a file")]
    NotAFile,
    /// It is too large.
    #[error("it is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// Nobody is meant to write to it.
    #[error("it is read-only")]
    ReadOnly,
    /// It has other names, which would keep the old file.
    #[error("it has {0} names (hard links), and only this one would lead to the new file")]
    OtherNames(u64),
    /// Somebody else changed it.
    #[error("somebody else changed it meanwhile")]
    Changed,
    /// Somebody else holds its lock.
    #[error("another program holds its lock")]
    Busy,
    /// The system did not do it.
    #[error("cannot {doing} it: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

fn io_error(doing: &'static str) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Io { doing, source }
}

impl Snapshot {
    /// Reads a file; `None` if there is none. Symbolic links are followed.
    pub fn read(path: &Path) -> Result<Option<Self>, FileError> {
        match std::fs::canonicalize(path) {
            Ok(path) => {
                let bytes = read(&path)?;
                Ok(Some(Self { path, bytes }))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(io_error("find")(error)),
        }
    }

    /// Where it really is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was in it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether another file may be put in its place.
    pub fn check(&self) -> Result<(), FileError> {
        self.metadata().and_then(|metadata| writable(&metadata))
    }

    /// Puts these bytes in its place, with the same mode and owner.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), FileError> {
        let lock = self.lock()?;
        let metadata = lock.metadata().map_err(io_error("look at"))?;
        writable(&metadata)?;
        let folder = self.path.parent().unwrap_or_else(|| Path::new("/"));
        let failed = io_error("replace");
        let mut new = tempfile::Builder::new().prefix(".callgate-").tempfile_in(folder).map_err(&failed)?;
        new.write_all(bytes).map_err(&failed)?;
        keep_owner(new.as_file(), &metadata).map_err(&failed)?;
        let mode = std::fs::Permissions::from_mode(metadata.mode() & 0o7777);
        new.as_file().set_permissions(mode).map_err(&failed)?;
        new.as_file().sync_all().map_err(&failed)?;
        // As late as can be: whoever writes without our lock has only the time of a rename left.
        if read(&self.path)? != self.bytes {
            return Err(FileError::Changed);
        }
        new.persist(&self.path).map_err(|error| failed(error.error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(&failed)
    }

    /// The file's lock, which every run of Callgate takes that writes to it. It is the old file that is locked: whoever waited has
    /// to look whether it is still the one of that name.
    fn lock(&self) -> Result<File, FileError> {
        for _ in 0..LOCK_TRIES {
            let file = File::open(&self.path).map_err(io_error("open"))?;
            match file.try_lock() {
                Ok(()) => {
                    let held = file.metadata().map_err(io_error("look at"))?;
                    let there = self.metadata()?;
                    if (held.dev(), held.ino()) == (there.dev(), there.ino()) {
                        return Ok(file);
                    }
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(io_error("lock")(error)),
            }
        }
        Err(FileError::Busy)
    }

    fn metadata(&self) -> Result<Metadata, FileError> {
        std::fs::metadata(&self.path).map_err(io_error("look at"))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = io_error("read");
    // Before it is opened: a pipe without a writer would be waited for.
    let metadata = std::fs::metadata(path).map_err(&failed)?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(&failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(FileError::TooLarge);
    }
    Ok(bytes)
}

/// A read-only file could be replaced all the same by whoever may write to its folder, and the superuser may write to any; that
/// it is read-only says that somebody does not want it written.
fn writable(metadata: &Metadata) -> Result<(), FileError> {
    if metadata.mode() & 0o222 == 0 {
        return Err(FileError::ReadOnly);
    }
    if metadata.nlink() > 1 {
        return Err(FileError::OtherNames(metadata.nlink()));
    }
    Ok(())
}

fn keep_owner(new: &File, old: &Metadata) -> io::Result<()> {
    let metadata = new.metadata()?;
    if (metadata.uid(), metadata.gid()) == (old.uid(), old.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(new, Some(old.uid()), Some(old.gid()))
}
