//! JSON's grammar (RFC 8259), read strictly and in place: what the reader, the canonical form and the summary share.
//!
//! Nothing here builds a tree or copies a value; it tells where things stand in the text. It must never be more lenient
//! than the grammar: whatever it takes, every parser takes.

mod keys;
mod scanner;
mod text;

use std::borrow::Cow;

pub(crate) use keys::{StringSpan, compare};
pub(crate) use scanner::{Fault, Finding, LineBreaks, Repeats, Scanner};
pub(crate) use text::{decode, is_well_formed, write_canonical};

/// How deep a document may be nested: what common parsers allow, and far more than any tool's arguments need.
pub(crate) const DEPTH_MAX: usize = 128;

/// How deep a document that is refused for its depth is still read, so that its id can be found and answered. Bounds the
/// stack of open containers to a few kilobytes.
pub(crate) const DEPTH_SCANNED_MAX: usize = 1024;

/// The longest text that is read, bytes: positions are kept as 32-bit numbers.
pub(crate) const TEXT_BYTES_MAX: usize = u32::MAX as usize;

/// The members of the one JSON object that `text` is, in its order: keys decoded, values as JSON text.
pub(crate) fn members(text: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut scanner = Scanner::new(text, LineBreaks::Allowed)?;
    read_members(&mut scanner).ok()
}

fn read_members<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<(Cow<'a, str>, &'a str)>, Box<Fault>> {
    let mut members = Vec::new();
    scanner.blank()?;
    let mut next = scanner.enter_object(Repeats::Ignored)?;
    while let Some(key) = next {
        members.push((scanner.spelled(key), scanner.value(Repeats::Ignored)?));
        next = scanner.next_key(Repeats::Ignored)?;
    }
    scanner.end()?;
    Ok(members)
}
