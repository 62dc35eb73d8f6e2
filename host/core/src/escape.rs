//! Text of others made safe to show: what would move the cursor, reverse the reading order or not be seen at all is
//! spelled out as `\u{…}`.
//!
//! For people and agents to read, not for machines to read back: a backslash of the text itself is left as it is.

use std::borrow::Cow;

/// Code points that are not seen, or that change how their neighbours are seen: the general categories Cf, Zl and Zp,
/// and all others with the property `Default_Ignorable_Code_Point` (Unicode 17.0), and the blank Braille pattern. Sorted,
/// both ends included. The controls (Cc) are asked of the standard library.
const UNSEEN: [(char, char); 26] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character is not to be shown as it is: a control, bidirectional, zero-width or otherwise unseen one, or a
/// line or paragraph separator. The plain space is seen.
pub fn is_unseen(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    let after = UNSEEN.partition_point(|(first, _)| *first <= character);
    character.is_control() || after.checked_sub(1).is_some_and(|range| character <= UNSEEN[range].1)
}

/// The text with every unseen character ([`is_unseen`]) spelled out.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    text.chars().for_each(|character| push(character, &mut shown));
    Cow::Owned(shown)
}

/// The same, cut behind `chars_max` characters of the text; `…` says that it was cut.
pub fn visible_up_to(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    let mut chars = text.chars();
    chars.by_ref().take(chars_max).for_each(|character| push(character, &mut shown));
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

fn push(character: char, shown: &mut String) {
    if is_unseen(character) { shown.extend(character.escape_unicode()) } else { shown.push(character) }
}

/// The text as one word of a shell's command line.
pub fn for_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_spelled_out() {
        let odd = "a\u{1b}[31m\r\n\u{202e}b\u{200b}\u{feff}\u{7f}\u{9b}\u{2028}\u{e0041}";
        let shown = r"a\u{1b}[31m\u{d}\u{a}\u{202e}b\u{200b}\u{feff}\u{7f}\u{9b}\u{2028}\u{e0041}";
        assert_eq!(visible(odd), shown);
    }

    #[test]
    fn what_is_seen_stays() {
        let text = "C:\\dir naïve “日本” 😀 \u{a0}é";
        assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(visible_up_to("äöü", 3), "äöü");
        assert_eq!(visible_up_to("äöü", 2), "äö…");
        assert_eq!(visible_up_to("\0\0", 1), r"\u{0}…");
    }

    #[test]
    fn the_table_is_sorted_and_apart() {
        assert!(UNSEEN.iter().all(|(first, last)| first <= last));
        assert!(UNSEEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}
