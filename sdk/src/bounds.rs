//! The contract's bounds on what a plugin answers (`wit/`), and how the SDK keeps to them: prose is shortened, identifiers
//! never (a shortened counter key would be another counter; the host refuses it as a bad answer).

use crate::{Decision, Rule, SettingsError, SettingsWarning, Verdict};

/// The longest code, in bytes.
pub const CODE_BYTES_MAX: usize = 64;
/// The longest message of a denial, question, charge, settings error or warning, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// The longest JSON pointer, in bytes.
pub const POINTER_BYTES_MAX: usize = 512;
/// The longest text of a rule, in bytes.
pub const RULE_TEXT_BYTES_MAX: usize = 512;
/// The longest policy name of a rule, in bytes.
pub const RULE_POLICY_BYTES_MAX: usize = 128;
/// The longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 512;
/// The most notes of a decision.
pub const NOTES_MAX: usize = 64;
/// The most charges of a decision.
pub const CHARGES_MAX: usize = 64;
/// The longest key of a charge, in bytes.
pub const CHARGE_KEY_BYTES_MAX: usize = 128;
/// The largest amount or limit of a charge: the largest f64 up to which every whole number is exact.
pub const QUANTITY_MAX: f64 = 9_007_199_254_740_992.0;
/// The longest sliding window, in milliseconds: 31 days.
pub const SLIDING_MS_MAX: u32 = 2_678_400_000;
/// The longest time zone name, in bytes.
pub const ZONE_BYTES_MAX: usize = 64;
/// The most settings errors or warnings.
pub const SETTINGS_FINDINGS_MAX: usize = 64;

/// What a shortened text ends in.
const ELLIPSIS: &str = "…";

/// Shortens a text to at most so many bytes, at a character's edge and with an ellipsis.
pub(crate) fn shorten(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
}

/// Shortens a JSON pointer to one of what its place is in.
fn shorten_pointer(pointer: &mut String) {
    if pointer.len() > POINTER_BYTES_MAX {
        pointer.truncate(pointer.floor_char_boundary(POINTER_BYTES_MAX));
        pointer.truncate(pointer.rfind('/').unwrap_or_default());
    }
}

pub(crate) fn shorten_decision(decision: &mut Decision) {
    match &mut decision.verdict {
        Verdict::Deny(denial) => shorten(&mut denial.message, MESSAGE_BYTES_MAX),
        Verdict::Ask(question) => shorten(&mut question.message, MESSAGE_BYTES_MAX),
        Verdict::Allow | Verdict::Abstain => {}
    }
    if let Some(rule) = &mut decision.rule {
        shorten_rule(rule);
    }
    if decision.notes.len() > NOTES_MAX {
        let more = decision.notes.len() - (NOTES_MAX - 1);
        decision.notes.truncate(NOTES_MAX - 1);
        decision.notes.push(format!("and {more} more notes"));
    }
    for note in &mut decision.notes {
        shorten(note, NOTE_BYTES_MAX);
    }
    for charge in &mut decision.charges {
        shorten(&mut charge.message, MESSAGE_BYTES_MAX);
        shorten_rule(&mut charge.rule);
    }
}

fn shorten_rule(rule: &mut Rule) {
    shorten_pointer(&mut rule.path);
    shorten(&mut rule.text, RULE_TEXT_BYTES_MAX);
}

pub(crate) fn shorten_errors(errors: &mut Vec<SettingsError>) {
    if errors.len() > SETTINGS_FINDINGS_MAX {
        let more = errors.len() - (SETTINGS_FINDINGS_MAX - 1);
        errors.truncate(SETTINGS_FINDINGS_MAX - 1);
        errors.push(SettingsError { path: String::new(), message: format!("and {more} more errors"), hint: None });
    }
    for error in errors {
        shorten_pointer(&mut error.path);
        shorten(&mut error.message, MESSAGE_BYTES_MAX);
        if let Some(hint) = &mut error.hint {
            shorten(hint, MESSAGE_BYTES_MAX);
        }
    }
}

pub(crate) fn shorten_warnings(warnings: &mut Vec<SettingsWarning>) {
    if warnings.len() > SETTINGS_FINDINGS_MAX {
        let more = warnings.len() - (SETTINGS_FINDINGS_MAX - 1);
        warnings.truncate(SETTINGS_FINDINGS_MAX - 1);
        warnings.push(SettingsWarning { path: String::new(), message: format!("and {more} more warnings") });
    }
    for warning in warnings {
        shorten_pointer(&mut warning.path);
        shorten(&mut warning.message, MESSAGE_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_between_characters() {
        let mut text = "é".repeat(10);
        shorten(&mut text, 10);
        assert_eq!(text, "ééé…");
        let mut text = "é".repeat(5);
        shorten(&mut text, 10);
        assert_eq!(text, "ééééé");
    }

    #[test]
    fn a_pointer_is_shortened_to_an_outer_place() {
        let mut pointer = format!("/rules/{}~0/x", "k".repeat(504));
        shorten_pointer(&mut pointer);
        assert_eq!(pointer, "/rules");
        let mut pointer = format!("/{}", "k".repeat(511));
        shorten_pointer(&mut pointer);
        assert_eq!(pointer.len(), 512);
    }

    #[test]
    fn a_decision_is_brought_within_its_bounds() {
        let mut decision = Decision::deny("deny", "m".repeat(2000));
        decision.notes = vec!["n".repeat(600); 70];
        shorten_decision(&mut decision);
        assert_eq!(decision.notes.len(), NOTES_MAX);
        assert_eq!(decision.notes[0].len(), NOTE_BYTES_MAX);
        assert_eq!(decision.notes[63], "and 7 more notes");
        let Verdict::Deny(denial) = decision.verdict else { panic!("still a denial") };
        assert_eq!(denial.message.len(), MESSAGE_BYTES_MAX);
    }

    #[test]
    fn errors_past_the_bound_are_counted() {
        let mut errors = vec![SettingsError::new(crate::Pointer::root(), "x"); 100];
        shorten_errors(&mut errors);
        assert_eq!(errors.len(), SETTINGS_FINDINGS_MAX);
        assert_eq!(errors[63].message, "and 37 more errors");
    }
}
