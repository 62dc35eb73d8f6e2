//! Rules about the repository itself: which crate may use which, what may be written in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Direct dependencies of each workspace crate, those of its build script included, without dev-dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let crates = metadata["packages"].as_array().unwrap().iter().map(|package| {
        let direct =
            package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"] != "dev");
        let names = direct.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect();
        (package["name"].as_str().unwrap().to_owned(), names)
    });
    crates.collect()
}

#[test]
fn crates_point_one_way() {
    let allowed: &[(&str, &[&str])] = &[
        ("callgate-match", &[]),
        ("callgate-sdk", &["callgate-match"]),
        ("callgate-plugin-arguments", &["callgate-sdk"]),
        ("callgate-plugin-budget", &["callgate-sdk"]),
        ("callgate-plugin-rules", &["callgate-sdk"]),
        ("callgate-component", &[]),
        ("callgate-stamp", &[]),
        ("callgate-clients", &["callgate-core"]),
        ("callgate-core", &[]),
        ("callgate-credentials", &["callgate-core"]),
        ("callgate-identity", &["callgate-core"]),
        ("callgate-ipc", &["callgate-core"]),
        ("callgate-stdio", &[]),
        ("callgate-relay", &["callgate-core", "callgate-ipc", "callgate-stdio"]),
        ("callgate-plugin", &["callgate-core", "callgate-match"]),
        ("callgate-journal", &["callgate-core"]),
        (
            "callgate",
            &[
                "callgate-clients",
                "callgate-component",
                "callgate-core",
                "callgate-credentials",
                "callgate-identity",
                "callgate-ipc",
                "callgate-journal",
                "callgate-plugin",
                "callgate-relay",
                "callgate-stdio",
            ],
        ),
    ];
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        allowed.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    for (name, uses) in dependencies() {
        // The tests stand outside and may use everything.
        if name == "callgate-tests" {
            continue;
        }
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is new: say here what it may use"));
        let ours = uses.iter().filter(|used| used.starts_with("callgate"));
        let wrong: Vec<_> = ours.filter(|used| !may.contains(used.as_str())).collect();
        assert!(wrong.is_empty(), "{name} must not use {wrong:?}");
    }
}

#[test]
fn each_heavy_library_has_one_home() {
    let homes = [
        ("wasmtime", "callgate-plugin"),
        ("rusqlite", "callgate-journal"),
        ("clap", "callgate"),
        ("jsonc-parser", "callgate-clients"),
        ("toml_edit", "callgate-clients"),
        ("keyring-core", "callgate-credentials"),
        ("zbus-secret-service-keyring-store", "callgate-credentials"),
        ("secret-service", "callgate-credentials"),
        ("zbus", "callgate-credentials"),
        ("nix", "callgate-identity"),
        ("chacha20poly1305", "callgate-credentials"),
        ("argon2", "callgate-credentials"),
        ("wit-bindgen", "callgate-sdk"),
    ];
    for (name, uses) in dependencies() {
        for (library, home) in homes {
            assert!(
                !uses.contains(library) || name == home || name == "callgate-tests",
                "only {home} uses {library}, but {name} does too"
            );
        }
    }
}

#[test]
fn core_is_pure() {
    let uses = dependencies().remove("callgate-core").unwrap();
    // `jiff` is there for the calendar: clippy.toml bans its clock, and its time zones are part of the program.
    for impure in ["tokio", "rustix", "getrandom", "cap-std", "log"] {
        assert!(!uses.contains(impure), "callgate-core must not use {impure}");
    }
}

#[test]
fn every_crate_without_a_need_for_unsafe_forbids_it() {
    let may_use_unsafe = ["host/plugin", "host/stdio", "sdk"];
    let forbids = [
        "host",
        "host/clients",
        "host/core",
        "host/credentials",
        "host/ipc",
        "host/journal",
        "host/relay",
        "plugins/arguments",
        "plugins/budget",
        "plugins/rules",
        "plugins/stamp",
        "sdk/match",
    ];
    for file in forbids {
        assert!(!may_use_unsafe.contains(&file));
        let text = fs::read_to_string(root().join(file).join("src/lib.rs")).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{file}/src/lib.rs must forbid unsafe code");
    }
}

#[test]
fn the_top_level_is_what_the_map_says() {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    let top: BTreeSet<&str> = files.lines().map(|file| file.split('/').next().unwrap()).collect();
    let known = [
        ".cargo",
        ".ci",
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "clippy.toml",
        "docs",
        "host",
        "plugins",
        "rustfmt.toml",
        "sdk",
        "tests",
        "wit",
        "LICENSE-APACHE",
        "LICENSE-MIT",
    ];
    let strange: Vec<_> = top.into_iter().filter(|name| !known.contains(name)).collect();
    assert!(strange.is_empty(), "not on the map: {strange:?}");
}

#[test]
fn no_file_names_a_machine_or_claims_what_a_chain_cannot() {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    // Put together here, so that this file does not hold them.
    let banned = [
        ["/root", "/"].concat(),
        ["/work", "/main"].concat(),
        ["tamper", "-proof"].concat(),
        ["tamper", "proof"].concat(),
        ["tamper", "-evident"].concat(),
    ];
    for file in files.split('\0').filter(|file| !file.is_empty() && *file != "Cargo.lock") {
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        let lower = text.to_lowercase();
        for word in &banned {
            assert!(!lower.contains(word.as_str()), "{file} says {word:?}");
        }
    }
}
