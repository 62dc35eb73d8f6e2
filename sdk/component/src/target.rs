//! Whether the compiler can build for the target, asked beforehand: cargo's own words for it come after a page of errors.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{BuildError, TARGET, Tools};

pub(crate) fn check(folder: &Path, tools: &Tools) -> Result<(), BuildError> {
    #[expect(clippy::disallowed_methods, reason = "the author's own compiler, and no server")]
    let mut rustc = Command::new(&tools.rustc);
    // In the crate's folder, where a file may name another toolchain.
    let asked = rustc.args(["--print", "target-libdir", "--target", TARGET]).current_dir(folder).output();
    let told = asked.map_err(|cause| BuildError::NoTool { tool: tools.rustc.to_string_lossy().into_owned(), cause })?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&told.stdout).trim());
    if told.status.success() && has_std(&libraries) {
        return Ok(());
    }
    Err(BuildError::NoTarget { rustc: tools.rustc.to_string_lossy().into_owned() })
}

fn has_std(libraries: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(libraries) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}
