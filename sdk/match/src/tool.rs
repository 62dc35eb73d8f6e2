//! Tool patterns: an exact name, or a glob in which `*` and `?` cross every character.

mod index;
mod meet;

pub use index::ToolIndex;

use std::fmt;

use crate::error::PatternError;

/// The longest tool pattern, in bytes. Tool names in use stay below 128; a name somebody must deny exactly may be odd.
pub const TOOL_PATTERN_BYTES_MAX: usize = 1024;

/// A tool's exact name, or a glob: `*` stands for any text, the empty one included, `?` for exactly one character. Both
/// cross every character, `/` and line breaks too. There is no escape and no class: every other character is itself.
/// Case-sensitive.
///
/// ```
/// use callgate_match::ToolPattern;
///
/// let pattern = ToolPattern::parse("read_*")?;
/// assert!(pattern.is_glob());
/// assert!(pattern.matches("read_file"));
/// assert!(!pattern.matches("Read_file"));
/// # Ok::<(), callgate_match::PatternError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ToolPattern(Box<str>);

impl ToolPattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > TOOL_PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { bytes: text.len(), bytes_max: TOOL_PATTERN_BYTES_MAX });
        }
        Ok(Self(text.into()))
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it holds a wildcard; otherwise it is one exact name.
    pub fn is_glob(&self) -> bool {
        self.0.contains(['*', '?'])
    }

    /// Whether it matches the tool's bare name. Takes at most name × pattern steps.
    pub fn matches(&self, name: &str) -> bool {
        fits(&self.0, name, |wanted, given| wanted == '?' || wanted == given)
    }

    /// Whether it matches every name that the other matches. Never wrongly so; of two globs it may miss it, as it compares
    /// them as they are written.
    pub fn covers(&self, other: &Self) -> bool {
        if !other.is_glob() {
            return self.matches(&other.0);
        }
        fits(&self.0, &other.0, |wanted, given| wanted == given || (wanted == '?' && given != '*'))
    }

    /// Whether some name matches both. Takes at most pattern × pattern steps.
    pub fn overlaps(&self, other: &Self) -> bool {
        if !other.is_glob() {
            return self.matches(&other.0);
        }
        if !self.is_glob() {
            return other.matches(&self.0);
        }
        meet::meet(&self.0, &other.0)
    }
}

/// Whether a pattern matches a text whole, a character of the one fitting a character of the other as told.
fn fits(pattern: &str, text: &str, fits: impl Fn(char, char) -> bool) -> bool {
    // The last `*` seen can be made to swallow one character more; an earlier one never needs to.
    let (mut pattern, mut rest) = (pattern.chars(), text.chars());
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (before, mut ahead) = (rest.clone(), pattern.clone());
        match (ahead.next(), rest.next()) {
            (Some('*'), _) => {
                rest = before.clone();
                pattern = ahead;
                retry = Some((pattern.clone(), before));
                continue;
            }
            (Some(wanted), Some(given)) if fits(wanted, given) => {
                pattern = ahead;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((after_star, swallowed)) = &mut retry else { return false };
        if swallowed.next().is_none() {
            return false;
        }
        pattern = after_star.clone();
        rest = swallowed.clone();
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        ToolPattern::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn wildcards_cross_every_character() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "a/b\nc"),
            ("a*", "a"),
            ("a*c", "a/b/c"),
            ("a?c", "a/c"),
            ("a?c", "a\u{1F600}c"),
            ("?", "é"),
            ("*_file", "read_file"),
            ("*a*b", "xaxxab"),
            ("a**b", "ab"),
            ("*?", "x"),
            ("[a]", "[a]"),
            (r"\*", r"\x"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn everything_else_is_itself() {
        for (pattern, name) in [
            ("a", "A"),
            ("a", "a "),
            ("a", "ab"),
            ("ab", "a"),
            ("?", ""),
            ("?", "ab"),
            ("*?", ""),
            ("[a]", "a"),
            ("a*b", "abc"),
            ("*_file", "read_files"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn only_a_wildcard_makes_a_glob() {
        assert!(ToolPattern::parse("a*").unwrap().is_glob());
        assert!(ToolPattern::parse("a?").unwrap().is_glob());
        assert!(!ToolPattern::parse("a[b]").unwrap().is_glob());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        assert_eq!(ToolPattern::parse(""), Err(PatternError::Empty));
        let long = "x".repeat(TOOL_PATTERN_BYTES_MAX + 1);
        assert_eq!(ToolPattern::parse(&long), Err(PatternError::TooLong { bytes: 1025, bytes_max: 1024 }));
        assert!(ToolPattern::parse(&"x".repeat(TOOL_PATTERN_BYTES_MAX)).is_ok());
    }
}
