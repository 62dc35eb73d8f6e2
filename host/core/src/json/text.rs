//! What stands between the quotes of a JSON string.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A part of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece<'a> {
    /// Characters that stand for themselves.
    Plain(&'a str),
    /// An escaped character.
    Escaped(char),
    /// Half of a surrogate pair, which is no character.
    LoneSurrogate(u16),
}

/// The pieces of a string whose escapes the scanner has checked. `raw` is without its quotes.
pub(crate) fn pieces(raw: &str) -> Pieces<'_> {
    Pieces { rest: raw }
}

/// See [`pieces`].
#[derive(Clone)]
pub(crate) struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let plain = memchr::memchr(b'\\', self.rest.as_bytes()).unwrap_or(self.rest.len());
        let (plain, rest) = self.rest.split_at(plain);
        if !plain.is_empty() {
            self.rest = rest;
            return Some(Piece::Plain(plain));
        }
        let escape = rest.strip_prefix('\\')?;
        let (piece, rest) = escaped(escape)?;
        self.rest = rest;
        Some(piece)
    }
}

/// The escape that begins `text` behind its backslash, and what follows it.
fn escaped(text: &str) -> Option<(Piece<'_>, &str)> {
    let mut chars = text.chars();
    let character = match chars.next()? {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unicode_escape(chars.as_str()),
        itself => itself,
    };
    Some((Piece::Escaped(character), chars.as_str()))
}

fn unicode_escape(text: &str) -> Option<(Piece<'_>, &str)> {
    let (first, rest) = four_digits(text)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((Piece::Escaped(character), rest));
    }
    let pair =
        rest.strip_prefix("\\u").and_then(four_digits).and_then(|(second, rest)| Some((pair(first, second)?, rest)));
    Some(pair.map_or((Piece::LoneSurrogate(first), rest), |(character, rest)| (Piece::Escaped(character), rest)))
}

fn four_digits(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u16::from_str_radix(digits, 16).ok()?, rest))
}

fn pair(first: u16, second: u16) -> Option<char> {
    char::decode_utf16([first, second]).next()?.ok()
}

/// The string that `raw` (without its quotes) spells. Half a surrogate pair becomes U+FFFD; the reader refuses such frames.
pub(crate) fn decode(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    for piece in pieces(raw) {
        match piece {
            Piece::Plain(plain) => text.push_str(plain),
            Piece::Escaped(character) => text.push(character),
            Piece::LoneSurrogate(_) => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    Cow::Owned(text)
}

/// Whether no half of a surrogate pair is in it.
pub(crate) fn is_well_formed(raw: &str) -> bool {
    !pieces(raw).any(|piece| matches!(piece, Piece::LoneSurrogate(_)))
}

/// Appends the one canonical spelling of the string that `raw` spells, without quotes: `\"`, `\\`, `\b`, `\f`, `\n`, `\r`,
/// `\t`, other control characters as `\u00` and two lower-case digits, everything else as itself (as RFC 8785).
pub(crate) fn write_canonical(raw: &str, out: &mut String) {
    for piece in pieces(raw) {
        match piece {
            Piece::Plain(plain) => out.push_str(plain),
            Piece::Escaped('"') => out.push_str("\\\""),
            Piece::Escaped('\\') => out.push_str("\\\\"),
            Piece::Escaped('\u{8}') => out.push_str("\\b"),
            Piece::Escaped('\u{c}') => out.push_str("\\f"),
            Piece::Escaped('\n') => out.push_str("\\n"),
            Piece::Escaped('\r') => out.push_str("\\r"),
            Piece::Escaped('\t') => out.push_str("\\t"),
            Piece::Escaped(control @ '\0'..='\u{1f}') => push_unit(u32::from(control), out),
            Piece::Escaped(character) => out.push(character),
            Piece::LoneSurrogate(unit) => push_unit(u32::from(unit), out),
        }
    }
}

fn push_unit(unit: u32, out: &mut String) {
    write!(out, "\\u{unit:04x}").expect("writing to a string never fails");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_what_they_spell() {
        let raw = r#"a\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00z"#;
        assert_eq!(decode(raw), "a\"\\/\u{8}\u{c}\n\r\tAé😀z");
        assert!(matches!(decode("plain é"), Cow::Borrowed("plain é")));
    }

    #[test]
    fn half_a_surrogate_pair_is_no_character() {
        assert_eq!(decode(r"\ud83dx"), "\u{fffd}x");
        assert_eq!(decode(r"\ud83dA"), "\u{fffd}A");
        assert_eq!(decode(r"\ude00\ud83d"), "\u{fffd}\u{fffd}");
        assert_eq!(pieces(r"\ud83d").collect::<Vec<_>>(), [Piece::LoneSurrogate(0xd83d)]);
    }

    #[test]
    fn one_string_has_one_canonical_spelling() {
        for raw in [r"\u0022\u005c\u002f\u0008\u000A\u0001\u007fé", r#"\"\\/\b\n\u0001"#.to_owned().as_str()] {
            let mut out = String::new();
            write_canonical(raw, &mut out);
            let mut again = String::new();
            write_canonical(&out, &mut again);
            assert_eq!(out, again);
            assert_eq!(decode(raw), decode(&out));
        }
        let mut out = String::new();
        write_canonical(r"\u0022\u005c\u002f\u0008\u000A\u0001\u00e9", &mut out);
        assert_eq!(out, r#"\"\\/\b\n\u0001é"#);
    }
}
