//! What is wrong with a settings document, gathered from the inside out.

use std::fmt;

use serde::de::{Expected, Unexpected};

use crate::{Pointer, SettingsError};

/// One step of the way to what is wrong.
#[derive(Debug)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// What is wrong, and where, the innermost step first.
#[derive(Debug)]
pub(super) struct Fault {
    message: String,
    hint: Option<String>,
    steps: Vec<Step>,
}

impl Fault {
    fn new(message: String) -> Self {
        Self { message, hint: None, steps: Vec::new() }
    }

    pub(super) fn repeated(key: &str) -> Self {
        Self::new(format!("the key `{key}` stands here twice"))
    }

    /// The same fault, seen from one level further out.
    pub(super) fn inside(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub(super) fn into_error(self) -> SettingsError {
        let path = self.steps.iter().rev().fold(Pointer::root(), |pointer, step| match step {
            Step::Key(key) => pointer.key(key),
            Step::Index(index) => pointer.index(*index),
        });
        SettingsError { path: path.into(), message: self.message, hint: self.hint }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("{} stands here, where {} belongs", Found(found), expectation(expected)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("{length} elements stand here, where {expected} belongs"))
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        let hint = nearest(variant, known).or_else(|| listed("values", known));
        Self { hint, ..Self::new(format!("`{variant}` is none of the values here")) }
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        let hint = nearest(key, known).or_else(|| listed("keys", known));
        Self { hint, ..Self::new(format!("the key `{key}` is not known here")) }
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(format!("the key `{key}` is missing"))
    }

    fn duplicate_field(key: &'static str) -> Self {
        Self::repeated(key)
    }
}

/// What stands in the document, in JSON's words rather than in serde's.
struct Found<'a>(Unexpected<'a>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Unexpected::Bool(true) => "true",
            Unexpected::Bool(false) => "false",
            Unexpected::Unsigned(value) => return write!(f, "{value}"),
            Unexpected::Signed(value) => return write!(f, "{value}"),
            // Not the number itself: writing floats is a tenth of a plugin's code.
            Unexpected::Float(_) => "a number with a fraction or exponent",
            Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Bytes(_) => "a string",
            Unexpected::Unit | Unexpected::Option => "null",
            Unexpected::Seq => "a list",
            Unexpected::Map => "an object",
            _ => "something else",
        })
    }
}

/// What belongs there, in JSON's words where serde says it in Rust's.
fn expectation(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "a boolean" => "true or false".to_owned(),
        struct_of if struct_of.starts_with("struct ") => "an object".to_owned(),
        _ => text,
    }
}

/// For each so many characters of a word, one may be a slip.
const CHARS_PER_SLIP: usize = 3;

/// The known word that was probably meant.
fn nearest(word: &str, known: &[&str]) -> Option<String> {
    known
        .iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(slips, candidate)| *slips <= candidate.len().div_ceil(CHARS_PER_SLIP))
        .min()
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

fn listed(what: &str, known: &[&str]) -> Option<String> {
    if known.is_empty() {
        return None;
    }
    let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    Some(format!("the {what} here are {}", known.join(", ")))
}
