//! What a component says of itself, read before any of its code is compiled or run.

use std::collections::BTreeSet;
use std::fmt;

use wasmparser::{Encoding, Parser, Payload};

use crate::failure::shown;
use crate::load::LoadError;
use crate::manifest::{self, Manifest};

/// The contract's package.
const PACKAGE: &str = "callgate:policy/";
/// The version of it that this build speaks. Older versions join this list when there are any; names are compared exactly,
/// because types are, so that a component made for a newer version hears so instead of failing on some type.
const VERSION: &str = "0.1.0";

const TYPES: &str = "callgate:policy/types@0.1.0";
pub(crate) const LOG: &str = "callgate:policy/log@0.1.0";
pub(crate) const LIFECYCLE: &str = "callgate:policy/lifecycle@0.1.0";

/// Everything in the package that a component may import or export, by its name within the package.
const INTERFACES: [&str; 6] = ["types", "log", "lifecycle", "call-policy", "catalog-policy", "settings-check"];

/// How many imports, and how many exports, are looked at: a plugin has a handful, and a hostile file must not fill memory
/// with names.
const NAMES_MAX: usize = 1000;

/// An interception point that a component exports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Hook {
    /// A `tools/call` before it is dispatched.
    CallPolicy,
    /// A `tools/list` before it reaches the client.
    CatalogPolicy,
    /// A look at the settings beside the tools that are there.
    SettingsCheck,
}

impl Hook {
    const ALL: [Self; 3] = [Self::CallPolicy, Self::CatalogPolicy, Self::SettingsCheck];

    /// Its name within the contract's package; what a manifest lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CallPolicy => "call-policy",
            Self::CatalogPolicy => "catalog-policy",
            Self::SettingsCheck => "settings-check",
        }
    }

    /// The name that a component exports it by.
    pub(crate) const fn interface(self) -> &'static str {
        match self {
            Self::CallPolicy => "callgate:policy/call-policy@0.1.0",
            Self::CatalogPolicy => "callgate:policy/catalog-policy@0.1.0",
            Self::SettingsCheck => "callgate:policy/settings-check@0.1.0",
        }
    }

    /// Whether a component with this hook alone is a plugin.
    const fn is_enough(self) -> bool {
        match self {
            Self::CallPolicy | Self::CatalogPolicy => true,
            Self::SettingsCheck => false,
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a component is, as far as its sections tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inspected {
    pub(crate) hooks: BTreeSet<Hook>,
    pub(crate) manifest: Option<Manifest>,
}

/// Reads a component's imports, exports and manifest, and refuses what this build does not know.
pub(crate) fn inspect(bytes: &[u8]) -> Result<Inspected, LoadError> {
    if wasmtime::Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotWebAssembly);
    }
    let sections = Sections::read(bytes)?;
    for name in &sections.imports {
        known(name)?;
        if ![TYPES, LOG].contains(name) {
            return Err(LoadError::UnknownImport(shown(name)));
        }
    }
    sections.exports.iter().try_for_each(|name| known(name))?;
    let exports = |interface: &str| sections.exports.contains(&interface);
    let hooks: BTreeSet<Hook> = Hook::ALL.into_iter().filter(|hook| exports(hook.interface())).collect();
    if !hooks.iter().any(|hook| hook.is_enough()) {
        return Err(LoadError::NoHook);
    }
    if !exports(LIFECYCLE) {
        return Err(LoadError::NoLifecycle);
    }
    let manifest = sections.manifest.map(|section| manifest::read(section, &hooks)).transpose()?;
    Ok(Inspected { hooks, manifest })
}

/// Refuses a name within the contract's package that this build does not know. Names outside it are not its concern.
fn known(name: &str) -> Result<(), LoadError> {
    let Some(rest) = name.strip_prefix(PACKAGE) else { return Ok(()) };
    let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
    if !INTERFACES.contains(&interface) {
        return Err(LoadError::UnknownInterface { needed: shown(name) });
    }
    if version != VERSION {
        return Err(LoadError::UnknownVersion { needed: shown(name), provided: VERSION });
    }
    Ok(())
}

#[derive(Default)]
struct Sections<'a> {
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
    manifest: Option<&'a [u8]>,
}

impl<'a> Sections<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, LoadError> {
        let malformed = |error: wasmparser::BinaryReaderError| LoadError::Malformed(shown(&error.to_string()));
        let mut sections = Self::default();
        // 0 in the component itself; its imports and exports are the plugin's, those of what is nested in it are not.
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(malformed)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(LoadError::CoreModule),
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        keep(&mut sections.imports, import.map_err(malformed)?.name.name)?;
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        keep(&mut sections.exports, export.map_err(malformed)?.name.name)?;
                    }
                }
                // A linker keeps the sections of the core module where they were, inside it.
                Payload::CustomSection(custom) if custom.name() == manifest::SECTION => {
                    sections.keep_manifest(custom.data())?;
                }
                _ => {}
            }
        }
        Ok(sections)
    }

    fn keep_manifest(&mut self, section: &'a [u8]) -> Result<(), LoadError> {
        match self.manifest.replace(section) {
            None => Ok(()),
            Some(_) => Err(LoadError::BadManifest("there are two".to_owned())),
        }
    }
}

fn keep<'a>(names: &mut Vec<&'a str>, name: &'a str) -> Result<(), LoadError> {
    if names.len() >= NAMES_MAX {
        return Err(LoadError::Malformed(format!("there are more than {NAMES_MAX} imports or exports")));
    }
    names.push(name);
    Ok(())
}
