//! `callgate verify`

use serde::Serialize;

use callgate_core::agent::Agents;
use callgate_core::charge::{CalendarUnit, Owner, Window};
use callgate_core::escape::visible;
use callgate_journal::{Claim, Counted, CounterState, Sound, Verification};

use crate::cli::Verify;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

/// What `--json` prints; which members are there depends on `result`.
#[derive(Serialize)]
struct Shown<'a> {
    /// `holds`, `broken` or `unverifiable`.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    install: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// Up to which entry the given head vouches.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_head_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<ShownCounters<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Shown<'_> {
    const fn of(result: &'static str) -> Self {
        Self {
            result,
            install: None,
            entries: None,
            head: None,
            claim: None,
            expected_head_at: None,
            arguments: None,
            pending_calls: None,
            counted: None,
            seq: None,
            message: None,
        }
    }
}

#[derive(Serialize)]
struct ShownCounters<'a> {
    /// How many charges were counted anew.
    charges: u64,
    /// After which entry they were last written down, just as they come out; 0 when they never were.
    written_after: u64,
    counters: Vec<ShownCounter<'a>>,
}

#[derive(Serialize)]
struct ShownCounter<'a> {
    plugin: &'a str,
    key: &'a str,
    window: &'a Window,
    by: &'a Owner,
    spent: u64,
}

impl<'a> From<&'a Counted> for ShownCounters<'a> {
    fn from(counted: &'a Counted) -> Self {
        let shown = |CounterState { name, owner, spent }: &'a CounterState| ShownCounter {
            plugin: &name.plugin,
            key: &name.key,
            window: &name.window,
            by: owner,
            spent: *spent,
        };
        let Counted { charges, written_after, counters } = counted;
        Self { charges: *charges, written_after: *written_after, counters: counters.iter().map(shown).collect() }
    }
}

pub(super) fn verify(verify: &Verify, home: &Home) -> Outcome {
    let json = verify.json.json;
    let counters = verify.counters;
    match callgate_journal::verify(&home.database(), Some(&home.install_marker()), verify.expect_head) {
        Verification::Sound(sound) => holds(&sound, counters, json),
        Verification::Broken { seq, breach } => broken(seq, &breach.to_string(), json),
        Verification::Unverifiable { missing, hint } => {
            if json {
                output::json(&Shown { message: Some(missing.clone()), ..Shown::of("unverifiable") })?;
            }
            Err(Failure::environment(missing).hint(hint))
        }
    }
}

fn holds(sound: &Sound, counters: bool, json: bool) -> Outcome {
    if json {
        output::json(&Shown {
            install: Some(sound.install.to_string()),
            entries: Some(sound.head.entries),
            head: Some(sound.head.chain.to_string()),
            claim: Some(sound.claim.to_string()),
            expected_head_at: match sound.claim {
                Claim::Chained { .. } => None,
                Claim::ChainedThrough { kept, .. } => Some(kept),
            },
            arguments: Some(sound.arguments),
            pending_calls: Some(sound.pending_calls),
            counted: counters.then(|| (&sound.counted).into()),
            ..Shown::of("holds")
        })?;
    } else {
        output::line(&format!("the journal holds: {}", sound.claim))?;
        output::line(&format!("entries: {}", sound.head.entries))?;
        output::line(&format!("head: {}", sound.head.chain))?;
        output::line(&format!("arguments checked: {}", sound.arguments))?;
        output::line(&format!("calls still pending: {}", sound.pending_calls))?;
        if counters {
            print(&sound.counted)?;
        }
    }
    Ok(Exit::Done)
}

fn broken(seq: u64, breach: &str, json: bool) -> Outcome {
    if json {
        output::json(&Shown { seq: Some(seq), message: Some(breach.to_owned()), ..Shown::of("broken") })?;
    } else if seq == 0 {
        output::line(&format!("the journal is BROKEN: {breach}"))?;
    } else {
        output::line(&format!("the journal is BROKEN at entry {seq}: {breach}"))?;
    }
    Ok(Exit::No)
}

fn print(Counted { charges, written_after, counters }: &Counted) -> Result<(), Failure> {
    let written = match written_after {
        0 => "none were written down yet".to_owned(),
        entry => format!("those written down after entry {entry} are the same"),
    };
    output::line(&format!("charges counted anew: {charges}, each comes to what its entry says; {written}"))?;
    output::line(&format!("counters: {}", counters.len()))?;
    for CounterState { name, owner, spent } in counters {
        let line = format!(
            "  {spent} by {} of {} {}{}",
            super::budget::owner(owner, &Agents::default()),
            name.plugin,
            name.key,
            within(&name.window)
        );
        output::line(&visible(&line))?;
    }
    Ok(())
}

fn within(window: &Window) -> String {
    match window {
        Window::Lifetime => String::new(),
        Window::SlidingMs(ms) => format!(" within {} s", ms / 1000),
        Window::Calendar { unit, zone } => {
            let unit = match unit {
                CalendarUnit::Hour => "hour",
                CalendarUnit::Day => "day",
                CalendarUnit::Week => "week",
                CalendarUnit::Month => "month",
            };
            format!(" each {unit} in {}", String::from(zone.clone()))
        }
    }
}
