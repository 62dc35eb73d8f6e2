//! TOML.

use std::ops::Range;

use toml_edit::{Document, Item, Key, TableLike, Value};

use super::{Content, Layout, Member, Node, Unreadable, line_of};

pub(super) fn parse(text: &str) -> Result<Node, Unreadable> {
    let document = Document::parse(text).map_err(|error| Unreadable::Malformed {
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        what: error.message().to_owned(),
    })?;
    let members = members(text, document.as_table());
    Ok(Node { span: 0..0, content: Content::Table(members, Layout::Lines) })
}

fn members(text: &str, table: &dyn TableLike) -> Vec<Member> {
    let member = |(key, item): (&str, &Item)| {
        let key_span = table.key(key).and_then(Key::span)?;
        Some(Member { key: key.to_owned(), key_span, value: item_node(text, item) })
    };
    table.iter().filter_map(member).collect()
}

fn item_node(text: &str, item: &Item) -> Node {
    let span = item.span().unwrap_or(0..0);
    match item {
        Item::Value(value) => value_node(text, value),
        Item::Table(table) => {
            // The table of a dotted key has no header, and neither has one that only others' headers name.
            let span = if table.is_dotted() || table.is_implicit() { 0..0 } else { span };
            Node { span, content: Content::Table(members(text, table), Layout::Lines) }
        }
        Item::ArrayOfTables(tables) => {
            let table = |table| Node { span: 0..0, content: Content::Table(members(text, table), Layout::Lines) };
            Node {
                span,
                content: Content::List(tables.iter().map(|one| table(one as &dyn TableLike)).collect(), Layout::Lines),
            }
        }
        Item::None => other(text, span),
    }
}

fn value_node(text: &str, value: &Value) -> Node {
    let span = value.span().unwrap_or(0..0);
    let content = match value {
        Value::String(literal) => Content::Text(literal.value().clone()),
        Value::Array(array) => {
            Content::List(array.iter().map(|item| value_node(text, item)).collect(), Layout::Bracketed)
        }
        Value::InlineTable(table) if table.is_dotted() => {
            return Node { span: 0..0, content: Content::Table(members(text, table), Layout::Lines) };
        }
        Value::InlineTable(table) => Content::Table(members(text, table), Layout::Bracketed),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => return other(text, span),
    };
    Node { span, content }
}

fn other(text: &str, span: Range<usize>) -> Node {
    let written = text.get(span.clone()).unwrap_or_default().to_owned();
    Node { span, content: Content::Other(written) }
}
