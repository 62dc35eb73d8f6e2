//! Splices: what an edit puts into a file's text, in the file's own dialect and in the manner of what stands around it.

use std::ops::Range;

use super::{Content, Dialect, Layout, Member, Node};

/// Text in the place of other text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Splice {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// The text with these splices, none of which reaches into another.
pub(crate) fn spliced(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let mut result = String::with_capacity(text.len() + splices.iter().map(|splice| splice.text.len()).sum::<usize>());
    let mut place = 0;
    for splice in splices {
        result.push_str(text.get(place..splice.range.start).unwrap_or_default());
        result.push_str(&splice.text);
        place = splice.range.end;
    }
    result.push_str(text.get(place..).unwrap_or_default());
    result
}

/// A file's text, to be written into.
#[derive(Clone, Copy)]
pub(crate) struct Writing<'t> {
    pub(crate) dialect: Dialect,
    pub(crate) text: &'t str,
}

impl Writing<'_> {
    /// A text in the place of a value.
    pub(crate) fn replaced(&self, node: &Node, value: &str) -> Splice {
        Splice { range: node.span.clone(), text: self.literal(value) }
    }

    /// Texts in front of a list's own.
    pub(crate) fn in_front(&self, list: &Node, values: &[String]) -> Splice {
        let literals: Vec<String> = values.iter().map(|value| self.literal(value)).collect();
        let first = list.items().and_then(<[Node]>::first);
        let (at, text) = match (&list.content, first) {
            (Content::List(_, Layout::Lines), Some(_)) => {
                let next = format!("{}{}", self.line_end(), " ".repeat(self.column(list.span.start)));
                (list.span.start, literals.iter().flat_map(|literal| ["- ", literal, &next]).collect())
            }
            (_, Some(first)) => {
                let separator = self.separator(list.span.start, first.span.start);
                (first.span.start, literals.iter().flat_map(|literal| [literal, &*separator]).collect())
            }
            (_, None) => (list.span.start + 1, literals.join(", ")),
        };
        Splice { range: at..at, text }
    }

    /// Other texts in the place of a list's own.
    pub(crate) fn other_items(&self, list: &Node, values: &[String]) -> Splice {
        let last = list.items().and_then(<[Node]>::last);
        match (&list.content, last) {
            (Content::List(_, Layout::Lines), Some(last)) => {
                let literals: Vec<String> = values.iter().map(|value| format!("- {}", self.literal(value))).collect();
                let next = format!("{}{}", self.line_end(), " ".repeat(self.column(list.span.start)));
                Splice { range: list.span.start..last.span.end, text: literals.join(&next) }
            }
            _ => Splice { range: list.span.clone(), text: self.list(values) },
        }
    }

    /// A list of texts behind a member of a table.
    pub(crate) fn behind(&self, member: &Member, layout: Layout, key: &str, values: &[String]) -> Splice {
        let list = self.list(values);
        let between = match self.dialect {
            Dialect::Toml => " = ",
            Dialect::Json | Dialect::JsonWithComments | Dialect::JsonWithTrailingCommas | Dialect::Yaml => ": ",
        };
        let key = match self.dialect {
            Dialect::Toml | Dialect::Yaml => key.to_owned(),
            Dialect::Json | Dialect::JsonWithComments | Dialect::JsonWithTrailingCommas => self.literal(key),
        };
        let end = member.value.span.end;
        let front = self.line_front(member.key_span.start);
        match layout {
            Layout::Bracketed => {
                let space = if is_blank(front) { format!("{}{front}", self.line_end()) } else { " ".to_owned() };
                Splice { range: end..end, text: format!(",{space}{key}{between}{list}") }
            }
            Layout::Lines => {
                let at = self.line_end_from(end);
                // Of a dotted key, what is in front of its last part.
                let front = match self.dialect {
                    Dialect::Toml => front.to_owned(),
                    _ => " ".repeat(self.column(member.key_span.start)),
                };
                Splice { range: at..at, text: format!("{}{front}{key}{between}{list}", self.line_end()) }
            }
        }
    }

    /// A table without some of its members, given by their places in rising order.
    pub(crate) fn without(&self, table: &Node, places: &[usize]) -> Vec<Splice> {
        let Content::Table(members, layout) = &table.content else { return Vec::new() };
        let all = places.len() == members.len();
        match (layout, self.dialect) {
            (Layout::Bracketed, _) => {
                runs(places).into_iter().flat_map(|run| self.without_run(members, &run)).collect()
            }
            // What is left of a block with nothing in it would mean something else: no value at all.
            (Layout::Lines, Dialect::Yaml) if all => {
                let (Some(first), Some(last)) = (members.first(), members.last()) else { return Vec::new() };
                vec![Splice { range: first.key_span.start..last.value.span.end, text: "{}".to_owned() }]
            }
            (Layout::Lines, _) => {
                let line = |member: &Member| {
                    let start = member.key_span.start - self.line_front(member.key_span.start).len();
                    let end = self.line_end_from(member.value.span.end);
                    Splice { range: start..self.behind_line_end(end), text: String::new() }
                };
                places.iter().filter_map(|place| members.get(*place)).map(line).collect()
            }
        }
    }

    /// Takes neighbours out of a table in brackets: with the comma behind them, or, where they are the last and none is behind
    /// them, with the one in front.
    fn without_run(&self, members: &[Member], run: &Range<usize>) -> Vec<Splice> {
        let (Some(first), Some(last)) = (members.get(run.start), members.get(run.end - 1)) else { return Vec::new() };
        let mut splices = Vec::new();
        let mut range = first.key_span.start..last.value.span.end;
        if let Some(comma) = self.comma_from(range.end) {
            range.end = comma + 1;
        } else if let Some(before) = run.start.checked_sub(1).and_then(|before| members.get(before)) {
            splices.extend(self.comma_from(before.value.span.end).map(|comma| removed(comma..comma + 1)));
        }
        splices.push(removed(self.with_white_space(range)));
        splices
    }

    /// Whole lines, where the line has nothing else; otherwise with the blanks on one side.
    fn with_white_space(&self, mut range: Range<usize>) -> Range<usize> {
        let front = self.line_front(range.start);
        let end = self.line_end_from(range.end);
        let behind = self.text.get(range.end..end).unwrap_or_default();
        if is_blank(front) && is_blank(behind) {
            return range.start - front.len()..self.behind_line_end(end);
        }
        range.end += behind.len() - behind.trim_start_matches([' ', '\t']).len();
        range
    }

    /// The comma from here on, behind nothing but white space and comments.
    fn comma_from(&self, mut place: usize) -> Option<usize> {
        loop {
            let rest = self.text.get(place..)?;
            let white = rest.len() - rest.trim_start().len();
            let rest = rest.get(white..)?;
            place += white;
            if rest.starts_with(',') {
                return Some(place);
            }
            let is_json = !matches!(self.dialect, Dialect::Toml | Dialect::Yaml);
            if let Some(comment) = rest.strip_prefix("/*").filter(|_| is_json) {
                place += 2 + comment.find("*/")? + 2;
            } else if rest.starts_with(if is_json { "//" } else { "#" }) {
                place += rest.find('\n')?;
            } else {
                return None;
            }
        }
    }

    fn list(&self, values: &[String]) -> String {
        let literals: Vec<String> = values.iter().map(|value| self.literal(value)).collect();
        format!("[{}]", literals.join(", "))
    }

    fn literal(&self, value: &str) -> String {
        match self.dialect {
            Dialect::Toml => toml_edit::Value::from(value).to_string(),
            Dialect::Yaml if is_plain(value) => value.to_owned(),
            // JSON's strings are YAML's as well.
            Dialect::Yaml | Dialect::Json | Dialect::JsonWithComments | Dialect::JsonWithTrailingCommas => {
                serde_json::Value::from(value).to_string()
            }
        }
    }

    /// What stands between the items of a list in brackets whose first is here.
    fn separator(&self, start: usize, first: usize) -> String {
        let in_lines = self.text.get(start..first).is_some_and(|between| between.contains('\n'));
        let front = self.line_front(first);
        if in_lines && is_blank(front) { format!(",{}{front}", self.line_end()) } else { ", ".to_owned() }
    }

    /// How the file ends its lines: as it does the first.
    fn line_end(&self) -> &'static str {
        let first = self.text.find('\n').and_then(|end| end.checked_sub(1));
        if first.is_some_and(|before| self.text.as_bytes().get(before) == Some(&b'\r')) { "\r\n" } else { "\n" }
    }

    /// The line up to this place.
    fn line_front(&self, place: usize) -> &str {
        let before = self.text.get(..place).unwrap_or_default();
        let front = before.rfind('\n').map_or(before, |end| before.get(end + 1..).unwrap_or_default());
        front.trim_start_matches('\u{feff}')
    }

    fn column(&self, place: usize) -> usize {
        self.line_front(place).chars().count()
    }

    /// Where the line ends, its line end not counted.
    fn line_end_from(&self, place: usize) -> usize {
        let rest = self.text.get(place..).unwrap_or_default();
        let line = rest.find('\n').map_or(rest, |end| rest.get(..end).unwrap_or_default());
        place + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// Behind the line end that is here.
    fn behind_line_end(&self, place: usize) -> usize {
        let rest = self.text.get(place..).unwrap_or_default();
        let end = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or(rest);
        place + rest.len() - end.len()
    }
}

const fn removed(range: Range<usize>) -> Splice {
    Splice { range, text: String::new() }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|character| matches!(character, ' ' | '\t'))
}

/// Whether a text can stand in YAML without quotes, whoever reads it: it begins as a path or a word does, and is no other value.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n", "none"];
    let first = text.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-' | b'@'))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Places in rising order as ranges of neighbours.
fn runs(places: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for place in places {
        match runs.last_mut().filter(|run| run.end == *place) {
            Some(run) => run.end += 1,
            None => runs.push(*place..place + 1),
        }
    }
    runs
}
