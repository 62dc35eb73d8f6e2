//! What the host keeps beside one instance: its meter and its log.

use wasmtime::ResourceLimiter;

use crate::limits::Limits;
use crate::log::LogBook;

/// A store's data.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) meter: Meter,
    pub(crate) log: LogBook,
}

impl State {
    pub(crate) const fn new(limits: &Limits) -> Self {
        Self { meter: Meter::new(limits), log: LogBook::new(limits) }
    }
}

/// Bytes that one table element takes in the host.
const TABLE_ELEMENT_BYTES: usize = 8;

/// How many linear memories one component may have. One is usual; some toolchains' adapters bring a second.
pub(crate) const MEMORIES_MAX: u32 = 4;

/// How many tables one component may have. Every core module with function pointers has one, the glue included.
pub(crate) const TABLES_MAX: u32 = 16;

/// Memory and table room over all memories and tables of an instance.
#[derive(Debug)]
pub(crate) struct Meter {
    memory_bytes: usize,
    memory_bytes_max: usize,
    table_elements: usize,
    table_elements_max: usize,
    core_instances_max: usize,
}

/// More room was asked for than there is. Typed, so that it is found by what it is and not by its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it asked for more than its limit of {limit_bytes} bytes")]
pub(crate) struct RoomSpent {
    pub(crate) limit_bytes: usize,
}

impl Meter {
    const fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes: 0,
            memory_bytes_max: limits.memory_bytes,
            table_elements: 0,
            table_elements_max: limits.table_elements,
            core_instances_max: limits.core_instances as usize,
        }
    }

    /// Linear memory in use.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// A refusal is an error and not `false`: it traps, where a grow instruction that fails would send a plugin into whatever its
/// allocator does without memory, and the cause would be lost.
impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, own_max: Option<usize>) -> wasmtime::Result<bool> {
        grow(&mut self.memory_bytes, self.memory_bytes_max, current, desired, own_max, 1)
    }

    fn table_growing(&mut self, current: usize, desired: usize, own_max: Option<usize>) -> wasmtime::Result<bool> {
        let max = self.table_elements_max;
        grow(&mut self.table_elements, max, current, desired, own_max, TABLE_ELEMENT_BYTES)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(error.context("the host has no memory for it"))
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(error.context("the host has no memory for its table"))
    }

    fn instances(&self) -> usize {
        self.core_instances_max
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX as usize
    }

    fn tables(&self) -> usize {
        TABLES_MAX as usize
    }
}

fn grow(
    used: &mut usize,
    used_max: usize,
    current: usize,
    desired: usize,
    own_max: Option<usize>,
    unit_bytes: usize,
) -> wasmtime::Result<bool> {
    let total = used.saturating_add(desired.saturating_sub(current));
    if total > used_max {
        return Err(RoomSpent { limit_bytes: used_max.saturating_mul(unit_bytes) }.into());
    }
    // Past what the module itself declared, growing fails by WebAssembly's own rule and is the plugin's to handle.
    if own_max.is_some_and(|max| desired > max) {
        return Ok(false);
    }
    *used = total;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_over_all_memories_of_an_instance() {
        let mut meter = Meter::new(&Limits { memory_bytes: 100, ..Limits::SHIPPED });
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(meter.memory_growing(0, 30, None).unwrap());
        let spent = meter.memory_growing(30, 41, None).unwrap_err();
        assert_eq!(spent.downcast_ref(), Some(&RoomSpent { limit_bytes: 100 }));
        assert!(!meter.memory_growing(30, 35, Some(34)).unwrap(), "its own maximum is not ours");
        assert_eq!(meter.memory_bytes(), 90);
    }

    #[test]
    fn table_room_is_told_in_bytes() {
        let mut meter = Meter::new(&Limits { table_elements: 10, ..Limits::SHIPPED });
        let spent = meter.table_growing(0, 11, None).unwrap_err();
        assert_eq!(spent.downcast_ref(), Some(&RoomSpent { limit_bytes: 80 }));
    }
}
