//! What becomes of the clients' files, seen from outside.
#![expect(clippy::unwrap_used, clippy::panic, clippy::string_slice, reason = "a test fails by panicking")]

mod awkward;
mod files;
mod fixture;
mod forms;
mod places;
mod properties;
