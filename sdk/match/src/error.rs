//! What can be wrong with a pattern, and where.

use std::fmt;

/// Why a text is not a pattern. Says what is wrong and where; [`hint`](Self::hint) says what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PatternError {
    /// Nothing at all, which would be a pattern for the empty text only.
    Empty,
    /// Longer than a pattern of its kind may be.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// What it may be.
        bytes_max: usize,
    },
    /// A `[` that no `]` closes.
    UnclosedClass {
        /// The byte at which the `[` stands.
        at: usize,
    },
    /// A class that holds `/`, which no path segment does.
    SlashInClass {
        /// The byte at which the class begins.
        at: usize,
    },
    /// A range such as `[z-a]`, which holds nothing.
    ReversedRange {
        /// The range's first character.
        from: char,
        /// The range's last character.
        to: char,
        /// The byte at which the class begins.
        at: usize,
    },
    /// A `..` segment in a pattern with a wildcard: what it leads to would depend on what the wildcard matched.
    ParentSegment {
        /// The byte at which the segment begins.
        at: usize,
    },
    /// A `.` or `..` segment in a URL pattern: a URL with one never matches.
    DotSegment {
        /// The byte at which the segment begins.
        at: usize,
    },
    /// A relative path that climbs above its start: it never matches.
    AboveStart,
    /// A relative path that resolves to nothing, such as `a/..`: it never matches.
    Nowhere,
    /// Not a regular expression, or one whose program would be too large; the reason in the engine's words.
    Regex(String),
}

impl PatternError {
    /// What to write instead, where that can be told from the error alone.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty => Some("write * to match everything"),
            Self::UnclosedClass { .. } => Some("close it with ], or write [[] for a literal ["),
            Self::SlashInClass { .. } => Some("write one pattern for each place where a / may stand"),
            Self::ReversedRange { .. } => Some("put the lower character first"),
            Self::ParentSegment { .. } | Self::AboveStart | Self::Nowhere => Some("write the path that it leads to"),
            Self::DotSegment { .. } => Some("write the address that it leads to"),
            Self::TooLong { .. } | Self::Regex(_) => None,
        }
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an empty pattern"),
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "a pattern of {bytes} bytes, where {bytes_max} is the most")
            }
            Self::UnclosedClass { at } => write!(f, "the [ at byte {at} is never closed"),
            Self::SlashInClass { at } => write!(f, "the class at byte {at} holds a /, which no segment does"),
            Self::ReversedRange { from, to, at } => {
                write!(f, "the class at byte {at} has the range {from}-{to}, which holds nothing")
            }
            Self::ParentSegment { at } => write!(f, "a .. segment at byte {at} beside a wildcard"),
            Self::DotSegment { at } => {
                write!(f, "a . or .. segment at byte {at} of a URL pattern, which therefore never matches")
            }
            Self::AboveStart => f.write_str("a relative path that climbs above its start, which never matches"),
            Self::Nowhere => f.write_str("a relative path that leads nowhere, which never matches"),
            Self::Regex(reason) => write!(f, "not a regular expression: {reason}"),
        }
    }
}

impl std::error::Error for PatternError {}
