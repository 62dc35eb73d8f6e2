//! JSON text made from entropy that proptest can shrink: less of it, and lower bytes, make plainer text.

use std::collections::VecDeque;

/// A source of choices. When it is used up every choice is the first, the plainest.
pub(crate) struct Dice(VecDeque<u8>);

impl Dice {
    pub(crate) fn new(entropy: Vec<u8>) -> Self {
        Self(entropy.into())
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        usize::from(self.0.pop_front().unwrap_or(0)) % sides
    }

    /// True once in so many times, never when used up.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == times - 1
    }

    pub(crate) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len())]
    }
}

/// A JSON value; numbers by their text, keys without repeats.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Plain(String),
    Text(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

const PLAIN: [&str; 14] = [
    "1",
    "true",
    "null",
    "0",
    "-0",
    "1.0",
    "1e2",
    "100",
    "false",
    "9007199254740992",
    "9007199254740993",
    "-1.5E-3",
    "18446744073709551616",
    "0.1",
];
const TEXTS: [&str; 14] = [
    "a",
    "",
    "b",
    "tools/call",
    "é",
    "e\u{301}",
    "😀",
    "～",
    "\n\"\\/\u{0}\u{1f}",
    "a b",
    "\u{7f}\u{2028}",
    "{\"a\":1}",
    "\u{fffd}",
    "a longer text that takes more than one word of eight bytes",
];

/// Any value, nested a few levels.
pub(crate) fn value(dice: &mut Dice, levels: usize) -> Value {
    match dice.roll(if levels == 0 { 2 } else { 5 }) {
        0 => Value::Plain(dice.pick(&PLAIN).to_owned()),
        1 => Value::Text(dice.pick(&TEXTS).to_owned()),
        2 => Value::Array((0..dice.roll(4)).map(|_| value(dice, levels - 1)).collect()),
        _ => object(dice, levels - 1),
    }
}

/// An object of a few members, now and then of many.
pub(crate) fn object(dice: &mut Dice, levels: usize) -> Value {
    let count = if dice.once_in(16) { 20 } else { dice.roll(5) };
    let mut members: Vec<(String, Value)> = Vec::new();
    for index in 0..count {
        let key = if count == 20 { format!("key {index}") } else { dice.pick(&TEXTS).to_owned() };
        if members.iter().all(|(other, _)| *other != key) {
            members.push((key, value(dice, levels)));
        }
    }
    Value::Object(members)
}

/// The text of a value: members in any order, any white space, any spelling of strings.
pub(crate) fn write(value: &Value, dice: &mut Dice) -> String {
    match value {
        Value::Plain(text) => text.clone(),
        Value::Text(text) => string(text, dice),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(|value| write(value, dice)).collect();
            joined("[", values, "]", dice)
        }
        Value::Object(members) => {
            let mut members: Vec<String> = members
                .iter()
                .map(|(key, value)| {
                    format!("{}{}:{}{}", string(key, dice), blank(dice), blank(dice), write(value, dice))
                })
                .collect();
            shuffle(&mut members, dice);
            joined("{", members, "}", dice)
        }
    }
}

pub(crate) fn joined(open: &str, parts: Vec<String>, close: &str, dice: &mut Dice) -> String {
    let mut text = format!("{open}{}", blank(dice));
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            text = format!("{text}{},{}", blank(dice), blank(dice));
        }
        text.push_str(&part);
    }
    format!("{text}{}{close}", blank(dice))
}

pub(crate) fn shuffle<T>(items: &mut [T], dice: &mut Dice) {
    for index in 1..items.len() {
        let other = dice.roll(index + 1);
        items.swap(index, index - other);
    }
}

fn blank(dice: &mut Dice) -> &'static str {
    ["", "", "", " ", "\t", "  "][dice.roll(6)]
}

/// A JSON string, its characters as themselves or escaped.
pub(crate) fn string(text: &str, dice: &mut Dice) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        let short = match character {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '\n' => Some("\\n"),
            '/' => Some("\\/"),
            _ => None,
        };
        let must = matches!(character, '"' | '\\' | '\0'..='\u{1f}');
        match (short, dice.roll(12)) {
            (_, 0..=9) if !must => json.push(character),
            (Some(short), 0..=10) => json.push_str(short),
            (_, roll) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let digits = format!("{unit:04x}");
                    json.push_str("\\u");
                    json.push_str(&if roll == 10 { digits } else { digits.to_uppercase() });
                }
            }
        }
    }
    json + "\""
}
