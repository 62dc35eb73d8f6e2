//! YAML.
//!
//! Whatever is shared by an anchor, tagged or merged is kept as it is written and never looked into: an edit inside would reach
//! further than its place.

use std::collections::HashSet;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, StructureStyle};

use super::{Content, Layout, Member, Node, Unreadable, line_of};

/// Deeper than any of these files; a bound to the recursion.
const DEPTH_MAX: usize = 128;

pub(super) fn parse(text: &str) -> Result<Node, Unreadable> {
    let options = granit_parser::options! { flow_nesting_limit: DEPTH_MAX, block_nesting_limit: DEPTH_MAX };
    let mut reader = Reader { text, events: Parser::new_from_str_with_options(text, options) };
    let mut top = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(top.unwrap_or_else(Node::empty)),
            event if event.is_node() => {
                if top.is_some() {
                    return Err(Unreadable::Elsewhere("it holds more than one document".to_owned()));
                }
                top = Some(reader.node(event, span)?);
            }
            _ => {}
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Range<usize>), Unreadable> {
        let cut_short = || Unreadable::Elsewhere("it ends too early".to_owned());
        let (event, span) = self.events.next_event().ok_or_else(cut_short)?.map_err(|error| malformed(&error))?;
        Ok((event, Span::byte_range(&span).ok_or_else(cut_short)?))
    }

    fn node(&mut self, event: Event<'t>, span: Range<usize>) -> Result<Node, Unreadable> {
        let kept = event.tag().is_some() || event.anchor_id().is_some();
        let mut node = match event {
            Event::Scalar(value, style, ..) => Node { span, content: scalar(&value, style) },
            Event::SequenceStart(style, ..) => self.list(span.start, layout(style))?,
            Event::MappingStart(style, ..) => self.table(span.start, layout(style))?,
            _ => Node { content: Content::Other(self.written(&span)), span },
        };
        if kept {
            node.content = Content::Other(self.written(&node.span));
        }
        Ok(node)
    }

    fn list(&mut self, start: usize, layout: Layout) -> Result<Node, Unreadable> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                let start = self.first_dash(&items, layout).unwrap_or(start);
                return Ok(Node { span: start..span.end, content: Content::List(items, layout) });
            }
            items.push(self.node(event, span)?);
        }
    }

    /// A list in lines begins with its first dash, which the parser says only of lists that are indented.
    fn first_dash(&self, items: &[Node], layout: Layout) -> Option<usize> {
        let first = items.first().filter(|_| layout == Layout::Lines)?;
        Some(self.text.get(..first.span.start)?.trim_end().strip_suffix('-')?.len())
    }

    fn table(&mut self, start: usize, layout: Layout) -> Result<Node, Unreadable> {
        let (mut members, mut seen, mut plain) = (Vec::new(), HashSet::new(), true);
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                let span = start..span.end;
                let content = if plain { Content::Table(members, layout) } else { Content::Other(self.written(&span)) };
                return Ok(Node { span, content });
            }
            let key = self.node(event, span)?;
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            let Some(name) = key.text().filter(|name| *name != "<<").map(str::to_owned) else {
                plain = false;
                continue;
            };
            if !seen.insert(name.clone()) {
                return Err(Unreadable::RepeatedKey { line: line_of(self.text, key.span.start), key: name });
            }
            members.push(Member { key: name, key_span: key.span, value });
        }
    }

    fn written(&self, span: &Range<usize>) -> String {
        self.text.get(span.clone()).unwrap_or_default().to_owned()
    }
}

/// A text, or what no command can be: nothing, and a text over several lines of its own.
fn scalar(value: &str, style: ScalarStyle) -> Content {
    match style {
        ScalarStyle::Plain if matches!(value, "" | "~" | "null" | "Null" | "NULL") => Content::Other(value.to_owned()),
        ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Content::Text(value.to_owned()),
        ScalarStyle::Literal | ScalarStyle::Folded => Content::Other(value.to_owned()),
    }
}

const fn layout(style: StructureStyle) -> Layout {
    match style {
        StructureStyle::Block => Layout::Lines,
        StructureStyle::Flow => Layout::Bracketed,
    }
}

fn malformed(error: &ScanError) -> Unreadable {
    // The error's own text may show what stands there.
    Unreadable::Malformed { line: error.marker().line(), what: "this is not YAML that can be read".to_owned() }
}
