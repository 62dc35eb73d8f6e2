//! Write a Callgate policy plugin in Rust.
//!
//! A plugin is a [`Policy`]: made from its settings, asked about calls. [`export!`] makes the crate a WebAssembly component
//! with its manifest inside, built by cargo alone for `wasm32-unknown-unknown`. The same policy is unit-tested natively
//! through [`testing`], with no WebAssembly at hand. Patterns with the meaning they have everywhere in Callgate are in
//! [`matching`], and what settings mean by an argument's name is in [`arguments`].
//!
//! A component made with this crate imports nothing but the contract (`callgate:policy`), so it can do nothing but answer
//! and log.

pub mod arguments;
#[doc(hidden)]
pub mod bindings;
pub mod bounds;
mod call;
mod decision;
mod export;
#[doc(hidden)]
pub mod guest;
pub mod log;
#[doc(hidden)]
pub mod manifest;
mod name;
mod pointer;
mod policy;
pub mod settings;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use callgate_match as matching;

pub use bindings::callgate::policy::types::{
    Agent, Annotations, Attribute, Calendar, CalendarUnit, Caller, Charge, Denial, Occasion, Question, Retry, Rule,
    Server, Subject, Tool, Verdict, Visibility, Window,
};
pub use bindings::exports::callgate::policy::lifecycle::{SettingsError, SettingsWarning};
pub use call::Call;
pub use decision::Decision;
pub use name::{NAME_BYTES_MAX, NAME_FORM, is_name};
pub use pointer::Pointer;
pub use policy::{Policy, SettingsErrors};
