//! cargo, told how plugins are built, whatever the crate's own profiles say.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::{BuildError, TARGET, Tools};

/// A profile of our own, so that the crate needs none: small and fast, and a panic ends it at once, after the SDK's hook has
/// told the host why. The same as the profile `guest` that the shipped plugins are built with.
const PROFILE: &str = "callgate-plugin";
const PROFILE_SETTINGS: [&str; 7] =
    ["inherits='release'", "opt-level=2", "lto=true", "codegen-units=1", "panic='abort'", "strip=true", "debug=false"];

/// The stack of a plugin. Rust's own default for this target, a megabyte, would be most of a fresh instance's memory.
const STACK_BYTES: u32 = 128 << 10;

/// A core module that cargo built.
pub(crate) struct Module {
    pub(crate) package: String,
    pub(crate) file: PathBuf,
}

/// A line of what cargo tells, as far as it is of interest.
#[derive(Deserialize)]
struct Told {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize, Default)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

/// What cargo knows of the packages that go into a build.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    /// Where it was fetched from; `None` when it lies on this machine by itself.
    source: Option<String>,
}

pub(crate) fn build(folder: &Path, tools: &Tools) -> Result<Module, BuildError> {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let flags = rustflags(&absolute, &neighbours(folder, tools)?, tools);
    let mut cargo = cargo(folder, tools);
    cargo.args(["build", "--lib", "--target", TARGET, "--profile", PROFILE]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    for setting in PROFILE_SETTINGS {
        cargo.args(["--config", &format!("profile.{PROFILE}.{setting}")]);
    }
    cargo.args(["--config", &format!("target.{TARGET}.linker='rust-lld'")]);
    cargo.args(["--config", &format!("target.{TARGET}.rustflags={flags}")]);
    // They would take the place of what is said above.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    one(modules(&String::from_utf8_lossy(&told(cargo, tools)?), &absolute))
}

fn cargo(folder: &Path, tools: &Tools) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the author's own cargo, and no server")]
    let mut cargo = Command::new(&tools.cargo);
    cargo.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    cargo
}

/// What it prints; what it says beside that is for the author to read.
fn told(mut cargo: Command, tools: &Tools) -> Result<Vec<u8>, BuildError> {
    let done = cargo
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|cause| BuildError::NoTool { tool: tools.cargo.to_string_lossy().into_owned(), cause })?;
    if done.status.success() { Ok(done.stdout) } else { Err(BuildError::Failed) }
}

/// The packages beside the crate that lie on this machine by themselves: each its name and folder, the deepest last.
fn neighbours(folder: &Path, tools: &Tools) -> Result<Vec<(String, PathBuf)>, BuildError> {
    let mut cargo = cargo(folder, tools);
    cargo.args(["metadata", "--format-version", "1", "--filter-platform", TARGET]);
    let metadata: Metadata = serde_json::from_slice(&told(cargo, tools)?).map_err(|_| BuildError::Failed)?;
    let local = metadata.packages.into_iter().filter(|package| package.source.is_none());
    let folder_of = |Package { name, manifest_path, .. }: Package| Some((name, manifest_path.parent()?.to_owned()));
    let mut neighbours: Vec<(String, PathBuf)> = local.filter_map(folder_of).collect();
    neighbours.sort_by_key(|(_, folder)| folder.components().count());
    Ok(neighbours)
}

/// As TOML. Where things lie on this machine is kept out of the component; of several prefixes that fit the last counts.
fn rustflags(folder: &Path, neighbours: &[(String, PathBuf)], tools: &Tools) -> String {
    let mut flags = vec![format!("-Clink-arg=-zstack-size={STACK_BYTES}")];
    if let Some(home) = &tools.cargo_home {
        flags.push(format!("--remap-path-prefix={}=/cargo", home.display()));
    }
    flags.extend(neighbours.iter().map(|(name, folder)| format!("--remap-path-prefix={}=/{name}", folder.display())));
    flags.push(format!("--remap-path-prefix={}=/plugin", folder.display()));
    // A JSON list of strings is a TOML one.
    serde_json::Value::from(flags).to_string()
}

/// The modules of crates that lie in `folder`.
fn modules(told: &str, folder: &Path) -> Vec<Module> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let artifacts = told.lines().filter_map(|line| serde_json::from_str::<Told>(line).ok());
    let own = artifacts.filter(|told| {
        told.reason == "compiler-artifact"
            && told.target.crate_types.iter().any(|kind| kind == "cdylib")
            && told.manifest_path.starts_with(&folder)
    });
    own.filter_map(|told| {
        let file = told.filenames.into_iter().find(|file| file.extension().is_some_and(|end| end == "wasm"))?;
        Some(Module { package: told.target.name.replace('_', "-"), file })
    })
    .collect()
}

fn one(mut modules: Vec<Module>) -> Result<Module, BuildError> {
    match (modules.pop(), modules.is_empty()) {
        (Some(module), true) => Ok(module),
        (Some(module), false) => {
            modules.push(module);
            Err(BuildError::Several(modules.into_iter().map(|module| module.package).collect()))
        }
        (None, _) => Err(BuildError::NoModule),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(manifest: &str, kind: &str) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": manifest,
            "target": {"name": "my_guard", "crate_types": [kind, "rlib"]},
            "filenames": ["/t/libmy_guard.rlib", "/t/my_guard.wasm"],
        })
        .to_string()
    }

    #[test]
    fn of_what_cargo_tells_the_crates_own_module_is_taken() {
        let told = [
            artifact("/elsewhere/Cargo.toml", "cdylib"),
            artifact("/plugin/Cargo.toml", "cdylib"),
            artifact("/plugin/Cargo.toml", "lib"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let module = one(modules(&told.join("\n"), Path::new("/plugin"))).unwrap();
        assert_eq!((module.package.as_str(), module.file.as_path()), ("my-guard", Path::new("/t/my_guard.wasm")));
    }

    #[test]
    fn no_module_and_several_are_errors() {
        assert!(matches!(
            one(modules(&artifact("/plugin/Cargo.toml", "lib"), Path::new("/plugin"))),
            Err(BuildError::NoModule)
        ));
        let told = [artifact("/plugin/a/Cargo.toml", "cdylib"), artifact("/plugin/b/Cargo.toml", "cdylib")].join("\n");
        assert!(
            matches!(one(modules(&told, Path::new("/plugin"))), Err(BuildError::Several(names)) if names.len() == 2)
        );
    }
}
