//! From a file's bytes to a plugin: inspected, compiled or taken from the cache, and probed.

use std::collections::BTreeSet;
use std::sync::Arc;

use callgate_core::digest::Digest;
use callgate_core::verdict::Failure;
use wasmtime::component::{Component, InstancePre};

use crate::cache::{Code, Key};
use crate::compile::{COMPILE_TIME_MAX, Unfinished};
use crate::effort;
use crate::engine::Shared;
use crate::failure::cause;
use crate::inspect::{Hook, Inspected, inspect};
use crate::instance::{Indices, Instance, Misfit, Stillborn};
use crate::limits::Limits;
use crate::manifest::{Manifest, OwnLimits};
use crate::state::State;

/// The largest component that is accepted: the Python ones, the largest seen, take 18 MiB.
pub const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// Why a file is not a plugin. None of its code has run when the cause is in its sections.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// It is larger than [`COMPONENT_BYTES_MAX`].
    #[error("it takes {bytes} bytes, more than the {COMPONENT_BYTES_MAX} that a component may")]
    TooLarge {
        /// What it takes.
        bytes: usize,
    },
    /// Native code of whoever compiled it; it is never loaded.
    #[error("it is precompiled native code; give the WebAssembly component it was made from")]
    Precompiled,
    /// Neither a component nor a module in binary form.
    #[error("it is not WebAssembly in binary form")]
    NotWebAssembly,
    /// A core module.
    #[error("it is a core WebAssembly module and not a component; link it with wasm-component-ld")]
    CoreModule,
    /// Its sections cannot be read.
    #[error("its sections cannot be read: {0}")]
    Malformed(String),
    /// It speaks an interface of the contract that this build does not know.
    #[error("it needs {needed}, which this Callgate does not know; a newer one may")]
    UnknownInterface {
        /// The interface with its version.
        needed: String,
    },
    /// It speaks a version of the contract that this build does not.
    #[error("it needs {needed}, this Callgate provides {provided}")]
    UnknownVersion {
        /// The interface with its version.
        needed: String,
        /// The version that this build speaks.
        provided: &'static str,
    },
    /// It needs a power that the host does not give.
    #[error("it imports {0}, which Callgate does not provide to plugins")]
    UnknownImport(String),
    /// It would never be asked anything.
    #[error("it exports no hook: neither {} nor {}", Hook::CallPolicy.interface(), Hook::CatalogPolicy.interface())]
    NoHook,
    /// It cannot take settings.
    #[error("it does not export {}, which every plugin must", crate::inspect::LIFECYCLE)]
    NoLifecycle,
    /// Its manifest cannot be read.
    #[error("its manifest cannot be read: {0}")]
    BadManifest(String),
    /// Its manifest is not about this component.
    #[error("its manifest names {claimed}, but it exports {exported}")]
    ManifestMismatch {
        /// What the manifest says.
        claimed: String,
        /// What is there.
        exported: String,
    },
    /// Its manifest asks for something beyond what every plugin gets.
    #[error("its manifest asks for {0}, which Callgate does not give to plugins")]
    Requests(String),
    /// The compiler refuses it.
    #[error("it cannot be compiled: {0}")]
    Uncompilable(String),
    /// Compiling it would take too long, which its code tells.
    #[error(
        "it would take too long to compile: its functions branch too often among too many variables; \
         an optimised build may have fewer"
    )]
    TooMuchEffort,
    /// Compiling took too long.
    #[error("it cannot be compiled within {} s", COMPILE_TIME_MAX.as_secs())]
    CompileTimeout,
    /// An interface has the right name and other types.
    #[error("its {interface} is not the one that this Callgate knows: {cause}")]
    Misfit {
        /// The interface.
        interface: String,
        /// The first difference.
        cause: String,
    },
    /// It does not survive being instantiated.
    #[error("it cannot be instantiated: {0}")]
    Stillborn(Failure),
}

/// Where a plugin's compiled code came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was in the cache.
    Cached,
    /// It was compiled and is in the cache now.
    Compiled,
    /// It was compiled and is not in the cache: there is none, or it could not be written, for this reason.
    CompiledOnly(Option<String>),
}

/// A component that is a plugin. It has no settings yet.
#[derive(Clone)]
pub struct Plugin(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) shared: Arc<Shared>,
    /// The engine's, lowered by the plugin's own.
    pub(crate) limits: Limits,
    pub(crate) pre: InstancePre<State>,
    pub(crate) indices: Indices,
    pub(crate) digest: Digest,
    hooks: BTreeSet<Hook>,
    manifest: Option<Manifest>,
    origin: Origin,
}

impl Plugin {
    /// The digest of the component's bytes: what it is known by.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The hooks that it exports.
    pub fn hooks(&self) -> &BTreeSet<Hook> {
        &self.0.hooks
    }

    /// Its manifest, if it carries one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.0.manifest.as_ref()
    }

    /// Where its compiled code came from.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loaded { digest, hooks, manifest, origin, .. } = &*self.0;
        f.debug_struct("Plugin")
            .field("digest", digest)
            .field("hooks", hooks)
            .field("manifest", manifest)
            .field("origin", origin)
            .finish_non_exhaustive()
    }
}

/// Loads a component: what it is is read first, only then is it compiled, and it is probed before it is handed out.
pub(crate) fn load(shared: &Arc<Shared>, bytes: &[u8]) -> Result<Plugin, LoadError> {
    if bytes.len() > COMPONENT_BYTES_MAX {
        return Err(LoadError::TooLarge { bytes: bytes.len() });
    }
    let Inspected { hooks, manifest } = inspect(bytes)?;
    let digest = Digest::of(bytes);
    let (component, origin) = compiled(shared, digest, bytes)?;
    let pre = shared.linker.instantiate_pre(&component).map_err(|error| misfit(unfit_import(&error)))?;
    let indices = Indices::new(&pre, |hook| hooks.contains(&hook)).map_err(misfit)?;

    let limits = manifest.as_ref().map_or(OwnLimits::default(), |manifest| manifest.limits).lower(shared.limits);
    let shared = Arc::clone(shared);
    let loaded = Loaded { shared, limits, pre, indices, digest, hooks, manifest, origin };

    // The types of what it exports are compared only when an instance is bound.
    let name = loaded.manifest.as_ref().map_or_else(|| digest.to_string(), |manifest| manifest.id.clone());
    drop(Instance::new(&loaded, &name).map_err(stillborn)?);
    Ok(Plugin(Arc::new(loaded)))
}

fn compiled(shared: &Shared, digest: Digest, bytes: &[u8]) -> Result<(Component, Origin), LoadError> {
    let key = Key { component: digest, engine: shared.compatibility };
    let kept = shared.cache.as_ref().and_then(|cache| cache.load(&key));
    if let Some(component) = kept.and_then(|code| code.load(&shared.engine).ok()) {
        return Ok((component, Origin::Cached));
    }
    if effort::is_too_much(bytes) {
        return Err(LoadError::TooMuchEffort);
    }
    let owned = bytes.to_vec();
    let code = match shared.bench.run(COMPILE_TIME_MAX, move || Code::compile(&owned)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => return Err(LoadError::Uncompilable(cause(&error))),
        Err(Unfinished::OutOfTime) => return Err(LoadError::CompileTimeout),
        Err(Unfinished::Crashed) => return Err(LoadError::Uncompilable("the compiler crashed on it".to_owned())),
    };
    let origin = match shared.cache.as_ref().map(|cache| cache.store(&key, &code)) {
        Some(Ok(())) => Origin::Compiled,
        Some(Err(error)) => Origin::CompiledOnly(Some(error.to_string())),
        None => Origin::CompiledOnly(None),
    };
    let component = code.load(&shared.engine).map_err(|error| LoadError::Uncompilable(cause(&error)))?;
    Ok((component, origin))
}

/// `log` is the one import with functions, hence the one that can be unfit.
fn unfit_import(error: &wasmtime::Error) -> Misfit {
    Misfit { interface: crate::inspect::LOG, cause: cause(error) }
}

fn misfit(Misfit { interface, cause }: Misfit) -> LoadError {
    LoadError::Misfit { interface: interface.to_owned(), cause }
}

fn stillborn(stillborn: Stillborn) -> LoadError {
    match stillborn {
        Stillborn::Failed(failure) => LoadError::Stillborn(failure),
        Stillborn::Misfit(unfit) => misfit(unfit),
    }
}
