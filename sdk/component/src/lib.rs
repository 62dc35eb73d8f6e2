//! From a policy crate to a component: cargo makes the core module, and what the contract's bindings left in it makes the
//! module a component. The manifest, which the SDK put into the module, goes along. Nothing but cargo and the target's
//! standard library is needed.
//!
//! Never judges what was built: whether it is a plugin is found out by loading it.
#![forbid(unsafe_code)]

mod cargo;
mod target;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use wit_component::ComponentEncoder;

/// What plugins are built for: it has no imports of its own, so that what a component imports is what the contract gives.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The tools that are on this machine.
#[derive(Clone, Debug)]
pub struct Tools {
    /// cargo, as a path or a name to be looked up.
    pub cargo: OsString,
    /// rustc, the one that cargo will use.
    pub rustc: OsString,
    /// Where cargo keeps other people's sources; kept out of what is built.
    pub cargo_home: Option<PathBuf>,
}

/// What was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// The package's name.
    pub package: String,
    /// The component.
    pub component: Vec<u8>,
}

/// Why nothing was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no crate.
    #[error("there is no Cargo.toml in {0}")]
    NoCrate(PathBuf),
    /// A tool cannot be run.
    #[error("cannot run {tool}: {cause}")]
    NoTool {
        /// Which one.
        tool: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The compiler has no standard library for plugins.
    #[error("the Rust compiler ({rustc}) cannot build for {TARGET}: its standard library is not there")]
    NoTarget {
        /// The compiler that was asked.
        rustc: String,
    },
    /// cargo has said why.
    #[error("cargo did not build it")]
    Failed,
    /// It is no dynamic library, so that nothing can be made of it.
    #[error("the crate is no cdylib, so it has no module to make a component of")]
    NoModule,
    /// It is not one crate.
    #[error("there are {} crates that could be meant: {}", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    /// What cargo built cannot be read.
    #[error("cannot read {file}: {cause}")]
    Unreadable {
        /// The module.
        file: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The module cannot be made a component.
    #[error("no component can be made of the module: {0}")]
    NoComponent(String),
}

impl BuildError {
    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoCrate(_) => Some("give the folder of a policy crate, or see docs/guide/first-plugin.md".to_owned()),
            Self::NoTool { .. } => Some("install Rust with rustup".to_owned()),
            Self::NoTarget { .. } => Some(format!(
                "rustup target add {TARGET}; a compiler from elsewhere that has it is named by the variable RUSTC"
            )),
            Self::NoModule => {
                Some("put `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]` in its Cargo.toml".to_owned())
            }
            Self::Several(_) => Some("give the folder of one of them".to_owned()),
            Self::NoComponent(_) => {
                Some("the crate has to call callgate_sdk::export! once, of a version of the SDK that fits".to_owned())
            }
            Self::Failed | Self::Unreadable { .. } => None,
        }
    }
}

/// Builds the crate in `folder`. What cargo says goes to stderr as it comes.
pub fn build(folder: &Path, tools: &Tools) -> Result<Built, BuildError> {
    if !folder.join("Cargo.toml").is_file() {
        return Err(BuildError::NoCrate(folder.to_owned()));
    }
    target::check(folder, tools)?;
    let cargo::Module { package, file } = cargo::build(folder, tools)?;
    let module = std::fs::read(&file).map_err(|cause| BuildError::Unreadable { file, cause })?;
    Ok(Built { package, component: component(module)? })
}

/// The layer that a binary is of: 0 a core module, 1 a component.
const LAYER_AT: usize = 6;

fn component(module: Vec<u8>) -> Result<Vec<u8>, BuildError> {
    // A configuration beside the crate may have its linker make the component already.
    if module.get(LAYER_AT) == Some(&1) {
        return Ok(module);
    }
    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(ComponentEncoder::encode)
        .map_err(|error| BuildError::NoComponent(format!("{error:#}")))
}
