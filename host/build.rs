//! Stamps the build with a digest of everything it is made of, so that a relay and a daemon of different builds part
//! instead of misunderstanding each other. A version number would not do: two builds of one version may differ.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What the binary is made of, seen from the workspace's root.
const SOURCES: &[&str] = &["Cargo.lock", "Cargo.toml", "host", "plugins/dist", "sdk/match", "wit"];
/// How many hex digits of the digest are shown: 48 bits, plenty for builds of one person.
const STAMP_DIGITS: usize = 12;
/// What is left of 64 bits.
const STAMP_SPARE_BITS: u32 = 64 - 4 * 12;

fn main() {
    let host = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = host.parent().expect("host lies in the workspace");
    let mut hasher = Sha256::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
        add(&mut hasher, root, &root.join(source));
    }
    let digest = <[u8; 32]>::from(hasher.finalize());
    let stamp = digest.iter().fold(0_u64, |stamp, &byte| stamp.rotate_left(8) ^ u64::from(byte)) >> STAMP_SPARE_BITS;
    println!("cargo::rustc-env=CALLGATE_BUILD={}+{stamp:0STAMP_DIGITS$x}", env!("CARGO_PKG_VERSION"));
}

fn add(hasher: &mut Sha256, root: &Path, path: &Path) {
    if path.is_dir() {
        let mut children: Vec<PathBuf> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        children.sort();
        for child in &children {
            add(hasher, root, child);
        }
    } else if let Ok(bytes) = fs::read(path) {
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        hasher.update(name.len().to_be_bytes());
        hasher.update(name);
        hasher.update(bytes.len().to_be_bytes());
        hasher.update(bytes);
    }
}
