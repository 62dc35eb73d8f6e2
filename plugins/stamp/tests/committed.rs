//! The components in plugins/dist are what their stamps say, and of the sources that are here.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::fs;
use std::path::Path;

use callgate_stamp::{difference, plugins, stamp};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn every_committed_component_is_of_the_sources_that_are_here() {
    let dist = root().join("plugins/dist");
    let plugins = plugins(root()).unwrap();
    assert!(plugins.contains(&"rules".to_owned()));
    for plugin in plugins {
        let component = fs::read(dist.join(format!("{plugin}.wasm"))).expect("plugins/build was run");
        let has = fs::read_to_string(dist.join(format!("{plugin}.stamp"))).expect("plugins/build was run");
        let difference = difference(&has, &stamp(root(), &plugin, &component).unwrap());
        assert_eq!(difference, [""; 0], "{plugin}.wasm is stale: run plugins/build");
    }
}

#[test]
fn a_stamp_tells_another_component_apart() {
    let (one, other) = (stamp(root(), "rules", b"one").unwrap(), stamp(root(), "rules", b"other").unwrap());
    let difference = difference(&one, &other);
    assert_eq!(difference.len(), 2);
    assert!(difference.iter().all(|line| line.ends_with("plugins/dist/rules.wasm")), "{difference:?}");
}

#[test]
fn a_stamp_covers_what_a_component_is_made_from_and_not_its_tests() {
    let stamp = stamp(root(), "rules", b"").unwrap();
    for covered in [
        "  wit/0.1.0/types.wit",
        "  sdk/src/lib.rs",
        "  sdk/match/src/tool/index.rs",
        "  plugins/rules/src/lib.rs",
        "  plugins/rules/settings.schema.json",
        "  Cargo.toml: [profile.guest]",
        "  Cargo.toml: the dependency serde",
        "  .cargo/config.toml: [target.wasm32-unknown-unknown]",
        "# serde_json ",
        "# wit-bindgen-rust ",
    ] {
        assert!(stamp.contains(covered), "{covered}");
    }
    for left_out in ["plugins/rules/tests", "sdk/src/testing", "# proptest ", "# sha2 ", "# globset "] {
        assert!(!stamp.contains(left_out), "{left_out}");
    }
}

/// A stale stamp is found: the whole point.
#[test]
fn a_changed_source_makes_the_stamp_stale() {
    let copy = tempfile::tempdir().unwrap();
    for path in ["Cargo.toml", "Cargo.lock", ".cargo", "wit", "sdk", "plugins/rules"] {
        copy_all(&root().join(path), &copy.path().join(path));
    }
    let stamped = |root: &Path| stamp(root, "rules", b"").unwrap();
    let before = stamped(copy.path());
    assert_eq!(before, stamped(root()));
    for (path, from, to) in [
        ("wit/0.1.0/types.wit", "agent", "actor"),
        ("plugins/rules/src/lib.rs", "refuses", "rejects"),
        ("sdk/match/src/tool.rs", "'?'", "'+'"),
        ("Cargo.toml", "lto = true", "lto = false"),
        (".cargo/config.toml", "stack-size=", "stack-size=1"),
    ] {
        let path = copy.path().join(path);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{}", path.display());
        fs::write(&path, text.replace(from, to)).unwrap();
        assert_ne!(difference(&before, &stamped(copy.path())), [""; 0], "{}", path.display());
        fs::write(&path, text).unwrap();
    }
    fs::write(copy.path().join("sdk/src/new.rs"), "").unwrap();
    assert_ne!(difference(&before, &stamped(copy.path())), [""; 0]);
    fs::remove_file(copy.path().join("sdk/src/new.rs")).unwrap();
    assert_eq!(before, stamped(copy.path()));
}

fn copy_all(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_all(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
}
