//! The settings as written.

use std::fmt;

use callgate_sdk::{CalendarUnit, Occasion, Subject};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// A budget.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) limit: u64,
    pub(super) tool: Option<String>,
    pub(super) all_tools: Option<bool>,
    pub(super) agent: Option<String>,
    pub(super) server: Option<String>,
    #[serde(default = "session", with = "Per")]
    pub(super) per: Subject,
    #[serde(default)]
    pub(super) window: Span,
    #[serde(default = "forwarded", with = "Count")]
    pub(super) count: Occasion,
    pub(super) amount: Option<Spending>,
}

fn session() -> Subject {
    Subject::Session
}

fn forwarded() -> Occasion {
    Occasion::Forwarded
}

#[derive(Deserialize)]
#[serde(remote = "Subject", rename_all = "lowercase")]
enum Per {
    Session,
    Agent,
    Everyone,
}

#[derive(Deserialize)]
#[serde(remote = "Occasion", rename_all = "lowercase")]
enum Count {
    Forwarded,
    Attempted,
}

/// Which argument is counted instead of calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spending {
    pub(super) argument: String,
    #[serde(default)]
    pub(super) required: bool,
}

/// Loop detection.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoopsEntry {
    pub(super) times: u32,
    pub(super) seconds: u32,
}

/// A window: the word `lifetime`, or an object.
#[derive(Debug, Default)]
pub(super) enum Span {
    #[default]
    Lifetime,
    Other {
        sliding_seconds: Option<u32>,
        calendar: Option<CalendarUnit>,
        zone: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpanObject {
    sliding_seconds: Option<u32>,
    calendar: Option<UnitWord>,
    zone: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum UnitWord {
    Hour,
    Day,
    Week,
    Month,
}

impl From<UnitWord> for CalendarUnit {
    fn from(word: UnitWord) -> Self {
        match word {
            UnitWord::Hour => Self::Hour,
            UnitWord::Day => Self::Day,
            UnitWord::Week => Self::Week,
            UnitWord::Month => Self::Month,
        }
    }
}

// By hand: an untagged enum would lose where in it something is wrong.
impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

struct SpanVisitor;

impl<'de> Visitor<'de> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`lifetime` or an object")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Span, E> {
        match word {
            "lifetime" => Ok(Span::Lifetime),
            other => Err(E::unknown_variant(other, &["lifetime"])),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Span, A::Error> {
        let SpanObject { sliding_seconds, calendar, zone } = SpanObject::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Span::Other { sliding_seconds, calendar: calendar.map(CalendarUnit::from), zone })
    }
}
