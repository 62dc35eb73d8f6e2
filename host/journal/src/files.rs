//! The journal's files: who may read them, that they are on the disk, and whether they still are where they were.

use std::cell::Cell;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// How coarse a file system's times may be: two changes within it can have one time.
const CHANGE_MS: i64 = 2_000;

/// One file, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file at `path`, itself and not what it may point to; `None` when there is none.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(Self { device: metadata.dev(), inode: metadata.ino() })),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The three files of an open database. SQLite keeps them open, so that none of their inodes can be used again meanwhile.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    folder: PathBuf,
    /// The folder when all three were last seen in it. While it stays as it was they are still there: one look around a
    /// commit instead of three, each of which takes as long as a write.
    seen: Cell<Option<Listing>>,
    database: (PathBuf, Identity),
    log: [(PathBuf, Identity); 2],
}

/// A folder, and when a name in it was last made, removed or moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Listing {
    folder: Identity,
    changed: (i64, i64),
}

impl Listing {
    /// The folder at `path`; `None` when there is none, or it changed so lately that its time would not tell another change
    /// from this one.
    fn of(path: &Path, now_ms: i64) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let changed_ms = metadata.ctime().saturating_mul(1_000);
        let settled = now_ms.saturating_sub(changed_ms) > CHANGE_MS;
        settled.then_some(Self { folder: Identity { device: metadata.dev(), inode: metadata.ino() }, changed })
    }
}

/// What became of an open database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whereabouts {
    /// It is where it was.
    InPlace,
    /// There is no file at its path.
    Gone,
    /// Another file is at its path.
    Swapped,
}

impl OpenFiles {
    /// Remembers the files of a database that is open and has been written to in WAL mode.
    pub(crate) fn of(database: &Path) -> io::Result<Self> {
        let there = |path: PathBuf| match Identity::of(&path)? {
            Some(identity) => Ok((path, identity)),
            None => Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing", path.display()))),
        };
        let log = [there(beside(database, "-wal"))?, there(beside(database, "-shm"))?];
        let folder = parent(database).to_owned();
        Ok(Self { folder, seen: Cell::new(None), database: there(database.to_owned())?, log })
    }

    /// Whether all three are where they were, which is looked at around every commit. `now_ms` is the wall clock's time.
    pub(crate) fn are_in_place(&self, now_ms: i64) -> io::Result<bool> {
        let listing = Listing::of(&self.folder, now_ms);
        if listing.is_some() && listing == self.seen.get() {
            return Ok(true);
        }
        // The folder's time is older than this look at the files: a change that comes later shows in it.
        let in_place = self.database()? == Whereabouts::InPlace && self.log_is_in_place()?;
        self.seen.set(listing.filter(|_| in_place));
        Ok(in_place)
    }

    /// Looks where the database is.
    pub(crate) fn database(&self) -> io::Result<Whereabouts> {
        let (path, identity) = &self.database;
        Ok(match Identity::of(path)? {
            None => Whereabouts::Gone,
            Some(found) if found != *identity => Whereabouts::Swapped,
            Some(_) => Whereabouts::InPlace,
        })
    }

    /// Looks whether the write-ahead log and the index to it are where they were: another process would find nothing, or
    /// something else, instead of the newest entries.
    pub(crate) fn log_is_in_place(&self) -> io::Result<bool> {
        for (path, identity) in &self.log {
            if Identity::of(path)? != Some(*identity) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Checks that `path` is a plain file of this user, and takes it from everyone else. Never adds a right: a database that
/// someone made read-only stays read-only. Errors of kind `InvalidInput` and `PermissionDenied` say that it is not.
pub(crate) fn claim(path: &Path) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & !FILE_MODE == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & FILE_MODE))
}

/// Makes an empty file that only this user can read, whatever the umask. It must not be there yet.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Writes a small file whole or not at all, on the disk when this returns. Replaces what is there.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = beside(path, "-new");
    remove_if_there(&draft)?;
    let mut file = create_private(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    sync_parent(path)
}

/// Makes the folder that `path` is to lie in, for this user alone, whatever the umask. One that is there stays as it is.
pub(crate) fn private_parent(path: &Path) -> io::Result<()> {
    let folder = parent(path);
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?;
    // Of the two folders of an install neither may be on the disk without the other after a power cut.
    sync_parent(folder)
}

/// Puts the names in the folder of `path` on the disk.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Removes a file, if it is there.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the file system of `path` has no room left. `false` when that cannot be told.
pub(crate) fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(parent(path)).is_ok_and(|room| room.f_bavail == 0)
}

/// The path with `suffix` added to its last part.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
