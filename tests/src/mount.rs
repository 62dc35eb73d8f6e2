//! A file system of a given size, for the faults that only a file system can make.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::command::Finished;
use crate::wait;

/// A small file system in memory; unmounted when it goes.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// A disk of `bytes`; `None` for a user who may not mount. For root, a mount that fails is a failure.
    pub fn new(bytes: u64) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("cg-").tempdir().expect("a temporary folder can be made");
        let options = format!("size={bytes},mode=0700");
        mount(&["-t", "tmpfs", "-o", &options, "callgate-suite"], folder.path());
        Some(Self { folder })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the room there is.
    pub fn fill(&self) -> Filling {
        let path = self.folder.path().join("filling");
        // Whole blocks first, then what is left of the last one.
        for block in [64 * 1024, 4096, 1] {
            let mut file =
                std::fs::OpenOptions::new().create(true).append(true).open(&path).expect("a file can be made");
            while std::io::Write::write_all(&mut file, &vec![b'x'; block]).is_ok() {}
        }
        Filling { path }
    }

    /// Forbids and allows writing.
    pub fn set_read_only(&self, read_only: bool) {
        let options = if read_only { "remount,ro" } else { "remount,rw" };
        // A process that is ending may still be about to close its files.
        wait::until_true("the disk to be remounted", || mounted(&["-o", options], self.folder.path()).code == Some(0));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(self.folder.path());
    }
}

/// Lazily: a process that a failed test left behind may still have a file open.
fn unmount(place: &Path) {
    let unmounted = Finished::of(Command::new("umount").arg("--lazy").arg(place));
    if unmounted.code != Some(0) {
        eprintln!("cannot unmount {}: {}", place.display(), unmounted.stderr);
    }
}

/// A file that cannot be written to by anybody, root included, until this is dropped.
#[derive(Debug)]
pub struct ReadOnly {
    file: PathBuf,
}

impl ReadOnly {
    /// Makes `file` read-only; `None` for a user who may not mount.
    pub fn new(file: &Path) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let text = file.to_str().expect("the path is text");
        mount(&["--bind", text], file);
        mount(&["-o", "remount,bind,ro"], file);
        Some(Self { file: file.to_owned() })
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        unmount(&self.file);
    }
}

/// What takes all the room, until it is dropped.
#[derive(Debug)]
pub struct Filling {
    path: PathBuf,
}

impl Drop for Filling {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).expect("the filling can be removed");
    }
}

fn mount(options: &[&str], folder: &Path) {
    let _: Finished = mounted(options, folder).exits(0);
}

fn mounted(options: &[&str], folder: &Path) -> Finished {
    Finished::of(Command::new("mount").args(options).arg(folder))
}
