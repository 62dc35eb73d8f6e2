//! Value patterns: what an argument may be.

mod glob;
mod path;
mod url;

use std::fmt;

use crate::error::PatternError;
use crate::regex::Regex;
use glob::Glob;

/// The longest value pattern, in bytes: a path may take 4,096.
pub const VALUE_PATTERN_BYTES_MAX: usize = 4096;

/// What stands before a regular expression.
const REGEX_PREFIX: &str = "re:";

/// What separates a URL's scheme from its authority.
const SCHEME_END: &str = "://";

/// A pattern for an argument's value.
///
/// - `re:` and a [`Regex`]: searched in the raw value.
/// - Without a wildcard (`*`, `?`, `[`): equal.
/// - Otherwise a glob over the whole value. `*` (any text, also none), `?` (one character), `[a-z]` and `[!a-z]` stay inside
///   one `/`-separated segment. A segment that is exactly `**` crosses any number of segments, also none; at the end of a
///   pattern it needs a non-empty segment below it, and alone it matches everything. In a class a `]` that comes first and a
///   `-` that comes first or last are literal; `^`, `{`, `}` and `\` are literal everywhere. Case-sensitive.
///
/// A pattern with `/` and no `://` is a path pattern: it and the value are read as paths first. `.`, `..`, doubled and
/// trailing separators are resolved; an absolute path never climbs above its root, and a relative one that climbs above its
/// start or leads nowhere matches nothing.
///
/// A pattern with `://` is a URL pattern: the value is taken as it is. One with a `.` or `..` segment, as written or as a URL
/// parser would find it (`%2e`, `\` for `/`, line breaks and tabs left out), matches nothing, and in the authority (the
/// segment after `://`) no wildcard matches `?`, `#`, `@` or `\`.
///
/// Any other glob matches neither `.` nor `..`.
///
/// ```
/// use callgate_match::ValuePattern;
///
/// let pattern = ValuePattern::parse("/home/user/projects/**")?;
/// assert!(pattern.matches_text("/home/user/projects/a/b.rs"));
/// assert!(!pattern.matches_text("/home/user/projects/../secrets"));
/// # Ok::<(), callgate_match::PatternError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValuePattern {
    text: Box<str>,
    form: Form,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    Regex(Regex),
    Exact(Reading, Box<str>),
    Glob(Reading, Glob),
}

/// What a pattern takes a value for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    Path,
    Url,
    Text,
}

impl ValuePattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let form = match text.strip_prefix(REGEX_PREFIX) {
            Some(expression) => Form::Regex(Regex::parse(expression)?),
            None => Form::parse(text)?,
        };
        Ok(Self { text: text.into(), form })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches the text of a JSON string, decoded.
    pub fn matches_text(&self, value: &str) -> bool {
        match &self.form {
            Form::Regex(regex) => regex.is_found_in(value),
            Form::Exact(Reading::Path, path) => {
                path::resolve(value).is_ok_and(|segments| segments.into_iter().eq(path.split('/')))
            }
            Form::Exact(Reading::Url, url) => **url == *value,
            Form::Exact(Reading::Text, text) => **text == *value,
            Form::Glob(Reading::Path, glob) => path::resolve(value).is_ok_and(|segments| glob.matches(&segments)),
            Form::Glob(Reading::Url, glob) => {
                !url::has_dot_segment(value) && glob.matches_url(&segments(value), url::authority_segment(value))
            }
            Form::Glob(Reading::Text, glob) => !matches!(value, "." | "..") && glob.matches(&segments(value)),
        }
    }

    /// Whether it matches a JSON value that is no string, given as its compact JSON text: never read as a path or a URL.
    pub fn matches_json(&self, text: &str) -> bool {
        match &self.form {
            Form::Regex(regex) => regex.is_found_in(text),
            Form::Exact(_, exact) => **exact == *text,
            Form::Glob(_, glob) => glob.matches(&segments(text)),
        }
    }
}

impl Form {
    fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > VALUE_PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { bytes: text.len(), bytes_max: VALUE_PATTERN_BYTES_MAX });
        }
        let reading = match text {
            url if url.contains(SCHEME_END) => Reading::Url,
            path if path.contains('/') => Reading::Path,
            _ => Reading::Text,
        };
        if text.contains(['*', '?', '[']) {
            return Ok(Self::Glob(reading, Glob::parse(text, reading)?));
        }
        match reading {
            Reading::Path => Ok(Self::Exact(reading, path::resolve(text)?.join("/").into())),
            Reading::Url if url::has_dot_segment(text) => {
                Err(PatternError::DotSegment { at: url::dot_segment_at(text) })
            }
            Reading::Url | Reading::Text => Ok(Self::Exact(reading, text.into())),
        }
    }
}

impl fmt::Display for ValuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn segments(value: &str) -> Vec<&str> {
    value.split('/').collect()
}
