//! Stamps: what a built component was made from, as digests, so that a component that is no longer of the sources beside it
//! is found without building it again.
//!
//! A stamp is a text that `sha256sum --check` reads as well: the component's own digest, one for each source, and, as
//! comments, what of the workspace's files reaches a component without being a file of its own. Never says whether a
//! component *could* be built from the sources, only whether it was.
#![forbid(unsafe_code)]

mod excerpt;
mod lock;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// What every plugin is made from, besides its own crate.
const SHARED: [&str; 5] = ["sdk/Cargo.toml", "sdk/match/Cargo.toml", "sdk/match/src", "sdk/src", "wit/0.1.0"];

/// What of those never reaches a component: compiled for native tests only.
const NATIVE_ONLY: [&str; 2] = ["sdk/src/testing", "sdk/src/testing.rs"];

/// What of a plugin's crate never reaches its component.
const TESTS: &str = "tests";

/// The workspace's crates that a component is made of, besides the plugin's own.
const SHARED_CRATES: [&str; 2] = ["sdk", "sdk/match"];

/// The plugins of a workspace: the folders under `plugins` whose crate is a `cdylib`.
pub fn plugins(root: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("plugins"))? {
        let entry = entry?;
        let manifest = entry.path().join("Cargo.toml");
        if manifest.exists() && fs::read_to_string(manifest)?.contains("\"cdylib\"") {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The stamp that a plugin's component has to have when it was built from the sources that are here.
pub fn stamp(root: &Path, plugin: &str, component: &[u8]) -> io::Result<String> {
    let mut stamp = format!("# What {plugin}.wasm was built from, and its own digest. Written by plugins/build.\n");
    line(&mut stamp, "", component, &format!("plugins/dist/{plugin}.wasm"));
    for source in sources(root, plugin)? {
        line(&mut stamp, "", &fs::read(root.join(&source))?, &source);
    }
    let crates: Vec<String> =
        SHARED_CRATES.iter().map(ToString::to_string).chain([format!("plugins/{plugin}")]).collect();
    for (file, what, text) in excerpt::excerpts(root, &crates)? {
        line(&mut stamp, "# ", text.as_bytes(), &format!("{file}: {what}"));
    }
    for package in lock::packages(root, &crates)? {
        stamp.push_str("# ");
        stamp.push_str(&package);
        stamp.push('\n');
    }
    Ok(stamp)
}

/// The lines in which a stamp differs from the one that it should be: `-` for what it has, `+` for what it should have.
pub fn difference(has: &str, should_have: &str) -> Vec<String> {
    let missing_in = |other: &str, sign: &str, text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !other.lines().any(|same| same == *line))
            .map(|line| format!("{sign} {line}"))
            .collect()
    };
    [missing_in(should_have, "-", has), missing_in(has, "+", should_have)].concat()
}

fn line(stamp: &mut String, before: &str, bytes: &[u8], what: &str) {
    stamp.push_str(before);
    for byte in Sha256::digest(bytes) {
        write!(stamp, "{byte:02x}").expect("writing to a String does not fail");
    }
    stamp.push_str("  ");
    stamp.push_str(what);
    stamp.push('\n');
}

/// The files a component is made from, relative to the root, ordered.
fn sources(root: &Path, plugin: &str) -> io::Result<Vec<String>> {
    let own = format!("plugins/{plugin}");
    let skipped: Vec<PathBuf> = NATIVE_ONLY.iter().map(PathBuf::from).chain([Path::new(&own).join(TESTS)]).collect();
    let mut open: Vec<PathBuf> = SHARED.iter().map(PathBuf::from).chain([PathBuf::from(own)]).collect();
    let mut sources = Vec::new();
    while let Some(path) = open.pop() {
        if skipped.contains(&path) {
            continue;
        }
        if root.join(&path).is_dir() {
            for entry in fs::read_dir(root.join(&path))? {
                open.push(path.join(entry?.file_name()));
            }
        } else {
            sources.push(path.to_string_lossy().into_owned());
        }
    }
    sources.sort();
    Ok(sources)
}
