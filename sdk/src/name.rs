//! The form that operators' names for agents and servers have.

/// The longest agent or server name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The form in words, for hints.
pub const NAME_FORM: &str = "1 to 64 letters, digits, `-`, `_` or `.`, with a letter or digit first and last";

/// Whether a text has the form of an agent's or server's name. A rule written against any other text could never fire.
///
/// ```
/// assert!(callgate_sdk::is_name("claude-code"));
/// assert!(!callgate_sdk::is_name("claude code"));
/// ```
pub fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= NAME_BYTES_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
