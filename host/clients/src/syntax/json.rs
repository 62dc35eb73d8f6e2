//! JSON and its dialects.

use std::ops::Range;

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Content, Layout, Member, Node, Unreadable, line_of};

/// What a program takes besides JSON.
#[derive(Clone, Copy)]
pub(super) struct Leniency {
    pub(super) comments: bool,
    pub(super) trailing_commas: bool,
}

pub(super) fn parse(text: &str, leniency: Leniency) -> Result<Node, Unreadable> {
    let options = ParseOptions {
        allow_comments: leniency.comments,
        allow_trailing_commas: leniency.trailing_commas,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let malformed = |error: jsonc_parser::errors::ParseError| Unreadable::Malformed {
        line: error.line_display(),
        what: error.kind().to_string(),
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(malformed)?;
    if !leniency.comments && !leniency.trailing_commas {
        // A second opinion, of a parser that knows no dialect.
        let strict: Result<serde::de::IgnoredAny, _> = serde_json::from_str(text);
        strict.map_err(|error| Unreadable::Malformed { line: error.line(), what: "this is not JSON".to_owned() })?;
    }
    // Comments and nothing else.
    parsed.value.map_or_else(|| Ok(Node::empty()), |value| node(text, value))
}

fn node(text: &str, value: Value<'_>) -> Result<Node, Unreadable> {
    let span = value.start()..value.end();
    let content = match value {
        Value::StringLit(literal) => Content::Text(literal.value.into_owned()),
        Value::Array(array) => {
            let items = array.elements.into_iter().map(|item| node(text, item)).collect::<Result<_, _>>()?;
            Content::List(items, Layout::Bracketed)
        }
        Value::Object(object) => Content::Table(members(text, object.properties)?, Layout::Bracketed),
        Value::NumberLit(_) | Value::BooleanLit(_) | Value::NullKeyword(_) => {
            Content::Other(text.get(span.clone()).unwrap_or_default().to_owned())
        }
    };
    Ok(Node { span, content })
}

fn members(text: &str, properties: Vec<jsonc_parser::ast::ObjectProp<'_>>) -> Result<Vec<Member>, Unreadable> {
    let mut seen = std::collections::HashSet::new();
    properties
        .into_iter()
        .map(|property| {
            let key_span = key_span(&property.name);
            let key = property.name.into_string();
            if !seen.insert(key.clone()) {
                return Err(Unreadable::RepeatedKey { line: line_of(text, key_span.start), key });
            }
            Ok(Member { key, key_span, value: node(text, property.value)? })
        })
        .collect()
}

fn key_span(name: &ObjectPropName<'_>) -> Range<usize> {
    name.start()..name.end()
}
