//! The canonical form of a call's arguments: what "the same call again" means.
//!
//! Keys sorted by code point, white space dropped, strings decoded and written with minimal escapes, number text kept
//! exactly (RFC 8785 would fold 2^53 and 2^53+1).

use crate::call::ARGUMENT_BYTES_JUDGED_MAX;
use crate::digest::Digest;
use crate::json::{self, Fault, LineBreaks, Repeats, Scanner, StringSpan};

/// The digest of the canonical form of `arguments`, JSON text that [`crate::read`] has accepted.
///
/// Text that is not JSON, nested deeper than [`crate::read::DEPTH_MAX`] or larger than [`ARGUMENT_BYTES_JUDGED_MAX`] has no
/// canonical form and is digested as it is: that never equals a canonical form, which is JSON and not as large.
pub fn digest(arguments: &str) -> Digest {
    match form(arguments) {
        Some(form) => Digest::of(form.as_bytes()),
        None => Digest::of(arguments.as_bytes()),
    }
}

fn form(text: &str) -> Option<String> {
    // Its tree would take some 50 times its size.
    if text.len() > ARGUMENT_BYTES_JUDGED_MAX {
        return None;
    }
    let tree = Tree::read(text)?;
    let mut out = String::with_capacity(text.len());
    tree.write(0, &mut out);
    Some(out)
}

/// The values of a document in its order, each container before what it holds.
struct Tree<'a> {
    text: &'a str,
    nodes: Vec<Node<'a>>,
}

struct Node<'a> {
    /// Its key, in an object.
    key: Option<StringSpan>,
    value: Value<'a>,
    /// The index of the first node behind it and all it holds.
    end: usize,
}

enum Value<'a> {
    /// A number or a literal.
    Plain(&'a str),
    String(StringSpan),
    Array,
    Object,
}

impl<'a> Tree<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut scanner = Scanner::new(text, LineBreaks::Allowed)?;
        let mut tree = Self { text, nodes: Vec::new() };
        tree.document(&mut scanner).ok()?;
        scanner.take_finding().is_none().then_some(tree)
    }

    fn document(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Box<Fault>> {
        let mut open: Vec<usize> = Vec::new();
        let mut key = None;
        scanner.blank()?;
        loop {
            let index = self.nodes.len();
            match scanner.peek() {
                Some(b'{') => {
                    self.push(key, Value::Object);
                    key = scanner.enter_object(Repeats::Ignored)?;
                    if key.is_some() {
                        open.push(index);
                        continue;
                    }
                }
                Some(b'[') => {
                    self.push(key.take(), Value::Array);
                    if scanner.enter_array()? {
                        open.push(index);
                        continue;
                    }
                }
                Some(b'"') => self.push(key, Value::String(scanner.string()?)),
                Some(_) | None => self.push(key, Value::Plain(scanner.value(Repeats::Ignored)?)),
            }
            // A value is complete: on to the next one of the innermost container, out of those that are complete too.
            loop {
                let Some(&container) = open.last() else { return scanner.end() };
                let more = match self.nodes[container].value {
                    Value::Object => {
                        key = scanner.next_key(Repeats::Ignored)?;
                        key.is_some()
                    }
                    Value::Array | Value::Plain(_) | Value::String(_) => {
                        key = None;
                        scanner.next_element()?
                    }
                };
                if more {
                    break;
                }
                open.pop();
                self.nodes[container].end = self.nodes.len();
            }
        }
    }

    fn push(&mut self, key: Option<StringSpan>, value: Value<'a>) {
        self.nodes.push(Node { key, value, end: self.nodes.len() + 1 });
    }

    /// Appends the canonical form of one node. Calls itself, at most [`crate::read::DEPTH_MAX`] deep.
    fn write(&self, index: usize, out: &mut String) {
        match self.nodes[index].value {
            Value::Plain(raw) => out.push_str(raw),
            Value::String(string) => self.write_string(string, out),
            Value::Array => {
                out.push('[');
                for (place, element) in self.children(index).enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    self.write(element, out);
                }
                out.push(']');
            }
            Value::Object => {
                let mut members: Vec<_> =
                    self.children(index).filter_map(|member| Some((self.nodes[member].key?, member))).collect();
                members.sort_by(|(a, _), (b, _)| json::compare(*a, *b, self.text));
                out.push('{');
                for (place, (key, member)) in members.into_iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    self.write_string(key, out);
                    out.push(':');
                    self.write(member, out);
                }
                out.push('}');
            }
        }
    }

    fn write_string(&self, string: StringSpan, out: &mut String) {
        let raw = string.raw(self.text);
        out.push('"');
        if string.escaped {
            json::write_canonical(raw, out);
        } else {
            out.push_str(raw);
        }
        out.push('"');
    }

    fn children(&self, index: usize) -> impl Iterator<Item = usize> {
        let end = self.nodes[index].end;
        let next = move |index: usize| Some(index).filter(|index| *index < end);
        std::iter::successors(next(index + 1), move |child| next(self.nodes[*child].end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::DEPTH_MAX;

    #[test]
    fn the_form_is_sorted_bare_and_minimally_escaped() {
        let text = "{ \"b\" : [ 1.0, 1e2 , -0,\"\\u0041\\/\\u000a\" ],\n\t\"\\u0061\":{\"z\":{},\"é\":[],\"y\":null} , \"B\": true}\r\n";
        let bare = r#"{"B":true,"a":{"y":null,"z":{},"é":[]},"b":[1.0,1e2,-0,"A/\n"]}"#;
        assert_eq!(form(text).as_deref(), Some(bare));
        assert_eq!(form(bare).as_deref(), Some(bare));
    }

    #[test]
    fn keys_sort_by_code_point_and_not_by_utf_16() {
        assert_eq!(form(r#"{"\ud83d\ude00":1,"\uff5e":2}"#).as_deref(), Some(r#"{"～":2,"😀":1}"#));
    }

    #[test]
    fn what_has_no_form_is_digested_as_it_is() {
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
        let large = format!("[{}0]", "0,".repeat(ARGUMENT_BYTES_JUDGED_MAX / 2));
        for text in [large.as_str(), "", "{", "{} {}", "[1,]", "\u{feff}{}", r#"{"a":"\ud800"}"#, &deep] {
            assert_eq!(form(text), None, "{text}");
            assert_eq!(digest(text), Digest::of(text.as_bytes()));
        }
        let deepest = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert_eq!(form(&deepest).as_deref(), Some(deepest.as_str()));
    }
}
