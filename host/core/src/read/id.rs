//! JSON-RPC ids: what is one, and which are the same.

use std::borrow::Cow;

use super::{Id, IdKey};
use crate::json;

/// The longest id, bytes of JSON text. Ids are kept for every request in flight and written into the journal; the ones
/// clients make take 1 to 40.
pub const ID_BYTES_MAX: usize = 4096;

/// Behind this many zeros a whole number is kept as digits and exponent: `1e999999999` must not become a gigabyte.
const ZEROS_MAX: usize = 32;

impl<'a> Id<'a> {
    /// The id with this JSON text; `None` when it is neither a string nor a whole number, or longer than
    /// [`ID_BYTES_MAX`].
    pub(super) fn read(raw: &'a str) -> Option<Self> {
        if raw.len() > ID_BYTES_MAX {
            return None;
        }
        let key = match raw.strip_prefix('"') {
            Some(string) => {
                let string = string.strip_suffix('"').filter(|string| json::is_well_formed(string))?;
                let text = json::decode(string);
                whole_number(&text).map_or_else(|| text.to_string(), Cow::into_owned)
            }
            None => whole_number(raw)?.into_owned(),
        };
        Some(Self { raw, key: IdKey(key) })
    }
}

/// The one spelling of the whole number that `text` spells in JSON's grammar; `None` for any other text. By text, so that
/// 2^53 and 2^53+1 stay apart.
fn whole_number(text: &str) -> Option<Cow<'_, str>> {
    let (sign, magnitude) = text.strip_prefix('-').map_or(("", text), |magnitude| ("-", magnitude));
    let short = magnitude.len() < ZEROS_MAX;
    if short && is_digits(magnitude) && (!magnitude.starts_with('0') || text == "0") {
        return Some(Cow::Borrowed(text));
    }
    let (mantissa, exponent) = magnitude.split_once(['e', 'E']).map_or((magnitude, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let grammatical = is_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(|exponent| is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    if !grammatical {
        return None;
    }
    let fraction = fraction.unwrap_or_default();
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let scale =
        exponent.map_or(0, saturating).saturating_add(zeros).saturating_sub(i64::try_from(fraction.len()).ok()?);
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(Cow::Borrowed("0"));
    }
    // A negative scale is a fraction.
    let scale = usize::try_from(scale).ok()?;
    Some(if scale <= ZEROS_MAX {
        format!("{sign}{significant}{:0<scale$}", "").into()
    } else {
        format!("{sign}{significant}e{scale}").into()
    })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// An exponent; beyond 64 bits the largest there is, whose like no two ids in flight will have.
fn saturating(exponent: &str) -> i64 {
    exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(raw: &str) -> Option<String> {
        Id::read(raw).map(|id| id.key.0)
    }

    #[test]
    fn every_spelling_of_a_whole_number_is_one_key() {
        for raw in ["7", "7.0", "7e0", "7E+0", "70e-1", "0.7e1", "0.0007e4", "7.000", "\"7\"", "\"7.0\"", r#""\u0037""#]
        {
            assert_eq!(key(raw).as_deref(), Some("7"), "{raw}");
        }
        for raw in ["0", "-0", "0.0", "0e5", "-0.0e-7", "\"0\"", "\"-0\""] {
            assert_eq!(key(raw).as_deref(), Some("0"), "{raw}");
        }
        assert_eq!(key("-1").as_deref(), Some("-1"));
        assert_eq!(key("1.5e3").as_deref(), Some("1500"));
        assert_eq!(key("100"), key("1e2"));
        assert_eq!(key("100"), key("1.00e2"));
        assert_eq!(key(&format!("1{}", "0".repeat(40))), key("1e40"));
        assert_eq!(key(&format!("1{}", "0".repeat(32))), key("1e32"));
        assert_eq!(key(&format!("1{}", "0".repeat(33))), key("1e33"));
    }

    #[test]
    fn large_numbers_stay_apart() {
        let numbers = ["9007199254740992", "9007199254740993", "18446744073709551615", "18446744073709551616"];
        let keys: std::collections::HashSet<_> = numbers.iter().map(|raw| key(raw)).collect();
        assert_eq!(keys.len(), numbers.len());
    }

    #[test]
    fn a_huge_exponent_costs_nothing() {
        assert_eq!(key("1e400").as_deref(), Some("1e400"));
        assert_eq!(key("10e399"), key("1e400"));
        assert_eq!(key("1e999999999").as_deref(), Some("1e999999999"));
        assert_eq!(key("1e-999999999"), None);
        assert!(key("1e99999999999999999999999999").is_some());
        assert_eq!(key("0e99999999999999999999999999").as_deref(), Some("0"));
    }

    #[test]
    fn other_strings_are_themselves() {
        for text in ["", "a", " 7", "07", "+7", "0x7", "1.5", "1e", ".5", "5.", "-", "١", "1e-1"] {
            assert_eq!(key(&format!("\"{text}\"")).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_no_id_has_no_key() {
        for raw in ["null", "true", "false", "1.5", "1e-1", "{}", "[]", "[1]", "0.1"] {
            assert_eq!(key(raw), None, "{raw}");
        }
        assert_eq!(key(&"1".repeat(ID_BYTES_MAX + 1)), None);
        assert!(key(&"1".repeat(ID_BYTES_MAX)).is_some());
    }
}
