//! What went wrong inside a plugin, told by the kind of the engine's error and never by its text.

use callgate_core::escape::visible_up_to;
use callgate_core::verdict::Failure;
use wasmtime::{PoolConcurrencyLimitError, Trap};

use crate::limits::Budget;
use crate::state::RoomSpent;

/// The failure behind an error that came out of an entry with this `budget`. `last_words` is what the plugin's panic hook
/// wrote, if it wrote anything.
pub(crate) fn failure(error: &wasmtime::Error, budget: Budget, last_words: Option<&str>) -> Failure {
    if let Some(spent) = error.downcast_ref::<RoomSpent>() {
        return Failure::Memory { limit_bytes: spent.limit_bytes as u64 };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Failure::Overload;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => Failure::Deadline { limit_ms: budget.deadline_ms.into() },
        Some(Trap::OutOfFuel) => Failure::Fuel { limit: budget.fuel },
        Some(Trap::UnreachableCodeReached) => Failure::Trap(
            last_words.map_or_else(|| "it stopped itself (`unreachable`) without saying why".to_owned(), shown),
        ),
        Some(Trap::StackOverflow) => Failure::Trap("its stack ran out".to_owned()),
        Some(trap) => Failure::Trap(shown(&trap.to_string())),
        // What is neither a limit nor a trap is a value that cannot be lifted: text that is not UTF-8, a case that does not
        // exist, a list that reaches out of memory, more bytes than the host takes over.
        None => Failure::BadAnswer(cause(error)),
    }
}

/// How much of a component's or the engine's own text is shown.
const SHOWN_CHARS_MAX: usize = 400;

/// Text that a component wrote, or had a part in, fit to be shown.
pub(crate) fn shown(text: &str) -> String {
    visible_up_to(text.trim(), SHOWN_CHARS_MAX)
}

/// An error of the engine with all its causes, fit to be shown.
pub(crate) fn cause(error: &wasmtime::Error) -> String {
    shown(&format!("{error:#}"))
}
