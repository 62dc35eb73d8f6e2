//! Where the programs are, and whether they are the ones this suite was built with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `callgate` binary beside the running test. Refuses one that was built from other sources than the library this
/// suite is linked with: a test of yesterday's binary proves nothing.
pub fn callgate() -> &'static Path {
    static CALLGATE: OnceLock<PathBuf> = OnceLock::new();
    CALLGATE.get_or_init(|| {
        let path = folder().join("callgate");
        let version = Command::new(&path)
            .args(["version", "--json"])
            .output()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}\nhint: cargo build -p callgate", path.display()));
        let printed = String::from_utf8_lossy(&version.stdout).into_owned();
        assert!(
            printed.contains(&format!("{:?}", callgate::BUILD)),
            "{} is another build than this suite ({}): {printed}\nhint: cargo build -p callgate",
            path.display(),
            callgate::BUILD
        );
        path
    })
}

/// The scriptable server; see its source for what it does.
pub fn fixture() -> PathBuf {
    folder().join("fixture")
}

/// The byte tap.
pub fn tap() -> PathBuf {
    folder().join("tap")
}

/// Where cargo puts the programs of this build.
fn folder() -> PathBuf {
    let mut folder = std::env::current_exe().expect("a running program has a path");
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    folder
}
