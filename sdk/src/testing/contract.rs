//! The contract's bounds, checked as the host checks them.

use crate::bounds::{
    CHARGE_KEY_BYTES_MAX, CHARGES_MAX, CODE_BYTES_MAX, MESSAGE_BYTES_MAX, NOTE_BYTES_MAX, NOTES_MAX, POINTER_BYTES_MAX,
    QUANTITY_MAX, RULE_POLICY_BYTES_MAX, RULE_TEXT_BYTES_MAX, SLIDING_MS_MAX, ZONE_BYTES_MAX,
};
use crate::{Charge, Decision, Rule, Verdict, Window};

/// The first bound of the contract that an answer breaks, in words.
pub fn broken_bound(decision: &Decision) -> Option<String> {
    check(decision).err()
}

fn check(decision: &Decision) -> Result<(), String> {
    match &decision.verdict {
        Verdict::Deny(denial) => {
            code(&denial.code)?;
            at_most("message", &denial.message, MESSAGE_BYTES_MAX)?;
        }
        Verdict::Ask(question) => {
            code(&question.code)?;
            at_most("message", &question.message, MESSAGE_BYTES_MAX)?;
        }
        Verdict::Allow | Verdict::Abstain => {}
    }
    decision.rule.iter().try_for_each(rule)?;
    count("notes", decision.notes.len(), NOTES_MAX)?;
    decision.notes.iter().try_for_each(|note| at_most("note", note, NOTE_BYTES_MAX))?;
    count("charges", decision.charges.len(), CHARGES_MAX)?;
    decision.charges.iter().try_for_each(charge)
}

fn charge(charge: &Charge) -> Result<(), String> {
    if charge.key.is_empty() {
        return Err("a charge has no key".to_owned());
    }
    at_most("charge key", &charge.key, CHARGE_KEY_BYTES_MAX)?;
    quantity("amount", charge.amount)?;
    quantity("limit", charge.limit)?;
    match &charge.window {
        Window::Lifetime => {}
        Window::Sliding(ms) if (1..=SLIDING_MS_MAX).contains(ms) => {}
        Window::Sliding(ms) => return Err(format!("a sliding window of {ms} ms, where 1 to {SLIDING_MS_MAX} may be")),
        Window::Calendar(calendar) => at_most("time zone", &calendar.zone, ZONE_BYTES_MAX)?,
    }
    rule(&charge.rule)?;
    code(&charge.code)?;
    at_most("message", &charge.message, MESSAGE_BYTES_MAX)
}

fn rule(rule: &Rule) -> Result<(), String> {
    let escapes_are_whole = rule.path.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if !(rule.path.is_empty() || rule.path.starts_with('/')) || !escapes_are_whole {
        return Err(format!("the rule's path {:?} is not a JSON pointer", rule.path));
    }
    at_most("rule's path", &rule.path, POINTER_BYTES_MAX)?;
    rule.policy.iter().try_for_each(|name| at_most("policy name", name, RULE_POLICY_BYTES_MAX))?;
    at_most("rule's text", &rule.text, RULE_TEXT_BYTES_MAX)
}

fn code(code: &str) -> Result<(), String> {
    let is_run =
        |run: &str| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if code.split('-').all(is_run) {
        at_most("code", code, CODE_BYTES_MAX)
    } else {
        Err(format!("the code {code:?} is not kebab-case"))
    }
}

fn quantity(what: &str, value: f64) -> Result<(), String> {
    if (0.0..=QUANTITY_MAX).contains(&value) && value.fract() == 0.0 {
        return Ok(());
    }
    Err(format!("the {what} {value} is not a whole number from 0 to 2^53"))
}

fn at_most(what: &str, text: &str, bytes_max: usize) -> Result<(), String> {
    if text.len() <= bytes_max {
        Ok(())
    } else {
        Err(format!("the {what} takes {} bytes, more than {bytes_max}", text.len()))
    }
}

fn count(what: &str, count: usize, count_max: usize) -> Result<(), String> {
    if count <= count_max { Ok(()) } else { Err(format!("{count} {what}, more than {count_max}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pointer;

    #[test]
    fn answers_within_the_bounds_pass() {
        let rule = Rule::new(Pointer::root().key("limits").index(0), "20 calls");
        let decision =
            Decision::deny("too-much", "x".repeat(1024)).charge(Charge::new("k", 20.0, rule.clone())).rule(rule);
        assert_eq!(broken_bound(&decision), None);
    }

    #[test]
    fn each_broken_bound_is_named() {
        let rule = || Rule::new(Pointer::root(), "r");
        let charge = || Charge::new("k", 1.0, rule());
        for (decision, named) in [
            (Decision::deny("Not kebab", "m"), "not kebab-case"),
            (Decision::ask("", "m"), "not kebab-case"),
            (Decision::ask("a--b", "m"), "not kebab-case"),
            (Decision::deny("c", "m".repeat(1025)), "1025 bytes"),
            (Decision::allow().rule(Rule { path: "rules/0".to_owned(), ..rule() }), "not a JSON pointer"),
            (Decision::allow().rule(Rule { path: "/a~b".to_owned(), ..rule() }), "not a JSON pointer"),
            (Decision::allow().rule(Rule { text: "t".repeat(513), ..rule() }), "513 bytes"),
            (Decision { notes: vec![String::new(); 65], ..Decision::allow() }, "65 notes"),
            (Decision { charges: vec![charge(); 65], ..Decision::allow() }, "65 charges"),
            (Decision::allow().charge(charge().amount(-1.0)), "amount -1"),
            (Decision::allow().charge(charge().amount(0.5)), "amount 0.5"),
            (Decision::allow().charge(charge().amount(f64::NAN)), "amount NaN"),
            (Decision::allow().charge(Charge { limit: f64::INFINITY, ..charge() }), "limit inf"),
            (Decision::allow().charge(charge().window(Window::Sliding(0))), "0 ms"),
            (Decision::allow().charge(Charge { key: String::new(), ..charge() }), "no key"),
            (Decision::allow().charge(Charge { key: "k".repeat(129), ..charge() }), "129 bytes"),
        ] {
            let broken = broken_bound(&decision).unwrap_or_default();
            assert!(broken.contains(named), "{named}: {broken}");
        }
    }
}
