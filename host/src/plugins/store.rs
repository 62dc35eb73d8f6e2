//! The plugin folder of the home: components by their digest, and reading one so that it is the one that was accepted.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use callgate_core::digest::Digest;
use callgate_core::plugin::PluginEntry;
use callgate_plugin::COMPONENT_BYTES_MAX;

use crate::failure::Failure;
use crate::home::{Home, PRIVATE_FILE_MODE};

/// Why a component is not the one that was accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotThere {
    /// There is no file.
    #[error("its file {} is missing", .0.display())]
    Missing(PathBuf),
    /// There is another one.
    #[error("its file {} changed: it has the digest {found}, and {accepted} was accepted", file.display())]
    Changed {
        /// The file.
        file: PathBuf,
        /// What is there.
        found: Digest,
        /// What should be.
        accepted: Digest,
    },
    /// It cannot be read.
    #[error("its file {} cannot be read: {cause}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// Where a plugin's component is.
pub(crate) fn file(home: &Home, plugin: &PluginEntry) -> PathBuf {
    match &plugin.file {
        // An absolute path stays what it is.
        Some(file) => home.config_folder().join(file),
        None => kept(home, plugin.digest),
    }
}

/// Where the component of this digest is kept.
fn kept(home: &Home, digest: Digest) -> PathBuf {
    home.plugins().join(format!("{digest}.wasm"))
}

/// The very component that was accepted: what is hashed is what is returned.
pub(crate) fn read(home: &Home, plugin: &PluginEntry) -> Result<Vec<u8>, NotThere> {
    let file = file(home, plugin);
    let bytes = match read_file(&file) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Err(NotThere::Missing(file)),
        Err(cause) => return Err(NotThere::Unreadable { file, cause }),
    };
    let (found, accepted) = (Digest::of(&bytes), plugin.digest);
    if found == accepted { Ok(bytes) } else { Err(NotThere::Changed { file, found, accepted }) }
}

/// A file's bytes, and one more than a component may have of a file that is larger.
pub(crate) fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let open = File::open(file)?;
    if !open.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    open.take(COMPONENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Keeps a component under its digest; tells whether it was not there before. It is on the disk, whole, when this returns.
pub(crate) fn keep(home: &Home, component: &[u8]) -> Result<bool, Failure> {
    let digest = Digest::of(component);
    let file = kept(home, digest);
    if read_file(&file).is_ok_and(|there| Digest::of(&there) == digest) {
        return Ok(false);
    }
    write(&file, component)
        .map(|()| true)
        .map_err(|error| Failure::environment(format!("cannot write {}: {error}", file.display())))
}

/// Throws a component away.
pub(crate) fn discard(home: &Home, digest: Digest) -> io::Result<()> {
    std::fs::remove_file(kept(home, digest))
}

/// Writes a file whole or not at all, and durably.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.as_file().set_permissions(std::fs::Permissions::from_mode(PRIVATE_FILE_MODE))?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(file)?;
    File::open(folder)?.sync_all()
}
