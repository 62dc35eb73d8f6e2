//! The names of counters: what is counted and nothing else, so that moving a budget or changing its limit never refills it.
//! Changing how they are written does, for everybody.

use callgate_sdk::bounds::CHARGE_KEY_BYTES_MAX;
use callgate_sdk::{Call, Occasion, Subject, Window};

use crate::amount::AmountArgument;
use crate::budget::{MS_PER_SECOND, Scope, unit};

/// A budget's key. What is as usual is left out.
pub(crate) fn of_budget(scope: &Scope, amount: Option<&AmountArgument>) -> String {
    let mut key = match &scope.tool {
        Some(tool) => format!("tool={}", escaped(tool.as_str())),
        None => "all-tools".to_owned(),
    };
    let per = match scope.subject {
        Subject::Session => None,
        Subject::Agent => Some("agent".to_owned()),
        Subject::Everyone => Some("everyone".to_owned()),
    };
    let window = match &scope.window {
        Window::Lifetime => None,
        Window::Sliding(ms) => Some(format!("{}s", ms / MS_PER_SECOND)),
        Window::Calendar(calendar) => Some(format!("{}:{}", unit(calendar.unit), escaped(&calendar.zone))),
    };
    let count = match scope.occasion {
        Occasion::Forwarded => None,
        Occasion::Attempted => Some("attempted".to_owned()),
    };
    let parts = [
        ("agent", scope.agent.clone()),
        ("server", scope.server.clone()),
        ("per", per),
        ("window", window),
        ("count", count),
        ("amount", amount.map(|argument| escaped(&argument.name))),
    ];
    for (name, value) in parts {
        if let Some(value) = value {
            key.extend([" ", name, "=", &value]);
        }
    }
    bounded(key)
}

/// The key of the same call again, within a time.
pub(crate) fn of_loop(seconds: u32, call: &Call) -> String {
    let (server, tool) = (escaped(&call.caller.server.name), escaped(&call.tool.name));
    let key =
        ["loop=", call.arguments_digest(), " window=", &seconds.to_string(), "s server=", &server, " tool=", &tool];
    bounded(key.concat())
}

/// Writes a text so that it holds nothing that a key has between its parts or before a digest.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace(' ', "%20").replace('#', "%23")
}

/// What stands between a shortened key and its digest.
const DIGEST_MARK: &str = "#";

/// The digits of a digest, 64 bits in hexadecimal.
const DIGEST_BYTES: usize = 16;

/// A key within the contract's bound: one that is too long becomes its beginning and a digest of the whole.
fn bounded(mut key: String) -> String {
    if key.len() > CHARGE_KEY_BYTES_MAX {
        let digest = fnv(key.as_bytes());
        key.truncate(key.floor_char_boundary(CHARGE_KEY_BYTES_MAX - DIGEST_MARK.len() - DIGEST_BYTES));
        key.push_str(DIGEST_MARK);
        for place in (0..DIGEST_BYTES).rev() {
            let digit = (digest >> (4 * place) & 0xf).to_le_bytes()[0];
            key.push(char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
        }
    }
    key
}

/// FNV-1a, 64 bits. A cryptographic digest would guard nothing here: budgets are the operator's, and an agent that makes two
/// calls of its own collide is only refused sooner.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
