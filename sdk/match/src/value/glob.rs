//! Globs over `/`-separated segments.

use super::{Reading, SCHEME_END, path, url};
use crate::error::PatternError;

/// A glob over a whole value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Glob {
    segments: Vec<Segment>,
    /// Which segment of the pattern is a URL's authority.
    authority: Option<usize>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    /// `**`
    AnyDepth,
    One(Vec<Token>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Literal(char),
    /// `?`
    Any,
    /// `*`
    Star,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// What no wildcard in an authority matches: each ends the host's name for some parser, so that what a glob takes for the
/// end of a host would be something else.
const AUTHORITY_ENDS: [char; 4] = ['?', '#', '@', '\\'];

impl Glob {
    /// Reads a pattern that holds a wildcard.
    pub(super) fn parse(text: &str, reading: Reading) -> Result<Self, PatternError> {
        let written = Parser { text, at: 0 }.segments()?;
        for (segment, at) in &written {
            match segment.dots() {
                Some(1) if reading == Reading::Url => return Err(PatternError::DotSegment { at: *at }),
                Some(2) => return Err(PatternError::ParentSegment { at: *at }),
                _ => {}
            }
        }
        let segments = written.into_iter().map(|(segment, _)| segment);
        match reading {
            Reading::Path => {
                let named = segments.filter(|segment| !segment.is_empty() && segment.dots() != Some(1)).collect();
                let segments = path::finish(text.starts_with('/'), named, Segment::One(Vec::new()))?;
                Ok(Self { segments, authority: None })
            }
            Reading::Url => {
                debug_assert!(text.contains(SCHEME_END));
                Ok(Self { segments: segments.collect(), authority: url::authority_segment(text) })
            }
            Reading::Text => Ok(Self { segments: segments.collect(), authority: None }),
        }
    }

    /// Whether it matches the segments of a value.
    pub(super) fn matches(&self, value: &[&str]) -> bool {
        self.matches_url(value, None)
    }

    /// Whether it matches the segments of a URL, of which one is the authority.
    pub(super) fn matches_url(&self, value: &[&str], authority: Option<usize>) -> bool {
        // As in a segment: the last `**` seen can be made to swallow one segment more, an earlier one never needs to.
        let (mut wanted, mut given) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match (self.segments.get(wanted), value.get(given)) {
                (Some(Segment::AnyDepth), _) => {
                    retry = Some((wanted + 1, given));
                    wanted += 1;
                    if wanted == self.segments.len() && self.ends_below(&value[given..]) {
                        let swallowed = |(index, segment): (usize, &&str)| {
                            may_be_swallowed(segment, authority == Some(given + index))
                        };
                        return value[given..].iter().enumerate().all(swallowed);
                    }
                    continue;
                }
                (Some(Segment::One(tokens)), Some(segment))
                    if matches(tokens, segment, self.authority == Some(wanted) || authority == Some(given)) =>
                {
                    wanted += 1;
                    given += 1;
                    continue;
                }
                (None, None) if !self.ends_in_any_depth() => return true,
                _ => {}
            }
            let Some((after, swallowed)) = &mut retry else { return false };
            match value.get(*swallowed) {
                Some(segment) if may_be_swallowed(segment, authority == Some(*swallowed)) => *swallowed += 1,
                _ => return false,
            }
            (wanted, given) = (*after, *swallowed);
        }
    }

    fn ends_in_any_depth(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::AnyDepth))
    }

    /// Whether a last `**` may take what is left: alone it takes all, below something it needs a segment that is there.
    fn ends_below(&self, left: &[&str]) -> bool {
        self.segments.len() == 1 || left.iter().any(|segment| !segment.is_empty())
    }
}

/// Whether `**` may cross a segment.
fn may_be_swallowed(segment: &str, authority: bool) -> bool {
    !(authority && segment.contains(AUTHORITY_ENDS))
}

impl Segment {
    fn is_empty(&self) -> bool {
        matches!(self, Self::One(tokens) if tokens.is_empty())
    }

    /// How many dots it is, if it is nothing else: 1 or 2.
    fn dots(&self) -> Option<usize> {
        match self {
            Self::One(tokens) if tokens.iter().all(|token| *token == Token::Literal('.')) => {
                Some(tokens.len()).filter(|dots| (1..=2).contains(dots))
            }
            Self::One(_) | Self::AnyDepth => None,
        }
    }
}

/// Whether the tokens match a whole segment. Takes at most segment × tokens steps.
fn matches(tokens: &[Token], segment: &str, authority: bool) -> bool {
    let is_matched = |wanted: &Token, given: char| match wanted {
        Token::Literal(literal) => *literal == given,
        Token::Star => false,
        _ if authority && AUTHORITY_ENDS.contains(&given) => false,
        Token::Any => true,
        Token::Class { negated, ranges } => ranges.iter().any(|(from, to)| (*from..=*to).contains(&given)) != *negated,
    };
    let (mut wanted, mut rest) = (0, segment.chars());
    let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let before = rest.clone();
        match (tokens.get(wanted), rest.next()) {
            (Some(Token::Star), _) => {
                wanted += 1;
                rest = before;
                retry = Some((wanted, rest.clone()));
                continue;
            }
            (Some(token), Some(given)) if is_matched(token, given) => {
                wanted += 1;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((after, swallowed)) = &mut retry else { return false };
        match swallowed.next() {
            Some(given) if !(authority && AUTHORITY_ENDS.contains(&given)) => {}
            _ => return false,
        }
        (wanted, rest) = (*after, swallowed.clone());
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    /// The pattern's segments, each with the byte at which it begins.
    fn segments(mut self) -> Result<Vec<(Segment, usize)>, PatternError> {
        let mut segments = Vec::new();
        let (mut tokens, mut start) = (Vec::new(), 0);
        while let Some(char) = self.next() {
            match char {
                '/' => {
                    segments.push((segment(std::mem::take(&mut tokens)), start));
                    start = self.at;
                }
                '*' => tokens.push(Token::Star),
                '?' => tokens.push(Token::Any),
                '[' => tokens.push(self.class()?),
                literal => tokens.push(Token::Literal(literal)),
            }
        }
        segments.push((segment(tokens), start));
        Ok(segments)
    }

    /// A class, from behind its `[`.
    fn class(&mut self) -> Result<Token, PatternError> {
        let at = self.at - 1;
        let unclosed = PatternError::UnclosedClass { at };
        let negated = self.rest().starts_with('!');
        if negated {
            self.at += 1;
        }
        let mut ranges = Vec::new();
        loop {
            let from = self.next().ok_or(unclosed.clone())?;
            if from == ']' && !ranges.is_empty() {
                break;
            }
            let mut ahead = self.rest().chars();
            let to = match (ahead.next(), ahead.next()) {
                (Some('-'), Some(to)) if to != ']' => {
                    self.at += 1 + to.len_utf8();
                    to
                }
                _ => from,
            };
            ranges.push((from, to));
        }
        if let Some((from, to)) = ranges.iter().find(|(from, to)| from > to) {
            return Err(PatternError::ReversedRange { from: *from, to: *to, at });
        }
        if ranges.iter().any(|(from, to)| (*from..=*to).contains(&'/')) {
            return Err(PatternError::SlashInClass { at });
        }
        Ok(Token::Class { negated, ranges })
    }

    fn next(&mut self) -> Option<char> {
        let char = self.rest().chars().next()?;
        self.at += char.len_utf8();
        Some(char)
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

fn segment(tokens: Vec<Token>) -> Segment {
    if tokens == [Token::Star, Token::Star] { Segment::AnyDepth } else { Segment::One(tokens) }
}
