//! The matchers that every policy shares, so that one pattern means one thing wherever it is written.
//!
//! Patterns are read once, when settings are written or loaded, and a malformed one is an error there: never a pattern that
//! quietly matches nothing. Matching allocates little, never fails and takes time polynomial in the pattern and the text
//! (no exponential backtracking), which matters because the text comes from an agent.
//!
//! - [`ToolPattern`]: an exact tool name, or a glob in which `*` and `?` cross every character.
//! - [`ToolIndex`]: many tool patterns at once, at the cost of those that can match.
//! - [`ValuePattern`]: what an argument may be: a path, a URL, other text, or `re:` and a regular expression.
//! - [`Regex`]: a regular expression searched in the raw text.
//!
//! No I/O, no clock, no randomness; the same answer natively and in WebAssembly.
#![forbid(unsafe_code)]

mod error;
mod regex;
mod tool;
mod value;

pub use error::PatternError;
pub use regex::{REGEX_BYTES_MAX, REGEX_PROGRAM_BYTES_MAX, Regex};
pub use tool::{TOOL_PATTERN_BYTES_MAX, ToolIndex, ToolPattern};
pub use value::{VALUE_PATTERN_BYTES_MAX, ValuePattern};
