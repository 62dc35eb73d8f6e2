//! A call's arguments, as settings name them. Numbers keep the text they were written in.
//!
//! A name means the argument called exactly that. One with dots also means the way into objects: `payment.cents` is the
//! argument `payment.cents`, and `cents` in the object `payment`. Servers differ in which they read, so whoever judges looks
//! at both.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::matching::ValuePattern;

/// The arguments of one call.
///
/// ```
/// use callgate_sdk::arguments::Arguments;
///
/// let arguments = Arguments::read(r#"{"payment": {"cents": 1.0}, "to": "\u0061"}"#).unwrap();
/// let told = |name| arguments.named(name).map(|argument| argument.json().into_owned()).collect::<Vec<_>>();
/// assert_eq!(told("payment.cents"), ["1.0"]);
/// assert_eq!(told("to"), [r#""a""#]);
/// assert_eq!(told("from"), [""; 0]);
/// ```
#[derive(Debug)]
pub struct Arguments<'a>(Vec<(Text<'a>, &'a RawValue)>);

/// The value of one argument.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a>(&'a RawValue);

impl<'a> Arguments<'a> {
    /// Reads [`Call::arguments_json`](crate::Call::arguments_json); `None` for what is no JSON object, which the host shows no plugin.
    /// That no key stands twice is the host's promise as well, and not looked at again.
    pub fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// What a name means in this call: nothing, one value, or two.
    pub fn named(&self, name: &str) -> impl Iterator<Item = Argument<'a>> + use<'a> {
        [self.member(name), self.reached(name)].into_iter().flatten().map(Argument)
    }

    /// The value that a dotted name leads to.
    fn reached(&self, name: &str) -> Option<&'a RawValue> {
        let (first, rest) = name.split_once('.')?;
        rest.split('.').try_fold(self.member(first)?, |value, step| Self::read(value.get())?.member(step))
    }

    fn member(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(name, _)| name.0 == key).map(|(_, value)| *value)
    }
}

impl<'a> Argument<'a> {
    /// The text of a string, decoded; `None` for any other value.
    pub fn text(self) -> Option<Cow<'a, str>> {
        if !self.0.get().starts_with('"') {
            return None;
        }
        serde_json::from_str::<Text<'a>>(self.0.get()).ok().map(|text| text.0)
    }

    /// The value as compact JSON: no white space, strings with minimal escapes, numbers and the order of keys as written.
    pub fn json(self) -> Cow<'a, str> {
        compact(self.0.get())
    }

    /// Whether a pattern matches it: a string by its text, any other value by its compact JSON.
    pub fn matches(self, pattern: &ValuePattern) -> bool {
        match self.text() {
            Some(text) => pattern.matches_text(&text),
            None => pattern.matches_json(&self.json()),
        }
    }
}

/// A string, borrowed where it holds no escape.
#[derive(Deserialize, Debug)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Arguments<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Arguments(members))
    }
}

/// Drops the white space between tokens and writes strings anew.
fn compact(json: &str) -> Cow<'_, str> {
    let is_space = |char: char| char.is_ascii_whitespace();
    if !json.contains(|char: char| char == '"' || is_space(char)) {
        return Cow::Borrowed(json);
    }
    let mut compact = String::with_capacity(json.len());
    let mut rest = json;
    loop {
        let (plain, from_quote) = rest.split_at(rest.find('"').unwrap_or(rest.len()));
        compact.extend(plain.split(is_space));
        if from_quote.is_empty() {
            return Cow::Owned(compact);
        }
        let (string, behind) = from_quote.split_at(string_bytes(from_quote));
        match serde_json::from_str::<Text<'_>>(string) {
            Ok(Text(Cow::Owned(text))) => compact.push_str(&serde_json::to_string(&text).unwrap_or_default()),
            Ok(Text(Cow::Borrowed(_))) | Err(_) => compact.push_str(string),
        }
        rest = behind;
    }
}

/// How many bytes the JSON string takes that a text begins with, quotes included.
fn string_bytes(text: &str) -> usize {
    let mut escaped = true;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str, name: &str) -> Vec<String> {
        let arguments = Arguments::read(json).unwrap();
        arguments.named(name).map(|argument| argument.json().into_owned()).collect()
    }

    #[test]
    fn a_name_means_the_key_and_the_way_into_objects() {
        let json = r#"{"a.b": 1, "a": {"b": 2, "b.c": 3}, "a.b.c": 4, "l": [{"b": 5}], "": {"": 6}, "n": null}"#;
        assert_eq!(told(json, "a.b"), ["1", "2"]);
        assert_eq!(told(json, "a.b.c"), ["4"]);
        assert_eq!(told(json, "l.b"), [""; 0]);
        assert_eq!(told(json, "."), ["6"]);
        assert_eq!(told(json, "n"), ["null"]);
        assert_eq!(told(json, "n.x"), [""; 0]);
        assert_eq!(told(r#"{"\u0061": {"\u002e": 1}}"#, "a"), [r#"{".":1}"#]);
    }

    #[test]
    fn values_are_told_as_compact_json() {
        let json = r#"{"v": [ 1.0 , -0, 1E+2, "a \" b\/\u00e9\u0001\\" , {"k ey" : [ ] , "\n": true} ]}"#;
        assert_eq!(told(json, "v"), [r#"[1.0,-0,1E+2,"a \" b/é\u0001\\",{"k ey":[],"\n":true}]"#]);
    }

    #[test]
    fn a_string_is_decoded() {
        let arguments = Arguments::read(r#"{"a": "x\ny", "b": 5, "c": "\"", "d": "\ud83d\ude00"}"#).unwrap();
        let text = |name| arguments.named(name).next().unwrap().text().map(Cow::into_owned);
        assert_eq!(text("a").as_deref(), Some("x\ny"));
        assert_eq!(text("b"), None);
        assert_eq!(text("c").as_deref(), Some("\""));
        assert_eq!(text("d").as_deref(), Some("\u{1F600}"));
    }

    #[test]
    fn what_is_no_object_is_not_read() {
        for json in ["", "[]", "null", "{", "{} x", r#"{"a"}"#, "{\"a\": 01}"] {
            assert!(Arguments::read(json).is_none(), "{json}");
        }
    }

    #[test]
    fn depth_takes_no_stack() {
        let depth = 100_000;
        let json = format!(r#"{{"a": {}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert_eq!(told(&json, "a")[0].len(), 2 * depth);
    }
}
