//! Files as trees that know where in the file everything stands, and the splices that change them.

mod json;
pub(crate) mod splice;
mod toml;
mod yaml;

use std::ops::Range;

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// JSON, and nothing else.
    Json,
    /// JSON with comments.
    JsonWithComments,
    /// JSON with comments, and commas behind the last member.
    JsonWithTrailingCommas,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// Why a file cannot be read. None of these says anything of what is in the file but a key's name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not UTF-8.
    #[error("the file is not UTF-8")]
    NotText,
    /// It does not parse.
    #[error("line {line}: {what}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        what: String,
    },
    /// It does not parse, and where is not known.
    #[error("the file does not parse: {0}")]
    Elsewhere(String),
    /// What is at the top is not a table of keys.
    #[error("the file holds something else than keys and values")]
    NotATable,
    /// A key stands twice in one table. Which of them counts depends on who reads the file.
    #[error("line {line}: the key {key:?} stands twice in one table, and programs differ in which one counts")]
    RepeatedKey {
        /// The second one's line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
}

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its bytes in the file. A TOML table that is not inline has those of its header, or none.
    pub(crate) span: Range<usize>,
    pub(crate) content: Content,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(String),
    List(Vec<Node>, Layout),
    Table(Vec<Member>, Layout),
    /// A number, a truth value, nothing, or what only its own dialect has. Kept as it is written.
    Other(String),
}

/// How a list or a table is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// Between brackets, with commas.
    Bracketed,
    /// Each item in lines of its own.
    Lines,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) key: String,
    /// The key's bytes in the file; of a dotted key, those of its last part.
    pub(crate) key_span: Range<usize>,
    pub(crate) value: Node,
}

impl Node {
    /// Nothing, as an empty file has it.
    fn empty() -> Self {
        Self { span: 0..0, content: Content::Table(Vec::new(), Layout::Lines) }
    }

    /// A text that stands nowhere yet.
    pub(crate) fn of(text: &str) -> Self {
        Self { span: 0..0, content: Content::Text(text.to_owned()) }
    }

    /// Whether it says that there is nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(&self.content, Content::Other(written) if matches!(written.as_str(), "" | "null" | "~"))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::List(..) | Content::Table(..) | Content::Other(_) => None,
        }
    }

    pub(crate) fn items(&self) -> Option<&[Self]> {
        match &self.content {
            Content::List(items, _) => Some(items),
            Content::Text(_) | Content::Table(..) | Content::Other(_) => None,
        }
    }

    pub(crate) fn members(&self) -> Option<&[Member]> {
        match &self.content {
            Content::Table(members, _) => Some(members),
            Content::Text(_) | Content::List(..) | Content::Other(_) => None,
        }
    }

    pub(crate) fn members_mut(&mut self) -> Option<&mut Vec<Member>> {
        match &mut self.content {
            Content::Table(members, _) => Some(members),
            Content::Text(_) | Content::List(..) | Content::Other(_) => None,
        }
    }

    /// The texts of a list of texts.
    pub(crate) fn texts(&self) -> Option<Vec<&str>> {
        self.items()?.iter().map(Self::text).collect()
    }

    pub(crate) fn member(&self, key: &str) -> Option<&Member> {
        self.members()?.iter().find(|member| member.key == key)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.value)
    }

    pub(crate) fn value_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.members_mut()?.iter_mut().find(|member| member.key == key).map(|member| &mut member.value)
    }

    /// The node at the end of these places, each a member of the one before.
    pub(crate) fn at(&self, places: &[usize]) -> Option<&Self> {
        places.iter().try_fold(self, |node, place| node.members()?.get(*place).map(|member| &member.value))
    }

    pub(crate) fn at_mut(&mut self, places: &[usize]) -> Option<&mut Self> {
        places.iter().try_fold(self, |node, place| node.members_mut()?.get_mut(*place).map(|member| &mut member.value))
    }

    /// Whether both say the same, wherever it stands and however it is laid out.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        match (&self.content, &other.content) {
            (Content::Text(one), Content::Text(two)) | (Content::Other(one), Content::Other(two)) => one == two,
            (Content::List(one, _), Content::List(two, _)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.says_the_same(two))
            }
            (Content::Table(one, _), Content::Table(two, _)) => {
                let same = |(one, two): (&Member, &Member)| one.key == two.key && one.value.says_the_same(&two.value);
                one.len() == two.len() && one.iter().zip(two).all(same)
            }
            (Content::Text(_) | Content::List(..) | Content::Table(..) | Content::Other(_), _) => false,
        }
    }
}

/// Reads a file's text. An empty one has nothing in it, in whatever dialect.
pub(crate) fn parse(dialect: Dialect, text: &str) -> Result<Node, Unreadable> {
    // Some editors on Windows put a byte order mark in front, which the programs that read these files skip.
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    if body.trim().is_empty() {
        return Ok(Node::empty());
    }
    let mut node = match dialect {
        Dialect::Json => json::parse(body, json::Leniency { comments: false, trailing_commas: false }),
        Dialect::JsonWithComments => json::parse(body, json::Leniency { comments: true, trailing_commas: false }),
        Dialect::JsonWithTrailingCommas => json::parse(body, json::Leniency { comments: true, trailing_commas: true }),
        Dialect::Toml => toml::parse(body),
        Dialect::Yaml => yaml::parse(body),
    }?;
    if node.members().is_none() {
        return Err(Unreadable::NotATable);
    }
    shift(&mut node, text.len() - body.len());
    Ok(node)
}

/// Moves every place by the bytes that were taken off in front.
fn shift(node: &mut Node, by: usize) {
    let moved = |span: &Range<usize>| span.start + by..span.end + by;
    node.span = moved(&node.span);
    match &mut node.content {
        Content::List(items, _) => items.iter_mut().for_each(|item| shift(item, by)),
        Content::Table(members, _) => {
            for member in members {
                member.key_span = moved(&member.key_span);
                shift(&mut member.value, by);
            }
        }
        Content::Text(_) | Content::Other(_) => {}
    }
}

/// The line of a place, from 1.
pub(crate) fn line_of(text: &str, place: usize) -> usize {
    text.as_bytes().iter().take(place).filter(|byte| **byte == b'\n').count() + 1
}
