//! Stamps the build with a digest of everything it is made of, so that a relay and a daemon of different builds part
//! instead of misunderstanding each other. A version number would not do: two builds of one version may differ.

#![expect(clippy::disallowed_methods, reason = "a build script is told what it builds by its environment")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// What the binary is made of, seen from the workspace's root.
const SOURCES: &[&str] = &["Cargo.lock", "Cargo.toml", "host", "plugins/dist", "sdk/component", "sdk/match", "wit"];
/// How many hex digits of the digest are shown: 48 bits, plenty for builds of one person.
const STAMP_DIGITS: usize = 12;
/// What is left of 64 bits.
const STAMP_SPARE_BITS: u32 = 64 - 4 * 12;

/// From this version on glibc reads packed relative relocations.
const GLIBC_PACKED: (u32, u32) = (2, 36);

fn main() {
    pack_relocations();
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

/// Has the linker pack the relative relocations, where the program will run on the C library that is here. They are read
/// whole at every start, so that every relay would hold 0.6 MB of them.
fn pack_relocations() {
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    let is_native = env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_native && is_glibc && glibc().is_some_and(|version| version >= GLIBC_PACKED) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library that is here: `getconf` says `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let said = String::from_utf8(said).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
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
