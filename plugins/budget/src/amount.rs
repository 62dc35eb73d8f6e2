//! What a call spends, read from an argument: exactly, or not at all.

use callgate_sdk::arguments::{Argument, Arguments};

/// The largest amount: up to here a charge holds every whole number.
pub(crate) const AMOUNT_MAX: u64 = 1 << 53;

/// Which argument holds the amount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AmountArgument {
    pub(crate) name: String,
    /// A call without it is refused.
    pub(crate) is_required: bool,
}

/// What a call spends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    /// Nothing: the argument is not there.
    None,
    Some(u64),
    /// What is wrong with the argument, as the rest of a sentence.
    Unreadable(&'static str),
}

impl AmountArgument {
    /// Reads the amount; `None` stands for arguments that are no JSON object. Of two that the name means the larger counts,
    /// as nobody knows which one the server reads.
    pub(crate) fn read(&self, arguments: Option<&Arguments<'_>>) -> Amount {
        let Some(arguments) = arguments else { return Amount::Unreadable("cannot be read") };
        let mut largest = None;
        for argument in arguments.named(&self.name) {
            match whole(argument) {
                Ok(amount) => largest = largest.max(Some(amount)),
                Err(fault) => return Amount::Unreadable(fault),
            }
        }
        match largest {
            Some(amount) => Amount::Some(amount),
            None if self.is_required => Amount::Unreadable("is missing"),
            None => Amount::None,
        }
    }

    /// Says what was wrong with it.
    pub(crate) fn refusal(&self, fault: &str) -> String {
        ["the argument `", &self.name, "` ", fault, ", where a spending cap needs a whole number from 0 to 2^53"]
            .concat()
    }
}

/// A JSON number as a whole one, or what it is instead. Exact whatever its spelling: `1e2` and `100.0` are 100.
fn whole(argument: Argument<'_>) -> Result<u64, &'static str> {
    let text = argument.json();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, &*text),
    };
    // What begins like a number is one: it was read as JSON.
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("is not a number");
    }
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [before, after].concat();
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    if is_negative {
        return Err("is negative");
    }
    let zeros = all.len() - all.trim_end_matches('0').len();
    match shift(exponent, after.len(), zeros) {
        shift if shift < 0 => Err("has a fraction"),
        shift => scaled(significant, shift).filter(|amount| *amount <= AMOUNT_MAX).ok_or("is above 2^53"),
    }
}

/// By how many places the significant digits are shifted to the left. Saturates: it only has to be far out where it is.
fn shift(exponent: &str, after_point: usize, zeros: usize) -> i64 {
    let places = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let beyond = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    exponent.parse().unwrap_or(beyond).saturating_add(places(zeros)).saturating_sub(places(after_point))
}

/// A number with zeros behind it; `None` past what 64 bits hold.
fn scaled(digits: &str, zeros: i64) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(10_u64.checked_pow(u32::try_from(zeros).ok()?)?)
}
