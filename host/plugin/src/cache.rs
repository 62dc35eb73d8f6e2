//! Compiled components kept on disk, so that a start costs a read and not a compilation.
//!
//! Loading compiled code is loading native code. Never loaded: code that somebody else compiled, and a file that is not
//! byte for byte what this module wrote for this component and this engine.

use std::hash::{Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use callgate_core::digest::Digest;
use cap_std::fs::{Dir, File, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use wasmtime::component::Component;

/// How many compiled components are kept; the oldest go. A few times what one install runs, for older versions and builds.
const FILES_MAX: usize = 64;

/// The largest compiled component: the Python ones, the largest seen, take 35 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What the digest of a file begins with, so that no other file of ours has the same.
const DOMAIN: &[u8] = b"callgate compiled component 1\n";

const SUFFIX: &str = ".cwasm";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The digest at the end of a file.
const TRAILER_BYTES: usize = 32;

/// Files that this process has begun to write: their temporary names never meet.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// A private folder of compiled components.
#[derive(Debug)]
pub struct Cache {
    folder: Dir,
}

/// A folder that compiled code is not loaded from.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Others could write native code into it.
    #[error(
        "the folder for compiled plugins has mode {mode:03o} and owner {owner}; it has to be private (700) and owned by {expected_owner}"
    )]
    NotPrivate {
        /// Its permission bits.
        mode: u32,
        /// Whose it is.
        owner: u32,
        /// Whose it has to be: this process's effective user.
        expected_owner: u32,
    },
    /// It cannot be read.
    #[error("the folder for compiled plugins cannot be read: {0}")]
    Unreadable(#[source] io::Error),
}

impl Cache {
    /// Takes a folder that only this user can enter.
    pub fn open(folder: Dir) -> Result<Self, CacheError> {
        let metadata = folder.dir_metadata().map_err(CacheError::Unreadable)?;
        let expected_owner = rustix::process::geteuid().as_raw();
        let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
        if mode & 0o077 != 0 || owner != expected_owner {
            return Err(CacheError::NotPrivate { mode, owner, expected_owner });
        }
        Ok(Self { folder })
    }
}

/// A component as native code: as this process compiled it, or as this module kept it. There is no other way to have one.
pub(crate) struct Code(Vec<u8>);

impl Code {
    /// Compiles a component with an engine that is there for nothing else: what it holds on to for the next compilation, some ten
    /// megabytes, goes with it.
    pub(crate) fn compile(component: &[u8]) -> wasmtime::Result<Self> {
        wasmtime::Engine::new(&crate::engine::config())?.precompile_component(component).map(Self)
    }

    /// The component, ready to run.
    pub(crate) fn load(&self, engine: &wasmtime::Engine) -> wasmtime::Result<Component> {
        #[expect(unsafe_code, reason = "`deserialize` trusts the bytes to be unchanged from `precompile_component`")]
        // SAFETY: they are, as said at `Code`. Whether the engine's settings are the same it checks itself.
        unsafe {
            Component::deserialize(engine, &self.0)
        }
    }
}

/// What a compiled component is kept under: which component, and which engine compiled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) component: Digest,
    pub(crate) engine: Digest,
}

impl Key {
    fn file_name(&self) -> String {
        format!("{}-{}{SUFFIX}", self.component, self.engine)
    }

    fn trailer(&self, code: &[u8]) -> Digest {
        Digest::of_parts(&[DOMAIN, self.component.as_bytes(), self.engine.as_bytes(), code])
    }
}

/// What makes compiled code fit an engine: its version, its settings and the processor's features.
pub(crate) fn compatibility(engine: &wasmtime::Engine) -> Digest {
    let mut transcript = Transcript(Vec::new());
    engine.precompile_compatibility_hash().hash(&mut transcript);
    Digest::of(&transcript.0)
}

/// Writes down what is hashed, so that it can be hashed with SHA-256.
struct Transcript(Vec<u8>);

impl Hasher for Transcript {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Of no use: the transcript is the result.
    fn finish(&self) -> u64 {
        0
    }
}

impl Cache {
    /// The code kept under `key`. Whatever is wrong with the file, the answer is `None`: compile it again.
    pub(crate) fn load(&self, key: &Key) -> Option<Code> {
        let mut bytes = self.read(&key.file_name()).ok()?;
        let trailer = bytes.split_off(bytes.len().checked_sub(TRAILER_BYTES)?);
        // Covers the component's digest and the engine's compatibility hash too, and is taken over the bytes in memory that are
        // then loaded: neither a torn or rotten file nor one that was renamed or exchanged meanwhile passes. Somebody who means
        // harm can compute that digest too, but to place the file they must be this user (the folder is private and its owner
        // was checked), and this user can replace the very binary.
        (key.trailer(&bytes).as_bytes() == trailer.as_slice()).then_some(Code(bytes))
    }

    /// Keeps what was compiled just now. Not synced: a file that a power cut tore does not match its digest.
    pub(crate) fn store(&self, key: &Key, Code(code): &Code) -> io::Result<()> {
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{}{number}{TEMPORARY_SUFFIX}", own_prefix());
        let written = self.write(&temporary, &[code, key.trailer(code).as_bytes()]);
        let stored = written.and_then(|()| self.folder.rename(&temporary, &self.folder, key.file_name()));
        if stored.is_err() {
            drop(self.folder.remove_file(&temporary));
        }
        stored?;
        self.prune()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.folder.open(name)?;
        let bytes = file.metadata()?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
        file.take(FILE_BYTES_MAX).read_to_end(&mut content)?;
        Ok(content)
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file: File = self.folder.open_with(name, options.write(true).create_new(true).mode(0o600))?;
        parts.iter().try_for_each(|part| file.write_all(part))
    }

    /// Removes the oldest files over the bound, and temporary files of other processes: of ones that died, or of one that
    /// is writing right now and will compile once more for it.
    fn prune(&self) -> io::Result<()> {
        let mut compiled = Vec::new();
        for entry in self.folder.entries()? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(SUFFIX) {
                // A file that goes meanwhile needs no pruning.
                compiled
                    .extend(entry.metadata().and_then(|metadata| metadata.modified()).ok().map(|time| (time, name)));
            } else if name.ends_with(TEMPORARY_SUFFIX) && !name.starts_with(&own_prefix()) {
                drop(self.folder.remove_file(&name));
            }
        }
        compiled.sort_unstable();
        let excess = compiled.len().saturating_sub(FILES_MAX);
        compiled.iter().take(excess).for_each(|(_, name)| drop(self.folder.remove_file(name)));
        Ok(())
    }
}

fn own_prefix() -> String {
    format!("{}-", std::process::id())
}
