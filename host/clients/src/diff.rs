//! A change as people read it, with everything left out that may be a secret.

use std::ops::Range;

use similar::TextDiff;

use crate::client::Format;
use crate::secrets::{has_secret_name, has_variable, is_secret, looks_secret};
use crate::syntax::splice::{Splice, spliced};
use crate::syntax::{self, Content, Node};

/// What stands in the place of what is left out.
const HIDDEN: &str = "***";
/// Tables whose values are never shown, whatever they are.
const PRIVATE: [&str; 5] = ["env", "envs", "environment", "headers", "http_headers"];
/// Lines around a change.
const AROUND: usize = 2;
/// A longer line is cut: a file may be one line.
const LINE_CHARS_MAX: usize = 400;

/// The difference in the unified format.
pub(crate) fn unified(format: Format, name: &str, old: &str, new: &str) -> String {
    let (old, new) = (masked(format, old), masked(format, new));
    let difference = TextDiff::from_lines(old.as_str(), new.as_str());
    let text = difference.unified_diff().context_radius(AROUND).header(name, name).to_string();
    text.lines().flat_map(|line| [cut(&veiled(line)), "\n".to_owned()]).collect()
}

fn masked(format: Format, text: &str) -> String {
    // Both texts have been read before; one that cannot be is not shown at all.
    let Ok(top) = syntax::parse(format.dialect, text) else { return String::new() };
    let mut hidden = Vec::new();
    hide(&top, "", false, &mut hidden);
    let splice = |range| Splice { range, text: format!("\"{HIDDEN}\"") };
    spliced(text, hidden.into_iter().map(splice).collect())
}

/// The places of what is not shown: below a private table every value that the client does not fill in, elsewhere what looks like
/// a secret.
fn hide(node: &Node, key: &str, private: bool, hidden: &mut Vec<Range<usize>>) {
    match &node.content {
        Content::Text(value) => {
            let private = private && !value.is_empty() && !has_variable(value);
            if private || is_secret(key, value) || option_secret(value) {
                hidden.push(node.span.clone());
            }
        }
        Content::Other(_) if private && !node.is_nothing() => hidden.push(node.span.clone()),
        Content::Other(_) => {}
        Content::Table(members, _) => {
            for member in members {
                hide(&member.value, &member.key, private || PRIVATE.contains(&member.key.as_str()), hidden);
            }
        }
        Content::List(items, _) => {
            let mut before = "";
            for item in items {
                // `--token` and its value in the next argument.
                let key = if before.starts_with('-') { before } else { "" };
                hide(item, key, private, hidden);
                before = item.text().unwrap_or_default();
            }
        }
    }
}

/// `--token=value`
fn option_secret(value: &str) -> bool {
    let option = value.strip_prefix('-').and_then(|option| option.split_once('='));
    option.is_some_and(|(name, value)| has_secret_name(name) && is_secret(name, value))
}

/// What only stands in comments is no value; the words that look like the secrets of well-known services are left out there too.
fn veiled(line: &str) -> String {
    let is_word = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '+' | '=');
    let mut veiled = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(is_word) {
        let (front, from) = rest.split_at(start);
        let (word, behind) = from.split_at(from.find(|character| !is_word(character)).unwrap_or(from.len()));
        veiled.push_str(front);
        veiled.push_str(if looks_secret(word) { HIDDEN } else { word });
        rest = behind;
    }
    veiled + rest
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}
