//! One instance of a plugin: entered with its limits armed, thrown away after any failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use callgate_core::call::{Annotations, Call};
use callgate_core::digest::Hex;
use callgate_core::verdict::{Answer, Failure};
use wasmtime::Store;
use wasmtime::component::InstancePre;

use crate::answer::{Broken, answer};
use crate::bindings::callgate::policy::types;
use crate::bindings::exports::callgate::policy::{call_policy, catalog_policy, lifecycle, settings_check};
use crate::engine::Shared;
use crate::failure::{cause, failure};
use crate::inspect::{Hook, LIFECYCLE};
use crate::limits::Budget;
use crate::load::Loaded;
use crate::settings::{Refused, SettingsWarning, refused, warnings};
use crate::state::State;
use crate::ticker::TICK_MS;

/// Where a component's functions are, looked up once a component.
pub(crate) struct Indices {
    lifecycle: lifecycle::GuestIndices,
    call_policy: Option<call_policy::GuestIndices>,
    catalog_policy: Option<catalog_policy::GuestIndices>,
    settings_check: Option<settings_check::GuestIndices>,
}

/// An interface that is not the one of its name.
#[derive(Debug)]
pub(crate) struct Misfit {
    pub(crate) interface: &'static str,
    pub(crate) cause: String,
}

impl Misfit {
    fn of(interface: &'static str) -> impl FnOnce(wasmtime::Error) -> Self {
        move |error| Self { interface, cause: cause(&error) }
    }
}

impl Indices {
    pub(crate) fn new(pre: &InstancePre<State>, has: impl Fn(Hook) -> bool) -> Result<Self, Misfit> {
        macro_rules! hook {
            ($hook:ident, $module:ident) => {
                has(Hook::$hook)
                    .then(|| $module::GuestIndices::new(pre).map_err(Misfit::of(Hook::$hook.interface())))
                    .transpose()?
            };
        }
        Ok(Self {
            lifecycle: lifecycle::GuestIndices::new(pre).map_err(Misfit::of(LIFECYCLE))?,
            call_policy: hook!(CallPolicy, call_policy),
            catalog_policy: hook!(CatalogPolicy, catalog_policy),
            settings_check: hook!(SettingsCheck, settings_check),
        })
    }
}

/// One instance, with the functions that the host calls.
pub(crate) struct Instance {
    store: Store<State>,
    lifecycle: lifecycle::Guest,
    call_policy: Option<call_policy::Guest>,
    /// Linear memory in use once it was configured.
    memory_bytes_at_rest: usize,
    _place: Place,
}

/// What an instance says of one call.
pub(crate) struct Said {
    pub(crate) answer: Answer,
    /// It would say the same whatever the arguments, and wrote nothing.
    pub(crate) holds_for_any_arguments: bool,
}

/// Why there is no instance.
#[derive(Debug)]
pub(crate) enum Stillborn {
    Failed(Failure),
    Misfit(Misfit),
}

/// Why an instance is not configured.
#[derive(Debug)]
pub(crate) enum Unconfigured {
    Failed(Failure),
    Refused(Refused),
}

impl Instance {
    /// Instantiates a component and binds every hook it has. That runs its start functions, but no hook.
    pub(crate) fn new(plugin: &Loaded, name: &str) -> Result<Self, Stillborn> {
        let Loaded { shared, limits, pre, indices, .. } = plugin;
        let place = shared.places.take().ok_or(Stillborn::Failed(Failure::Overload))?;
        let mut store = Store::new(&shared.engine, State::new(limits));
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(limits.output_bytes);
        let instance = enter(plugin, &mut store, name, None, limits.configure(), |store| pre.instantiate(store))
            .map_err(not_an_answer)?;

        macro_rules! load {
            ($indices:expr, $interface:expr) => {
                $indices.load(&mut store, &instance).map_err(Misfit::of($interface)).map_err(Stillborn::Misfit)
            };
        }
        let lifecycle = load!(indices.lifecycle, LIFECYCLE)?;
        let call_policy =
            indices.call_policy.as_ref().map(|hook| load!(hook, Hook::CallPolicy.interface())).transpose()?;
        // The host has no use for these two yet, but a hook that does not fit its name must not come to light one day later.
        if let Some(hook) = &indices.catalog_policy {
            load!(hook, Hook::CatalogPolicy.interface())?;
        }
        if let Some(hook) = &indices.settings_check {
            load!(hook, Hook::SettingsCheck.interface())?;
        }
        Ok(Self { store, lifecycle, call_policy, memory_bytes_at_rest: 0, _place: place })
    }

    /// Gives it its settings: once, before anything else.
    pub(crate) fn configure(
        &mut self,
        plugin: &Loaded,
        name: &str,
        settings: &str,
    ) -> Result<Vec<SettingsWarning>, Unconfigured> {
        let Self { store, lifecycle, .. } = self;
        let said = enter(plugin, store, name, None, plugin.limits.configure(), |store| {
            lifecycle.call_configure(store, settings)
        });
        self.memory_bytes_at_rest = self.store.data().meter.memory_bytes();
        let bad = |Broken(what)| Unconfigured::Failed(Failure::BadAnswer(what));
        match said.map_err(Unconfigured::Failed)? {
            Ok(said) => warnings(said).map_err(bad),
            Err(said) => Err(refused(said).map_or_else(bad, Unconfigured::Refused)),
        }
    }

    /// Asks it about one call. A plugin without that hook has nothing to say.
    pub(crate) fn decide(&mut self, plugin: &Loaded, name: &str, call: &Call) -> Result<Said, Failure> {
        let Self { store, call_policy: Some(hook), .. } = self else {
            return Ok(Said { answer: ABSTENTION, holds_for_any_arguments: true });
        };
        let texts = Texts::of(call);
        let decision = enter(plugin, store, name, Some(call), plugin.limits.call(), |store| {
            hook.call_decide(store, texts.call(call))
        })?;
        // What it writes for one call is about that call, whatever it claims.
        let holds_for_any_arguments = decision.any_arguments && store.data().log.was_silent();
        Ok(Said { answer: answer(decision)?, holds_for_any_arguments })
    }

    /// How much of the fuel of the last entry is left.
    pub(crate) fn fuel_left(&self) -> u64 {
        self.store.get_fuel().unwrap_or(0)
    }

    /// How far its memory has grown since it was configured. WebAssembly memory never shrinks.
    pub(crate) fn growth_bytes(&self) -> usize {
        self.store.data().meter.memory_bytes().saturating_sub(self.memory_bytes_at_rest)
    }
}

/// No hook was asked, so whatever is neither a trap nor a limit is something about the component itself.
fn not_an_answer(failure: Failure) -> Stillborn {
    Stillborn::Failed(match failure {
        Failure::BadAnswer(cause) => Failure::NotReady(cause),
        other => other,
    })
}

const ABSTENTION: Answer =
    Answer { verdict: callgate_core::verdict::Verdict::Abstain, rule: None, notes: Vec::new(), charges: Vec::new() };

/// Enters a store with `budget` armed, and afterwards hands on what the plugin wrote.
fn enter<T>(
    plugin: &Loaded,
    store: &mut Store<State>,
    name: &str,
    call: Option<&Call>,
    budget: Budget,
    entry: impl FnOnce(&mut Store<State>) -> wasmtime::Result<T>,
) -> Result<T, Failure> {
    let Shared { ticker, log: sink, .. } = &*plugin.shared;
    store.set_fuel(budget.fuel).map_err(|error| failure(&error, budget, None))?;
    // The tick under way counts for one, hence one more: a deadline is never short, and at most a tick long.
    store.set_epoch_deadline(u64::from(budget.deadline_ms.div_ceil(TICK_MS)) + 1);
    let inside = ticker.enter();
    let result = entry(store);
    drop(inside);
    let log = &mut store.data_mut().log;
    let result = result.map_err(|error| failure(&error, budget, log.last_error()));
    log.deliver(&**sink, name, call);
    result
}

/// The texts of a call that are not in it as text.
struct Texts<'a> {
    attributes: Vec<types::Attribute<'a>>,
    definition: Option<Hex>,
    arguments: Hex,
}

impl<'a> Texts<'a> {
    fn of(call: &'a Call) -> Self {
        let attribute = |attribute: &'a callgate_core::identity::Attribute| types::Attribute {
            name: &attribute.name,
            value: &attribute.value,
        };
        Self {
            attributes: call.caller.attributes.iter().map(attribute).collect(),
            definition: call.listed.as_ref().map(|listed| listed.definition.hex()),
            arguments: call.arguments.digest().hex(),
        }
    }

    fn call(&'a self, call: &'a Call) -> types::Call<'a> {
        let caller = &*call.caller;
        types::Call {
            caller: types::Caller {
                agent: caller.agent.as_ref().map(|agent| types::Agent {
                    id: &agent.id,
                    name: agent.name.as_str(),
                    evidence: &agent.evidence,
                }),
                client: &caller.client,
                server: types::Server { id: &caller.server.id, name: caller.server.name.as_str() },
                attributes: &self.attributes,
            },
            tool: types::Tool {
                name: &call.tool,
                annotations: call.listed.as_ref().and_then(|listed| listed.annotations).map(annotations),
                definition_digest: self.definition.as_ref().map(Hex::as_str),
            },
            arguments: call.arguments.text(),
            arguments_digest: self.arguments.as_str(),
        }
    }
}

fn annotations(annotations: Annotations) -> types::Annotations {
    let Annotations { read_only, destructive, idempotent, open_world } = annotations;
    types::Annotations { read_only, destructive, idempotent, open_world }
}

/// Places for instances, over all plugins.
pub(crate) struct Places {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// An instance's place, free again when it goes.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { taken: Arc::default(), max }
    }

    fn take(&self) -> Option<Place> {
        let one_more = |taken: usize| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Place(Arc::clone(&self.taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_instance_goes() {
        let places = Places::new(2);
        let (first, second) = (places.take(), places.take());
        assert!(first.is_some() && second.is_some() && places.take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }
}
