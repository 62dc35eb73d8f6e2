//! From what a plugin returned to an answer that core takes: every bound that `wit/` states is checked here.

use callgate_core::charge::{CalendarUnit, Charge, Occasion, QUANTITY_MAX, SLIDING_MS_MAX, Subject, Window, Zone};
use callgate_core::escape::visible_up_to;
use callgate_core::verdict::{Answer, Denial, Failure, Question, Retry, Rule, Verdict};

use crate::bindings::callgate::policy::types;

/// Bounds of `wit/`, bytes of UTF-8 where they are of texts.
const CODE_BYTES_MAX: usize = 64;
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024;
pub(crate) const PATH_BYTES_MAX: usize = 512;
const POLICY_BYTES_MAX: usize = 128;
const RULE_BYTES_MAX: usize = 512;
const NOTES_MAX: usize = 64;
const NOTE_BYTES_MAX: usize = 512;
const CHARGES_MAX: usize = 64;
const KEY_BYTES_MAX: usize = 128;
const ZONE_BYTES_MAX: usize = 64;

/// How much of an offending text a failure shows.
const QUOTE_CHARS_MAX: usize = 80;

/// A bound that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken(pub(crate) String);

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::BadAnswer(broken.0)
    }
}

/// Checks a decision and makes it core's.
pub(crate) fn answer(decision: types::Decision) -> Result<Answer, Broken> {
    let types::Decision { verdict, rule, notes, charges, any_arguments: _ } = decision;
    if charges.len() > CHARGES_MAX {
        return Err(Broken(format!("it has {} charges, more than {CHARGES_MAX}", charges.len())));
    }
    if notes.len() > NOTES_MAX {
        return Err(Broken(format!("it has {} notes, more than {NOTES_MAX}", notes.len())));
    }
    notes.iter().try_for_each(|note| bounded("a note", note, NOTE_BYTES_MAX))?;
    Ok(Answer {
        verdict: checked_verdict(verdict)?,
        rule: rule.map(checked_rule).transpose()?,
        notes,
        charges: charges.into_iter().map(checked_charge).collect::<Result<_, _>>()?,
    })
}

fn checked_charge(charge: types::Charge) -> Result<Charge, Broken> {
    let types::Charge { key, subject, window, occasion, amount, limit, rule, code, message } = charge;
    if key.is_empty() {
        return Err(Broken("a charge has no key".to_owned()));
    }
    bounded("a charge's key", &key, KEY_BYTES_MAX)?;
    is_code(&code)?;
    bounded("a charge's message", &message, MESSAGE_BYTES_MAX)?;
    Ok(Charge {
        key: key.into(),
        subject: match subject {
            types::Subject::Session => Subject::Session,
            types::Subject::Agent => Subject::Agent,
            types::Subject::Everyone => Subject::Everyone,
        },
        window: checked_window(window)?,
        occasion: match occasion {
            types::Occasion::Forwarded => Occasion::Forwarded,
            types::Occasion::Attempted => Occasion::Attempted,
        },
        amount: quantity("a charge's amount", amount)?,
        limit: quantity("a charge's limit", limit)?,
        rule: checked_rule(rule)?.into(),
        code: code.into(),
        message: message.into(),
    })
}

fn checked_window(window: types::Window) -> Result<Window, Broken> {
    Ok(match window {
        types::Window::Lifetime => Window::Lifetime,
        types::Window::Sliding(ms) if (1..=SLIDING_MS_MAX).contains(&ms) => Window::SlidingMs(ms),
        types::Window::Sliding(ms) => {
            return Err(Broken(format!("a sliding window of {ms} ms is not between 1 and {SLIDING_MS_MAX}")));
        }
        types::Window::Calendar(types::Calendar { unit, zone }) => {
            bounded("a time zone", &zone, ZONE_BYTES_MAX)?;
            let unit = match unit {
                types::CalendarUnit::Hour => CalendarUnit::Hour,
                types::CalendarUnit::Day => CalendarUnit::Day,
                types::CalendarUnit::Week => CalendarUnit::Week,
                types::CalendarUnit::Month => CalendarUnit::Month,
            };
            Window::Calendar { unit, zone: Zone::try_from(zone).map_err(|unknown| Broken(unknown.to_string()))? }
        }
    })
}

/// A whole number that every language's floats hold exactly.
fn quantity(what: &str, number: f64) -> Result<u64, Broken> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() != 0.0 || !(0.0..=MAX).contains(&number) {
        return Err(Broken(format!("{what} is {number}, not a whole number from 0 to {QUANTITY_MAX}")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and within bounds")]
    let whole = number as u64;
    Ok(whole)
}

fn checked_verdict(verdict: types::Verdict) -> Result<Verdict, Broken> {
    Ok(match verdict {
        types::Verdict::Deny(types::Denial { code, message, retry }) => {
            is_code(&code)?;
            bounded("the message", &message, MESSAGE_BYTES_MAX)?;
            let retry = match retry {
                types::Retry::Never => Retry::Never,
                types::Retry::Changed => Retry::Changed,
                types::Retry::Later => Retry::Later,
            };
            Verdict::Deny(Denial { code, message, retry })
        }
        types::Verdict::Ask(types::Question { code, message, presence }) => {
            is_code(&code)?;
            bounded("the message", &message, MESSAGE_BYTES_MAX)?;
            Verdict::Ask(Question { code, message, presence })
        }
        types::Verdict::Allow => Verdict::Allow,
        types::Verdict::Abstain => Verdict::Abstain,
    })
}

fn checked_rule(rule: types::Rule) -> Result<Rule, Broken> {
    let types::Rule { path, policy, text } = rule;
    is_pointer(&path)?;
    if let Some(policy) = &policy {
        bounded("the rule's policy", policy, POLICY_BYTES_MAX)?;
    }
    bounded("the rule's text", &text, RULE_BYTES_MAX)?;
    Ok(Rule { path, policy, text })
}

/// Kebab-case: runs of `a-z` and `0-9` with one `-` between them.
fn is_code(code: &str) -> Result<(), Broken> {
    let is_run =
        |run: &str| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if code.len() <= CODE_BYTES_MAX && code.split('-').all(is_run) {
        return Ok(());
    }
    let quote = visible_up_to(code, QUOTE_CHARS_MAX);
    Err(Broken(format!("the code `{quote}` is not kebab-case of at most {CODE_BYTES_MAX} bytes")))
}

/// RFC 6901, section 3: empty, or references that start with `/`, in which `~` stands only before `0` or `1`.
pub(crate) fn is_pointer(path: &str) -> Result<(), Broken> {
    bounded("the path", path, PATH_BYTES_MAX)?;
    let escapes_are_whole = path.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if (path.is_empty() || path.starts_with('/')) && escapes_are_whole {
        return Ok(());
    }
    Err(Broken(format!("the path `{}` is not a JSON pointer", visible_up_to(path, QUOTE_CHARS_MAX))))
}

pub(crate) fn bounded(what: &str, text: &str, bytes_max: usize) -> Result<(), Broken> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(Broken(format!("{what} takes {} bytes, more than {bytes_max}", text.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow() -> types::Decision {
        types::Decision {
            verdict: types::Verdict::Allow,
            rule: None,
            notes: Vec::new(),
            charges: Vec::new(),
            any_arguments: false,
        }
    }

    fn deny(code: &str, message: &str) -> types::Decision {
        let denial = types::Denial { code: code.to_owned(), message: message.to_owned(), retry: types::Retry::Changed };
        types::Decision { verdict: types::Verdict::Deny(denial), ..allow() }
    }

    fn ask(code: &str, message: &str) -> types::Decision {
        let question = types::Question { code: code.to_owned(), message: message.to_owned(), presence: true };
        types::Decision { verdict: types::Verdict::Ask(question), ..allow() }
    }

    fn with_rule(path: &str, policy: Option<&str>, text: &str) -> types::Decision {
        let rule = types::Rule { path: path.to_owned(), policy: policy.map(str::to_owned), text: text.to_owned() };
        types::Decision { rule: Some(rule), ..allow() }
    }

    fn with_notes(notes: Vec<String>) -> types::Decision {
        types::Decision { notes, ..allow() }
    }

    #[test]
    fn an_answer_at_every_bound_is_taken_whole() {
        let decision = types::Decision {
            notes: vec!["n".repeat(512); 64],
            ..with_rule(&format!("/{}", "p".repeat(511)), Some(&"q".repeat(128)), &"t".repeat(512))
        };
        let expected = Answer {
            verdict: Verdict::Allow,
            rule: Some(Rule {
                path: format!("/{}", "p".repeat(511)),
                policy: Some("q".repeat(128)),
                text: "t".repeat(512),
            }),
            notes: vec!["n".repeat(512); 64],
            charges: Vec::new(),
        };
        assert_eq!(answer(decision), Ok(expected));

        for code in ["a", "deny", "too-many-calls-2", &"c".repeat(64)] {
            let denial = Denial {
                code: code.to_owned(),
                message: "m".repeat(1024),
                retry: callgate_core::verdict::Retry::Changed,
            };
            assert_eq!(answer(deny(code, &"m".repeat(1024))).map(|answer| answer.verdict), Ok(Verdict::Deny(denial)));
        }
        for path in ["", "/", "/rules/5", "/a~0b~1c"] {
            assert!(answer(with_rule(path, None, "")).is_ok(), "{path:?}");
        }
    }

    #[test]
    fn every_broken_bound_is_named() {
        let long_code = "c".repeat(65);
        let cases = [
            (deny("", "m"), "the code `` is not kebab-case of at most 64 bytes"),
            (deny("Bad Code", "m"), "the code `Bad Code` is not kebab-case of at most 64 bytes"),
            (deny("a--b", "m"), "the code `a--b` is not kebab-case of at most 64 bytes"),
            (deny("-a", "m"), "the code `-a` is not kebab-case of at most 64 bytes"),
            (deny("a\u{1b}[2J", "m"), "the code `a\\u{1b}[2J` is not kebab-case of at most 64 bytes"),
            (ask("ünder", "m"), "the code `ünder` is not kebab-case of at most 64 bytes"),
            (deny(&long_code, "m"), &format!("the code `{long_code}` is not kebab-case of at most 64 bytes")),
            (deny("a", &"m".repeat(1025)), "the message takes 1025 bytes, more than 1024"),
            (ask("a", &"m".repeat(1025)), "the message takes 1025 bytes, more than 1024"),
            (with_rule("rules/5", None, ""), "the path `rules/5` is not a JSON pointer"),
            (with_rule("/a~2", None, ""), "the path `/a~2` is not a JSON pointer"),
            (with_rule("/a~", None, ""), "the path `/a~` is not a JSON pointer"),
            (with_rule(&"/".repeat(513), None, ""), "the path takes 513 bytes, more than 512"),
            (with_rule("", Some(&"p".repeat(129)), ""), "the rule's policy takes 129 bytes, more than 128"),
            (with_rule("", None, &"t".repeat(513)), "the rule's text takes 513 bytes, more than 512"),
            (with_notes(vec![String::new(); 65]), "it has 65 notes, more than 64"),
            (with_notes(vec!["n".repeat(513)]), "a note takes 513 bytes, more than 512"),
        ];
        for (decision, broken) in cases {
            assert_eq!(answer(decision), Err(Broken(broken.to_owned())));
        }
    }

    #[test]
    fn every_broken_bound_of_a_charge_is_named() {
        let charge = || types::Charge {
            key: "k".to_owned(),
            subject: types::Subject::Session,
            window: types::Window::Lifetime,
            occasion: types::Occasion::Forwarded,
            amount: 1.0,
            limit: 9_007_199_254_740_992.0,
            rule: types::Rule { path: String::new(), policy: None, text: String::new() },
            code: "over".to_owned(),
            message: String::new(),
        };
        let taken = answer(types::Decision { charges: vec![charge(); 64], ..allow() }).unwrap();
        assert_eq!((taken.charges.len(), taken.charges[0].amount, taken.charges[0].limit), (64, 1, QUANTITY_MAX));
        let calendar = |zone: &str| {
            types::Window::Calendar(types::Calendar { unit: types::CalendarUnit::Week, zone: zone.to_owned() })
        };
        let berlin = types::Charge { window: calendar("Europe/Berlin"), ..charge() };
        assert!(answer(types::Decision { charges: vec![berlin], ..allow() }).is_ok());

        let cases = [
            (types::Charge { key: String::new(), ..charge() }, "a charge has no key"),
            (types::Charge { key: "k".repeat(129), ..charge() }, "a charge's key takes 129 bytes, more than 128"),
            (
                types::Charge { code: "No".to_owned(), ..charge() },
                "the code `No` is not kebab-case of at most 64 bytes",
            ),
            (
                types::Charge { message: "m".repeat(1025), ..charge() },
                "a charge's message takes 1025 bytes, more than 1024",
            ),
            (
                types::Charge { amount: -1.0, ..charge() },
                "a charge's amount is -1, not a whole number from 0 to 9007199254740992",
            ),
            (
                types::Charge { amount: 0.5, ..charge() },
                "a charge's amount is 0.5, not a whole number from 0 to 9007199254740992",
            ),
            (
                types::Charge { limit: f64::NAN, ..charge() },
                "a charge's limit is NaN, not a whole number from 0 to 9007199254740992",
            ),
            (
                types::Charge { limit: f64::INFINITY, ..charge() },
                "a charge's limit is inf, not a whole number from 0 to 9007199254740992",
            ),
            (
                types::Charge { window: types::Window::Sliding(0), ..charge() },
                "a sliding window of 0 ms is not between 1 and 2678400000",
            ),
            (
                types::Charge { window: types::Window::Sliding(u32::MAX), ..charge() },
                "a sliding window of 4294967295 ms is not between 1 and 2678400000",
            ),
            (types::Charge { window: calendar("Mars/Olympus"), ..charge() }, "no time zone is named \"Mars/Olympus\""),
        ];
        for (charge, broken) in cases {
            let decision = types::Decision { charges: vec![charge], ..allow() };
            assert_eq!(answer(decision), Err(Broken(broken.to_owned())));
        }
        let many = types::Decision { charges: vec![charge(); 65], ..allow() };
        assert_eq!(answer(many), Err(Broken("it has 65 charges, more than 64".to_owned())));
    }
}
