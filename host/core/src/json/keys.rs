//! The keys of the objects that are open, and whether one stands there twice.

use std::cmp::Ordering;

use super::text::{Piece, pieces};

/// Where a string stands in the text, without its quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StringSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Whether it holds a backslash.
    pub(crate) escaped: bool,
}

impl StringSpan {
    /// The string as it is spelled.
    pub(crate) fn raw(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).expect("a string ends on a character border")
    }
}

/// Up to so many keys are compared pair by pair, which beats sorting; more are sorted, so that no object is quadratic.
const PAIRWISE_MAX: usize = 12;

/// The first key found in `keys` that spells the same text as another. May reorder `keys`.
pub(super) fn repeated(keys: &mut [StringSpan], text: &str) -> Option<StringSpan> {
    if keys.len() <= PAIRWISE_MAX {
        return pairwise(keys, text);
    }
    keys.sort_unstable_by(|a, b| compare(*a, *b, text));
    keys.windows(2).find(|pair| compare(pair[0], pair[1], text) == Ordering::Equal).map(|pair| pair[1])
}

fn pairwise(keys: &[StringSpan], text: &str) -> Option<StringSpan> {
    let repeats =
        |(index, key): (usize, &StringSpan)| keys.iter().take(index).any(|earlier| same(*earlier, *key, text));
    keys.iter().enumerate().find(|&(index, key)| repeats((index, key))).map(|(_, key)| *key)
}

fn same(a: StringSpan, b: StringSpan, text: &str) -> bool {
    if a.escaped || b.escaped {
        return compare(a, b, text) == Ordering::Equal;
    }
    a.end - a.start == b.end - b.start && a.raw(text) == b.raw(text)
}

/// Compares what two keys spell, by code point.
pub(crate) fn compare(a: StringSpan, b: StringSpan, text: &str) -> Ordering {
    if a.escaped || b.escaped { spelled(a.raw(text)).cmp(spelled(b.raw(text))) } else { a.raw(text).cmp(b.raw(text)) }
}

/// The characters that `raw` spells, without copying them. A lone surrogate counts as U+FFFD.
fn spelled(raw: &str) -> impl Iterator<Item = char> {
    pieces(raw).flat_map(|piece| {
        let (plain, escaped) = match piece {
            Piece::Plain(plain) => (plain, None),
            Piece::Escaped(character) => ("", Some(character)),
            Piece::LoneSurrogate(_) => ("", Some(char::REPLACEMENT_CHARACTER)),
        };
        plain.chars().chain(escaped)
    })
}
