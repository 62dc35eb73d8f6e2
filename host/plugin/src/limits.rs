//! What a plugin may use. There is no `Default`: whoever builds an engine says which limits hold.

use callgate_core::call::ARGUMENT_BYTES_JUDGED_MAX;

/// What one plugin instance may use, and how many there may be. Every value is always in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Fuel for one call, about one unit a WebAssembly instruction. What decides whether a plugin is too slow, so that a
    /// replay on another machine agrees.
    pub fuel: u64,
    /// Time for one call. A failure of the host, not of the plugin: fuel is meant to run out first.
    pub deadline_ms: u32,
    /// Fuel for instantiating, and again for `configure`.
    pub configure_fuel: u64,
    /// Time for instantiating, and again for `configure`.
    pub configure_deadline_ms: u32,
    /// Linear memory of one instance, all its memories together.
    pub memory_bytes: usize,
    /// Table elements of one instance, all its tables together.
    pub table_elements: usize,
    /// Core instances in one component: the glue of JavaScript and Python toolchains makes dozens.
    pub core_instances: u32,
    /// Log lines that one call may write; more are dropped and counted.
    pub log_lines: usize,
    /// Bytes of log text that one call may write; more is dropped and counted.
    pub log_bytes: usize,
    /// Bytes that the host takes over from a plugin in one go: an answer, or one log line.
    pub output_bytes: usize,
    /// Bytes of arguments that a plugin is shown; a larger call is refused before any plugin sees it.
    pub argument_bytes: usize,
    /// Bytes of a settings document.
    pub settings_bytes: usize,
    /// Instances alive at once over all plugins, idle ones included. The pool holds a few more, so that it is this limit
    /// that is met, with a typed failure.
    pub instances: usize,
}

impl Limits {
    /// As shipped.
    pub const SHIPPED: Self = Self {
        // Runs out within some 60 ms of the tightest loop, so before the deadline on any machine that is not starved;
        // the shipped rules use about 30 thousand.
        fuel: 50_000_000,
        deadline_ms: 100,
        // Ten thousand rules take about 60 million, as many grants or budgets as there may be one thousand million at most.
        configure_fuel: 2_000_000_000,
        // All that fuel lasts for 3 s; a machine that is busy may take three times as long.
        configure_deadline_ms: 10_000,
        memory_bytes: 64 << 20,
        table_elements: 20_000,
        core_instances: 100,
        log_lines: 32,
        log_bytes: 16 << 10,
        // 64 notes, 64 charges and a rule, every text at its longest, take about 200 KiB.
        output_bytes: 256 << 10,
        argument_bytes: ARGUMENT_BYTES_JUDGED_MAX,
        settings_bytes: 16 << 20,
        instances: 128,
    };
}

/// What one entry into a plugin may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) fuel: u64,
    pub(crate) deadline_ms: u32,
}

impl Limits {
    pub(crate) const fn call(&self) -> Budget {
        Budget { fuel: self.fuel, deadline_ms: self.deadline_ms }
    }

    pub(crate) const fn configure(&self) -> Budget {
        Budget { fuel: self.configure_fuel, deadline_ms: self.configure_deadline_ms }
    }
}
