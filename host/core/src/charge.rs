//! Charges: what a call consumes, of which counter, and how far back the counter remembers.

use std::sync::Arc;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{RoundMode, Timestamp, ToSpan, Unit, ZonedDateTime, ZonedDateTimeRound};
use serde::{Deserialize, Serialize};

use crate::identity::{Agent, SessionId};
use crate::verdict::Rule;

/// The largest amount or limit: the largest number up to which every whole one is exact in every language's floats.
pub const QUANTITY_MAX: u64 = 1 << 53;
/// The longest sliding window, milliseconds: 31 days.
pub const SLIDING_MS_MAX: u32 = 2_678_400_000;
/// A sliding window is remembered in this many parts at most, so that a counter's size does not follow its limit. What was
/// spent is forgotten up to one part late, never early.
pub const SLIDING_PARTS: i64 = 1000;

/// Whose counter is meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The session's.
    Session,
    /// The agent's; all calls whose agent is not established share one.
    Agent,
    /// One for all.
    Everyone,
}

/// How long a calendar window is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalendarUnit {
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday to Sunday.
    Week,
    /// From the first of a month to its last.
    Month,
}

/// How far back a counter remembers.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Window {
    /// As long as its subject exists.
    Lifetime,
    /// The last so many milliseconds, 1 to [`SLIDING_MS_MAX`].
    SlidingMs(u32),
    /// Since the calendar unit began.
    Calendar {
        /// Its length.
        unit: CalendarUnit,
        /// Where it begins.
        zone: Zone,
    },
}

/// A time zone of the IANA database, as this build has it: what is installed on a machine plays no part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

/// No time zone has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no time zone is named {0:?}")]
pub struct UnknownZone(pub String);

impl TryFrom<String> for Zone {
    type Error = UnknownZone;

    fn try_from(name: String) -> Result<Self, UnknownZone> {
        match TimeZone::get(&name) {
            Ok(rules) => Ok(Self { name, rules }),
            Err(_) => Err(UnknownZone(name)),
        }
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.name
    }
}

impl std::hash::Hash for Zone {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for Zone {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Zone {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

/// A stretch of wall time, milliseconds since 1970: from `since_ms`, up to but not with `until_ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    /// Its beginning.
    pub since_ms: i64,
    /// The beginning of the next one.
    pub until_ms: i64,
}

impl CalendarUnit {
    /// The unit that `now_ms` lies in. `None` beyond the years that a calendar knows.
    pub fn period(self, zone: &Zone, now_ms: i64) -> Option<Period> {
        let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned_datetime(zone.rules.clone());
        let since = self.begin(&now)?;
        let until = match self {
            Self::Hour => since.checked_add(1.hour()),
            Self::Day => since.checked_add(1.day()),
            Self::Week => since.checked_add(1.week()),
            Self::Month => since.checked_add(1.month()),
        };
        Some(Period {
            since_ms: since.timestamp().as_millisecond(),
            until_ms: until.ok()?.timestamp().as_millisecond(),
        })
    }

    fn begin(self, now: &ZonedDateTime) -> Option<ZonedDateTime> {
        match self {
            // Where a clock is set by part of an hour, the hour that it is set in is shorter or longer, not two.
            Self::Hour => now.round(ZonedDateTimeRound::new().smallest(Unit::Hour).mode(RoundMode::Trunc)).ok(),
            Self::Day => now.start_of_day().ok(),
            Self::Week => {
                let days = now.weekday().since(Weekday::Monday);
                now.date().checked_sub(i64::from(days).days()).ok()?.to_zoned_datetime(now.time_zone().clone()).ok()
            }
            Self::Month => now.first_of_month().ok()?.start_of_day().ok(),
        }
    }
}

/// Which calls a charge counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Occasion {
    /// Those that are forwarded.
    Forwarded,
    /// All, refused ones too.
    Attempted,
}

/// What a plugin says that a call consumes. Cheap to clone: an answer that is given again is cloned for every call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Charge {
    /// Names the counter, beside the plugin's instance, the subject and the window.
    pub key: Arc<str>,
    /// Whose counter it is.
    pub subject: Subject,
    /// How far back it remembers.
    pub window: Window,
    /// Which calls it counts.
    pub occasion: Occasion,
    /// What the call adds, up to [`QUANTITY_MAX`].
    pub amount: u64,
    /// What the counter may reach, up to [`QUANTITY_MAX`].
    pub limit: u64,
    /// The setting it stands for.
    pub rule: Arc<Rule>,
    /// The denial's code when it does not fit.
    pub code: Arc<str>,
    /// What is said when it does not fit.
    pub message: Arc<str>,
}

/// Whom a counter belongs to.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// One session.
    Session(SessionId),
    /// One agent, by its id.
    Agent(String),
    /// All calls whose agent is not established.
    Unknown,
    /// All calls.
    Everyone,
}

impl Owner {
    /// The owner that `subject` means for a call.
    pub fn of(subject: Subject, session: &SessionId, agent: Option<&Agent>) -> Self {
        match subject {
            Subject::Session => Self::Session(session.clone()),
            Subject::Agent => agent.map_or(Self::Unknown, |agent| Self::Agent(agent.id.clone())),
            Subject::Everyone => Self::Everyone,
        }
    }
}

/// A charge that was applied, as its entry says it: enough to rebuild the counter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Applied {
    /// The plugin instance that asked for it.
    pub plugin: Arc<str>,
    /// The counter's name.
    pub key: Arc<str>,
    /// Whose counter it is.
    pub subject: Subject,
    /// How far back it remembers.
    pub window: Window,
    /// When the counter's calendar unit began, milliseconds since 1970; absent for other windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// What was added.
    pub amount: u64,
    /// What the counter says since.
    pub spent: u64,
    /// What it may reach.
    pub limit: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::try_from(name.to_owned()).unwrap()
    }

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn a_calendar_unit_begins_and_ends_where_its_zone_says() {
        let berlin = zone("Europe/Berlin");
        let cases = [
            (CalendarUnit::Hour, "2026-03-04T10:59:59.999Z", "2026-03-04T10:00:00Z", "2026-03-04T11:00:00Z"),
            (CalendarUnit::Day, "2026-03-04T22:59:59.999Z", "2026-03-03T23:00:00Z", "2026-03-04T23:00:00Z"),
            (CalendarUnit::Day, "2026-03-04T23:00:00Z", "2026-03-04T23:00:00Z", "2026-03-05T23:00:00Z"),
            // The clock is set forward on 29 March 2026: a day of 23 hours.
            (CalendarUnit::Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
            (CalendarUnit::Week, "2026-03-29T12:00:00Z", "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z"),
            (CalendarUnit::Month, "2026-03-29T12:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"),
        ];
        for (unit, now, since, until) in cases {
            let period = Period { since_ms: ms(since), until_ms: ms(until) };
            assert_eq!(unit.period(&berlin, ms(now)), Some(period), "{unit:?} {now}");
        }
        let half = Period { since_ms: ms("2026-03-04T10:30:00Z"), until_ms: ms("2026-03-04T11:30:00Z") };
        assert_eq!(CalendarUnit::Hour.period(&zone("Asia/Kolkata"), ms("2026-03-04T11:29:59Z")), Some(half));
        assert_eq!(CalendarUnit::Day.period(&berlin, i64::MAX), None);
    }

    #[test]
    fn a_zone_is_one_of_the_database() {
        assert_eq!(Zone::try_from("Europe/Nowhere".to_owned()), Err(UnknownZone("Europe/Nowhere".to_owned())));
        let window = Window::Calendar { unit: CalendarUnit::Day, zone: zone("Europe/Berlin") };
        let text = r#"{"calendar":{"unit":"day","zone":"Europe/Berlin"}}"#;
        assert_eq!(serde_json::to_string(&window).unwrap(), text);
        assert_eq!(serde_json::from_str::<Window>(text).unwrap(), window);
        assert_eq!(serde_json::to_string(&Window::SlidingMs(10)).unwrap(), r#"{"sliding-ms":10}"#);
    }
}
