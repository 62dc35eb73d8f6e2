//! Lines for the operator. They reach no agent and change no answer; the host drops and counts what is over its bound.

pub use crate::bindings::callgate::policy::log::Level;

/// Writes a line.
pub fn write(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::callgate::policy::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::keep_log(level, message);
}

/// Writes a line for the plugin's author.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Writes a line for whoever is looking.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Writes a line that the operator should look at some day.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Writes a line that the operator should look at now.
pub fn error(message: &str) {
    write(Level::Error, message);
}
