//! Regular expressions, searched in the raw text.

use std::fmt;

use crate::error::PatternError;

/// The longest expression, in bytes.
pub const REGEX_BYTES_MAX: usize = 4096;

/// The largest compiled expression, in bytes: bounds the time that one character of text can cost.
pub const REGEX_PROGRAM_BYTES_MAX: usize = 256 * 1024;

/// How deep an expression may nest; a plugin's stack is small.
const NESTING_MAX: u32 = 50;

/// A regular expression, searched for anywhere in the text: its author anchors it. `.` does not match a line feed and `$`
/// matches only at the very end, unless the expression's own flags say otherwise. `\d`, `\s` and `\w` know ASCII only.
/// No look-around and no back-references: a search takes time linear in the text.
#[derive(Clone, Debug)]
pub struct Regex(regex_lite::Regex);

impl Regex {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > REGEX_BYTES_MAX {
            return Err(PatternError::TooLong { bytes: text.len(), bytes_max: REGEX_BYTES_MAX });
        }
        regex_lite::RegexBuilder::new(text)
            .size_limit(REGEX_PROGRAM_BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build()
            .map(Self)
            .map_err(|error| PatternError::Regex(error.to_string()))
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it occurs in the text.
    pub fn is_found_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl fmt::Display for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Regex {}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expression: &str, text: &str) -> bool {
        Regex::parse(expression).unwrap().is_found_in(text)
    }

    #[test]
    fn it_is_searched_for_anywhere() {
        assert!(found("DROP", "x DROP y"));
        assert!(!found("^DROP", "x DROP y"));
        assert!(found("", ""));
    }

    #[test]
    fn the_dollar_is_the_very_end_and_the_dot_stops_at_a_line_feed() {
        assert!(found("a$", "a"));
        assert!(!found("a$", "a\n"));
        assert!(!found("a.b", "a\nb"));
        assert!(found("(?s)a.b", "a\nb"));
        assert!(found("a.b", "a\rb"));
    }

    #[test]
    fn classes_are_ascii() {
        assert!(!found(r"^\d$", "٣"));
        assert!(!found(r"^\w$", "é"));
        assert!(found("^.$", "é"));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for bad in
            ["(", "[a", "a{2,1}", r"\p{Greek}", "(?=a)", r"(a)\1", "a{1000}{1000}", &"(".repeat(100), &"a".repeat(4097)]
        {
            assert!(Regex::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_search_takes_no_exponential_time() {
        assert!(!found("^(a|a)*(a+)+$", &format!("{}b", "a".repeat(5000))));
    }
}
