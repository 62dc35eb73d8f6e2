//! Walks over one JSON text, front to back, once.

use std::borrow::Cow;

use super::keys::{StringSpan, repeated};
use super::text::decode;
use super::{DEPTH_MAX, DEPTH_SCANNED_MAX, TEXT_BYTES_MAX};
use crate::code::Code;
use crate::escape;

/// How much of a key is shown in a sentence, characters.
const KEY_CHARS_SHOWN_MAX: usize = 64;

/// Where the text stops being JSON. Nothing behind it is read. Boxed where it is returned: every step may, hardly any does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

impl Fault {
    /// The fault as a sentence.
    pub(crate) fn detail(&self) -> String {
        format!("{} at byte {}", self.what, self.at)
    }
}

/// Something that is JSON and yet no two parsers need agree on. The text behind it is read all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// A carriage return in white space, at this byte.
    CarriageReturn(usize),
    /// Half of a surrogate pair, at this byte.
    LoneSurrogate(usize),
    /// Nested too deep, at this byte.
    TooDeep(usize),
    /// A key that stands twice in its object.
    RepeatedKey(StringSpan),
}

/// What white space may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineBreaks {
    /// The text is one line: a line feed is a fault, a carriage return a finding.
    Refused,
    /// The text is a document of its own.
    Allowed,
}

/// What is made of a key that stands twice in one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeats {
    /// A finding.
    Found,
    /// It is kept apart, in [`Scanner::take_deep_repeat`]: whether it matters is not known yet.
    Remembered,
    /// Nothing: keys are not even collected.
    Ignored,
}

#[derive(Clone, Copy)]
enum Container {
    Array,
    /// With the number of keys that were collected when it was opened.
    Object(usize),
}

/// The scanner. It stands somewhere in the text, and every step moves it over what the step read.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line_breaks: LineBreaks,
    /// Innermost last.
    open: Vec<Container>,
    /// Of all open objects, those of the innermost last.
    keys: Vec<StringSpan>,
    finding: Option<Finding>,
    deep_repeat: Option<StringSpan>,
}

impl<'a> Scanner<'a> {
    /// A scanner at the beginning of `text`; `None` for a text of more than [`TEXT_BYTES_MAX`].
    pub(crate) fn new(text: &'a str, line_breaks: LineBreaks) -> Option<Self> {
        (text.len() <= TEXT_BYTES_MAX).then(|| Self {
            text,
            at: 0,
            line_breaks,
            open: Vec::with_capacity(8),
            keys: Vec::with_capacity(16),
            finding: None,
            deep_repeat: None,
        })
    }

    /// The first finding so far.
    pub(crate) const fn take_finding(&mut self) -> Option<Finding> {
        self.finding.take()
    }

    /// The first key that was found to repeat under [`Repeats::Remembered`], since the last time this was asked.
    pub(crate) const fn take_deep_repeat(&mut self) -> Option<StringSpan> {
        self.deep_repeat.take()
    }

    /// The byte it stands at.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Where it stands, for [`Scanner::since`].
    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    /// The text from a position of this scanner up to where it stands now.
    pub(crate) fn since(&self, position: usize) -> &'a str {
        self.text.get(position..self.at).expect("steps begin and end on character borders")
    }

    /// What a string spells.
    pub(crate) fn spelled(&self, string: StringSpan) -> Cow<'a, str> {
        let raw = string.raw(self.text);
        if string.escaped { decode(raw) } else { Cow::Borrowed(raw) }
    }

    /// A key for a sentence: escaped, cut, quoted.
    pub(crate) fn shown(&self, key: StringSpan) -> String {
        format!("\"{}\"", escape::visible_up_to(&self.spelled(key), KEY_CHARS_SHOWN_MAX))
    }

    /// A finding as code and sentence.
    pub(crate) fn tell(&self, finding: Finding) -> (Code, String) {
        match finding {
            Finding::CarriageReturn(at) => {
                (Code::CarriageReturn, format!("a carriage return at byte {at}, not directly before the line feed"))
            }
            Finding::LoneSurrogate(at) => (Code::LoneSurrogate, format!("half a surrogate pair at byte {at}")),
            Finding::TooDeep(at) => (Code::TooDeep, format!("nested deeper than {DEPTH_MAX} at byte {at}")),
            Finding::RepeatedKey(key) => {
                let detail = format!("the key {} at byte {} stands twice in its object", self.shown(key), key.start);
                (Code::RepeatedKey, detail)
            }
        }
    }

    /// Steps over white space.
    #[inline]
    pub(crate) fn blank(&mut self) -> Result<(), Box<Fault>> {
        if self.peek().is_none_or(|byte| byte > b' ') {
            return Ok(());
        }
        loop {
            match (self.peek(), self.line_breaks) {
                (Some(b' ' | b'\t'), _) | (Some(b'\r' | b'\n'), LineBreaks::Allowed) => self.at += 1,
                (Some(b'\r'), LineBreaks::Refused) => {
                    self.note(Finding::CarriageReturn(self.at));
                    self.at += 1;
                }
                (Some(b'\n'), LineBreaks::Refused) => return self.fault("a line feed inside the line"),
                (Some(_) | None, _) => return Ok(()),
            }
        }
    }

    /// Sees that nothing but white space follows.
    pub(crate) fn end(&mut self) -> Result<(), Box<Fault>> {
        self.blank()?;
        if self.peek().is_none() { Ok(()) } else { self.fault("text behind the end of the document") }
    }

    /// Steps over one value, whatever it is and holds.
    pub(crate) fn value(&mut self, repeats: Repeats) -> Result<&'a str, Box<Fault>> {
        let start = self.at;
        let outside = self.open.len();
        loop {
            if self.begin(repeats)? {
                continue;
            }
            while self.open.len() > outside && !self.go_on(repeats)? {}
            if self.open.len() == outside {
                return Ok(self.since(start));
            }
        }
    }

    /// Steps over a string, a number or a literal, or into a container. True when it stands at a container's first value.
    #[inline]
    fn begin(&mut self, repeats: Repeats) -> Result<bool, Box<Fault>> {
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'{') => return Ok(self.enter_object(repeats)?.is_some()),
            Some(b'[') => return self.enter_array(),
            Some(b'-' | b'0'..=b'9') => return self.number().map(|()| false),
            Some(b't') => return self.literal("true").map(|()| false),
            Some(b'f') => return self.literal("false").map(|()| false),
            Some(b'n') => return self.literal("null").map(|()| false),
            Some(_) => return self.fault("no value begins like this"),
            None => return self.fault("the document ends before it is complete"),
        };
        Ok(false)
    }

    /// Behind a value: steps to the next value of the innermost container, or out of the container when it was the last.
    /// True when it stands at a value.
    #[inline]
    fn go_on(&mut self, repeats: Repeats) -> Result<bool, Box<Fault>> {
        match self.open.last() {
            Some(Container::Array) => self.next_element(),
            Some(Container::Object(_)) => Ok(self.next_key(repeats)?.is_some()),
            None => Ok(false),
        }
    }

    /// Steps into the array that begins here, to its first element. False when it has none and is behind us already.
    pub(crate) fn enter_array(&mut self) -> Result<bool, Box<Fault>> {
        if self.peek() != Some(b'[') {
            return self.fault("no array where one has to be");
        }
        self.open(Container::Array)?;
        self.blank()?;
        if self.peek() != Some(b']') {
            return Ok(true);
        }
        self.close();
        Ok(false)
    }

    /// Behind an element: steps to the next one. False when there is none and the array is behind us.
    pub(crate) fn next_element(&mut self) -> Result<bool, Box<Fault>> {
        self.blank()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.blank()?;
                Ok(true)
            }
            Some(b']') => {
                self.close();
                Ok(false)
            }
            Some(_) => self.fault("neither a comma nor the end of the array"),
            None => self.fault("an array that does not end"),
        }
    }

    /// Steps into the object that begins here, over its first key to that key's value. `None` when it is empty and behind
    /// us already.
    pub(crate) fn enter_object(&mut self, repeats: Repeats) -> Result<Option<StringSpan>, Box<Fault>> {
        if self.peek() != Some(b'{') {
            return self.fault("no object where one has to be");
        }
        self.open(Container::Object(self.keys.len()))?;
        self.blank()?;
        if self.peek() != Some(b'}') {
            return self.key(repeats).map(Some);
        }
        self.close();
        Ok(None)
    }

    /// Behind a member's value: steps over the next key to its value. `None` when there is none and the object is behind
    /// us. Every step over one object's keys is to be asked the same thing about repeated ones.
    pub(crate) fn next_key(&mut self, repeats: Repeats) -> Result<Option<StringSpan>, Box<Fault>> {
        self.blank()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.blank()?;
                self.key(repeats).map(Some)
            }
            Some(b'}') => {
                self.look_for_repeats(repeats);
                self.close();
                Ok(None)
            }
            Some(_) => self.fault("neither a comma nor the end of the object"),
            None => self.fault("an object that does not end"),
        }
    }

    #[inline]
    fn key(&mut self, repeats: Repeats) -> Result<StringSpan, Box<Fault>> {
        let key = self.string()?;
        match repeats {
            Repeats::Found | Repeats::Remembered => self.keys.push(key),
            Repeats::Ignored => {}
        }
        self.blank()?;
        if self.peek() != Some(b':') {
            return self.fault("no colon behind a key");
        }
        self.at += 1;
        self.blank()?;
        Ok(key)
    }

    fn look_for_repeats(&mut self, repeats: Repeats) {
        let Some(&Container::Object(from)) = self.open.last() else { return };
        let Some(key) = self.keys.get_mut(from..).and_then(|keys| repeated(keys, self.text)) else { return };
        match repeats {
            Repeats::Found => self.note(Finding::RepeatedKey(key)),
            Repeats::Remembered => self.deep_repeat = self.deep_repeat.or(Some(key)),
            Repeats::Ignored => {}
        }
    }

    #[inline]
    fn open(&mut self, container: Container) -> Result<(), Box<Fault>> {
        if self.open.len() == DEPTH_MAX {
            self.note(Finding::TooDeep(self.at));
        }
        if self.open.len() == DEPTH_SCANNED_MAX {
            return Err(Box::new(Fault { code: Code::TooDeep, at: self.at, what: "nested far deeper than 128" }));
        }
        self.open.push(container);
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn close(&mut self) {
        if let Some(Container::Object(from)) = self.open.pop() {
            self.keys.truncate(from);
        }
        self.at += 1;
    }

    /// Steps over the string that begins here.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<StringSpan, Box<Fault>> {
        if self.peek() != Some(b'"') {
            return self.fault("no string where one has to be");
        }
        let start = self.at + 1;
        self.at = start;
        self.at += plain_bytes(self.rest());
        let escaped = self.peek() != Some(b'"');
        if escaped {
            self.rest_of_string()?;
        }
        let string = StringSpan { start: position(start), end: position(self.at), escaped };
        self.at += 1;
        Ok(string)
    }

    /// From the first byte that is not plain to the closing quote.
    fn rest_of_string(&mut self) -> Result<(), Box<Fault>> {
        loop {
            match self.peek() {
                Some(b'"') => return Ok(()),
                Some(b'\\') => self.escape()?,
                Some(b'\r') => {
                    let what = "a carriage return inside a string";
                    return Err(Box::new(Fault { code: Code::CarriageReturn, at: self.at, what }));
                }
                Some(_) => return self.fault("a control character inside a string"),
                None => return self.fault("a string that does not end"),
            }
            self.at += plain_bytes(self.rest());
        }
    }

    fn escape(&mut self) -> Result<(), Box<Fault>> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let first = self.unit()?;
                let low_follows = self.rest().starts_with(b"\\u");
                match first {
                    0xd800..=0xdbff if low_follows => {
                        self.at += 1;
                        let second = self.unit()?;
                        if !(0xdc00..=0xdfff).contains(&second) {
                            self.note(Finding::LoneSurrogate(start));
                        }
                    }
                    0xd800..=0xdfff => self.note(Finding::LoneSurrogate(start)),
                    _ => {}
                }
            }
            Some(_) | None => return self.fault("an escape that JSON does not have"),
        }
        Ok(())
    }

    /// Steps over `u` and four hex digits.
    fn unit(&mut self) -> Result<u32, Box<Fault>> {
        let digits = self.text.as_bytes().get(self.at + 1..self.at + 5).unwrap_or_default();
        let unit = digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?));
        match unit {
            Some(unit) if digits.len() == 4 => {
                self.at += 5;
                Ok(unit)
            }
            Some(_) | None => self.fault("an escape without four hex digits"),
        }
    }

    fn number(&mut self) -> Result<(), Box<Fault>> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Box<Fault>> {
        let digits = self.rest();
        let count = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        if count == 0 {
            return self.fault("no digit where a number needs one");
        }
        self.at += count;
        Ok(())
    }

    fn literal(&mut self, literal: &str) -> Result<(), Box<Fault>> {
        if !self.rest().starts_with(literal.as_bytes()) {
            return self.fault("no value begins like this");
        }
        self.at += literal.len();
        Ok(())
    }

    #[cold]
    fn note(&mut self, finding: Finding) {
        self.finding.get_or_insert(finding);
    }

    #[cold]
    fn fault<T>(&self, what: &'static str) -> Result<T, Box<Fault>> {
        Err(Box::new(Fault { code: Code::NotJson, at: self.at, what }))
    }
}

#[inline]
fn position(at: usize) -> u32 {
    u32::try_from(at).expect("the text is at most TEXT_BYTES_MAX long")
}

/// How many bytes at the front may stand in a string as they are: no quote, no backslash, no control character.
#[inline]
fn plain_bytes(bytes: &[u8]) -> usize {
    let start = plain_bytes_by_word(bytes.get(..WORDS_FIRST_BYTES).unwrap_or(bytes));
    if start < WORDS_FIRST_BYTES { start } else { plain_bytes_of_long(bytes) }
}

/// Strings that are longer than this are gone through in blocks.
const WORDS_FIRST_BYTES: usize = 64;

/// Blocks that hold nothing else are passed over, each looked at as a whole, which the compiler makes a few vector instructions
/// of: 64 KiB take 2 µs in place of 8 by words.
#[inline(never)]
fn plain_bytes_of_long(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<64>();
    let is_passed = |block: &[u8; 64]| block.iter().fold(true, |plain, byte| plain & is_plain(*byte));
    let passed = 64 * blocks.iter().position(|block| !is_passed(block)).unwrap_or(blocks.len());
    passed + plain_bytes_by_word(bytes.get(passed..).unwrap_or_default())
}

#[inline]
const fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Eight bytes a step. Each term sets the high bit of the bytes it looks for; a borrow can set it wrongly only in bytes
/// behind such a one, so that the lowest set bit is right.
#[inline]
fn plain_bytes_by_word(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = (word ^ (ONES * u64::from(b'"'))).wrapping_sub(ONES);
        let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
        let control = word.wrapping_sub(ONES * 0x20);
        let found = (quote | backslash | control) & !word & HIGH;
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    words.len() * 8 + rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len())
}
