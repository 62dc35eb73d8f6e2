//! Which values look like secrets. A guess: what is found is named for a person to judge, and is never shown.

/// What the names of variables with secrets have in them, as words between underscores.
const NAMES: [&str; 16] = [
    "TOKEN",
    "KEY",
    "APIKEY",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "PAT",
    "CREDENTIAL",
    "CREDENTIALS",
    "BEARER",
    "AUTH",
    "AUTHORIZATION",
    "DSN",
];
/// What the secrets of well-known services begin with.
const BEGINNINGS: [&str; 28] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "npm_",
    "pypi-",
    "hf_",
    "lin_api_",
    "ntn_",
    "secret_",
    "dop_v1_",
    "eyJ",
    "-----BEGIN",
];
/// Shorter ones are flags and numbers rather than secrets.
const LETTERS_MIN: usize = 6;
/// From this length on a value that looks drawn at random is taken for a secret whatever it is called.
const RANDOM_LETTERS_MIN: usize = 24;
/// Bits a letter. English words have about four, hexadecimal digits drawn at random just under four.
const RANDOM_BITS_MIN: f64 = 3.5;

/// Whether the value of this variable looks like a secret.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    value.chars().count() >= LETTERS_MIN
        && !has_variable(value)
        && (has_secret_name(name) && !is_place(value)
            || begins_like_one(value)
            || looks_random(value)
            || has_password(value))
}

/// Whether a value that no name says anything about looks like a secret.
pub(crate) fn looks_secret(value: &str) -> bool {
    is_secret("", value)
}

/// Whether the client fills something in: what stands there is not what the server gets.
pub(crate) fn has_variable(text: &str) -> bool {
    let dollar = |place: usize| {
        let next = text.as_bytes().get(place + 1);
        next.is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'{' | b'_'))
    };
    text.match_indices('$').any(|(place, _)| dollar(place)) || text.contains("{env:") || text.contains("{file:")
}

pub(crate) fn has_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.split(['_', '-', '.']).any(|word| NAMES.contains(&word)) || name.ends_with("TOKEN") || name.ends_with("APIKEY")
}

/// A path or an address is where a secret is, not the secret itself.
fn is_place(value: &str) -> bool {
    (value.starts_with(['/', '~']) || value.starts_with("./") || value.contains("://")) && !has_password(value)
}

fn begins_like_one(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    value.len() >= 12 && BEGINNINGS.iter().any(|beginning| value.starts_with(beginning))
}

/// `scheme://user:password@host`
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, word)| !word.is_empty()))
}

fn looks_random(value: &str) -> bool {
    let one_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'='));
    one_word
        && value.len() >= RANDOM_LETTERS_MIN
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && bits_a_letter(value) >= RANDOM_BITS_MIN
}

/// Shannon's entropy of the letters, in bits.
fn bits_a_letter(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = f64::from(counts.iter().sum::<u32>());
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / all;
            -share * share.log2()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_or_looks_like_a_secret_is_one() {
        for (name, value) in [
            ("GITHUB_TOKEN", "abcdef"),
            ("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_0123456789abcdef"),
            ("API_KEY", "something"),
            ("apiKey", "something"),
            ("DB_PASSWORD", "hunter2"),
            ("X", "sk-proj-0123456789"),
            ("HEADER", "Bearer ghp_0123456789abcdef"),
            ("X", "3f9a0b7c51d24e86a9c0f1e2d3b4a596"),
            ("DATABASE_URL", "postgres://me:hunter2@localhost/x"),
        ] {
            assert!(is_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn what_names_a_place_or_is_filled_in_is_none() {
        for (name, value) in [
            ("GITHUB_TOKEN", "${GITHUB_TOKEN}"),
            ("GITHUB_TOKEN", "$GITHUB_TOKEN"),
            ("GITHUB_TOKEN", "${env:GITHUB_TOKEN}"),
            ("GITHUB_TOKEN", "{env:GITHUB_TOKEN}"),
            ("GITHUB_TOKEN", ""),
            ("SSH_KEY", "/home/me/.ssh/id_ed25519"),
            ("TOKEN_URL", "https://example.org/token"),
            ("MAX_TOKENS", "8192"),
            ("KEYBOARD", "qwertz-layout"),
            ("LOG_LEVEL", "debug-everything-always"),
            ("PATH", "/usr/local/bin:/usr/bin"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }
}
