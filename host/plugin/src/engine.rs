//! The engine that every plugin runs on: how code is compiled, where instances live, what stops them.

use std::io;
use std::sync::Arc;

use callgate_core::digest::Digest;
use wasmtime::component::Linker;
use wasmtime::{Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy, WasmBacktraceDetails};

use crate::cache::{Cache, compatibility};
use crate::compile::Bench;
use crate::instance::Places;
use crate::limits::Limits;
use crate::load::{LoadError, Plugin, load};
use crate::log::{LogSink, provide};
use crate::pool::Maker;
use crate::state::{MEMORIES_MAX, State, TABLES_MAX};
use crate::ticker::Ticker;

/// How many more instances than [`Limits::instances`] the pool holds, so that the typed limit is met first: instances that
/// are being torn down have left their place and not yet the pool.
const SPARE_INSTANCES: usize = 16;

/// Linear memory that stays resident in a slot of the pool between instances: what the guests of Rust use at rest. Clearing
/// it costs less than mapping it anew (16.8 against 35 µs a fresh instance).
const MEMORY_BYTES_RESIDENT: usize = 256 << 10;
/// The same for tables.
const TABLE_BYTES_RESIDENT: usize = 16 << 10;
/// How many slots of other components stay warm before one is reused: each costs [`MEMORY_BYTES_RESIDENT`].
const WARM_SLOTS_MAX: u32 = 16;

/// Stack that a plugin may use of the thread that asks it. Rust's own default for a thread, 2 MiB, leaves room for the host.
const STACK_BYTES_MAX: usize = 512 << 10;

/// The engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The WebAssembly engine refuses its configuration, or this machine.
    #[error("the WebAssembly engine cannot be set up: {0}")]
    Engine(String),
    /// A thread could not be started.
    #[error("a thread for plugins cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// What plugins are loaded into. Cheap to clone; the last clone, plugin or instance to go stops its threads.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) limits: Limits,
    pub(crate) cache: Option<Cache>,
    pub(crate) compatibility: Digest,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) bench: Arc<Bench>,
    pub(crate) places: Places,
    pub(crate) ticker: Ticker,
    pub(crate) maker: Maker,
    has_pool: bool,
}

impl Engine {
    /// An engine with these limits. Without a cache every load compiles; `log` takes what plugins write.
    pub fn new(limits: Limits, cache: Option<Cache>, log: Arc<dyn LogSink>) -> Result<Self, EngineError> {
        let (engine, has_pool) = pooled_or_not(&limits).map_err(|error| EngineError::Engine(format!("{error:#}")))?;
        let mut linker = Linker::new(&engine);
        provide(&mut linker).map_err(|error| EngineError::Engine(format!("{error:#}")))?;
        let ticking = engine.clone();
        Ok(Self(Arc::new(Shared {
            compatibility: compatibility(&engine),
            bench: Arc::default(),
            places: Places::new(limits.instances),
            ticker: Ticker::start(move || ticking.increment_epoch())?,
            maker: Maker::start()?,
            engine,
            linker,
            limits,
            cache,
            log,
            has_pool,
        })))
    }

    /// Loads a component. Nothing of it runs before its sections were read and nothing in them is unknown.
    pub fn load(&self, component: &[u8]) -> Result<Plugin, LoadError> {
        load(&self.0, component)
    }

    /// Whether instances come from a pool reserved ahead of time. Without it, where address space is short, a fresh
    /// instance costs about three times as much; everything else is the same.
    pub fn has_pool(&self) -> bool {
        self.0.has_pool
    }
}

fn pooled_or_not(limits: &Limits) -> wasmtime::Result<(wasmtime::Engine, bool)> {
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    if let Ok(engine) = wasmtime::Engine::new(&config) {
        return Ok((engine, true));
    }
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    wasmtime::Engine::new(&config).map(|engine| (engine, false))
}

/// What code is compiled for, by whichever engine.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::Speed).parallel_compilation(true);
    config.wasm_component_model(true);
    // A verdict must not depend on the machine: fuel runs out at the same instruction everywhere, and the two places where
    // WebAssembly leaves a result open are closed.
    config.consume_fuel(true).cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
    config.epoch_interruption(true).max_wasm_stack(STACK_BYTES_MAX);
    // A plugin's own words come through `log`; addresses inside it help nobody who runs it, and cost at every trap.
    config.wasm_backtrace_max_frames(None).wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config.native_unwind_info(false).generate_address_map(false);
    config
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let instances = u32::try_from(limits.instances + SPARE_INSTANCES).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(limits.core_instances))
        .max_core_instances_per_component(limits.core_instances)
        .total_memories(instances.saturating_mul(2))
        .max_memories_per_component(MEMORIES_MAX)
        .max_memories_per_module(MEMORIES_MAX)
        .max_memory_size(limits.memory_bytes)
        .total_tables(instances.saturating_mul(4))
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(MEMORY_BYTES_RESIDENT)
        .table_keep_resident(TABLE_BYTES_RESIDENT)
        .max_unused_warm_slots(WARM_SLOTS_MAX);
    pool
}
