//! `callgate verify`

use serde::Serialize;

use callgate_journal::{Claim, Sound, Verification};

use crate::cli::Verify;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

/// What `--json` prints; which members are there depends on `result`.
#[derive(Serialize)]
struct Shown {
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
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Shown {
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
            seq: None,
            message: None,
        }
    }
}

pub(super) fn verify(verify: &Verify, home: &Home) -> Outcome {
    let json = verify.json.json;
    match callgate_journal::verify(&home.database(), Some(&home.install_marker()), verify.expect_head) {
        Verification::Sound(sound) => holds(&sound, json),
        Verification::Broken { seq, breach } => broken(seq, &breach.to_string(), json),
        Verification::Unverifiable { missing, hint } => {
            if json {
                output::json(&Shown { message: Some(missing.clone()), ..Shown::of("unverifiable") })?;
            }
            Err(Failure::environment(missing).hint(hint))
        }
    }
}

fn holds(sound: &Sound, json: bool) -> Outcome {
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
            ..Shown::of("holds")
        })?;
    } else {
        output::line(&format!("the journal holds: {}", sound.claim))?;
        output::line(&format!("entries: {}", sound.head.entries))?;
        output::line(&format!("head: {}", sound.head.chain))?;
        output::line(&format!("arguments checked: {}", sound.arguments))?;
        output::line(&format!("calls still pending: {}", sound.pending_calls))?;
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
