//! The verdict algebra, from plugins' opinions to a settled decision.

use std::sync::Arc;

use callgate_core::code::Code;
use callgate_core::counters::{Counters, Moment};
use callgate_core::evaluate::{ChainDefault, Evaluated, Opinions, Ruling, evaluate};
use callgate_core::port::Case;
use callgate_core::refusal::Reason;
use callgate_core::settle::{Decision, Filing, Present, Word, decision, settle};
use callgate_core::verdict::{Answer, Denial, Failure, Opinion, Question, Retry, Strictness, Verdict, strictest};
use proptest::prelude::*;

use crate::support::call;

fn outcome() -> impl Strategy<Value = Result<Verdict, Failure>> {
    let denial = Denial { code: "no".to_owned(), message: "no".to_owned(), retry: Retry::Never };
    let question = Question { code: "ask".to_owned(), message: "ask".to_owned(), presence: false };
    prop_oneof![
        Just(Ok(Verdict::Abstain)),
        Just(Ok(Verdict::Allow)),
        Just(Ok(Verdict::Ask(question))),
        Just(Ok(Verdict::Deny(denial))),
        prop_oneof![
            Just(Failure::Deadline { limit_ms: 100 }),
            Just(Failure::Fuel { limit: 1 }),
            Just(Failure::Memory { limit_bytes: 1 }),
            Just(Failure::Trap("x".to_owned())),
            Just(Failure::BadAnswer("x".to_owned())),
            Just(Failure::Overload),
            Just(Failure::NotReady("x".to_owned())),
            Just(Failure::TooLarge { bytes: 2, limit_bytes: 1 }),
        ]
        .prop_map(Err),
    ]
}

fn opinion(position: usize, may_grant: bool, outcome: Result<Verdict, Failure>) -> Opinion {
    let plugin = format!("plugin-{position}");
    let outcome = outcome.map(|verdict| Answer {
        verdict,
        rule: None,
        notes: vec![format!("note {position}")],
        charges: Vec::new(),
    });
    Opinion { position, plugin, may_grant, outcome }
}

/// A chain of up to six members.
fn chain() -> impl Strategy<Value = Vec<Opinion>> {
    prop::collection::vec((any::<bool>(), outcome()), 0..6).prop_map(|members| {
        members.into_iter().enumerate().map(|(position, (grant, outcome))| opinion(position, grant, outcome)).collect()
    })
}

fn default() -> impl Strategy<Value = ChainDefault> {
    prop_oneof![Just(ChainDefault::Deny), Just(ChainDefault::Ask), Just(ChainDefault::Allow)]
}

fn evaluated(opinions: Vec<Opinion>, default: ChainDefault) -> Evaluated {
    evaluate(Opinions { generation: 3, members: Arc::new([]), default, opinions })
}

fn three() -> impl Strategy<Value = [Opinion; 3]> {
    prop::array::uniform3((any::<bool>(), outcome())).prop_map(|members| {
        let mut position = 0;
        members.map(|(grant, outcome)| {
            position += 1;
            opinion(position, grant, outcome)
        })
    })
}

proptest! {
    #[test]
    fn combining_is_commutative_associative_and_idempotent([a, b, c] in three()) {
        prop_assert_eq!(a.stricter(&b), b.stricter(&a));
        prop_assert_eq!(a.stricter(&b).stricter(&c), a.stricter(b.stricter(&c)));
        prop_assert_eq!(a.stricter(&a), &a);
        prop_assert_eq!(a.stricter(&b).strictness(), a.strictness().max(b.strictness()));
    }

    #[test]
    fn the_order_of_arrival_makes_no_difference((chain, shuffled) in chain().prop_flat_map(|chain| (Just(chain.clone()), Just(chain).prop_shuffle())), default in default()) {
        prop_assert_eq!(strictest(&chain), strictest(&shuffled));
        let (one, other) = (evaluated(chain, default), evaluated(shuffled, default));
        prop_assert_eq!(one.ruling, other.ruling);
        prop_assert_eq!(one.notes, other.notes);
    }

    #[test]
    fn saying_a_thing_twice_changes_nothing(chain in chain(), default in default()) {
        let twice: Vec<Opinion> = chain.iter().chain(&chain).cloned().collect();
        prop_assert_eq!(evaluated(chain, default).ruling, evaluated(twice, default).ruling);
    }

    #[test]
    fn a_deny_or_a_failure_wins_whoever_else_speaks(chain in chain(), default in default(), denying in outcome(), place in any::<prop::sample::Index>()) {
        prop_assume!(matches!(denying, Err(_) | Ok(Verdict::Deny(_))));
        let mut chain = chain;
        let place = place.index(chain.len() + 1);
        chain.insert(place, opinion(100, true, denying.clone()));
        let evaluated = evaluated(chain, default);
        prop_assert_eq!(evaluated.ruling.word(), Word::Deny);
        prop_assert!(matches!(decision(&evaluated.ruling), Decision::Refused(_)));
    }

    #[test]
    fn what_is_decided_is_what_the_strictest_word_says(chain in chain(), default in default()) {
        let granting = |opinion: &Opinion| opinion.may_grant && matches!(&opinion.outcome, Ok(Answer { verdict: Verdict::Allow, .. }));
        let asking = |opinion: &Opinion| matches!(&opinion.outcome, Ok(Answer { verdict: Verdict::Ask(_), .. }));
        let denying = |opinion: &Opinion| matches!(&opinion.outcome, Err(_) | Ok(Answer { verdict: Verdict::Deny(_), .. }));
        let expected = if chain.iter().any(denying) {
            Word::Deny
        } else if chain.iter().any(asking) {
            Word::Ask
        } else if chain.iter().any(granting) {
            Word::Allow
        } else {
            match default {
                ChainDefault::Deny => Word::Deny,
                ChainDefault::Ask => Word::Ask,
                ChainDefault::Allow => Word::Allow,
            }
        };
        let evaluated = evaluated(chain, default);
        prop_assert_eq!(evaluated.ruling.word(), expected);
        let allowed = matches!(decision(&evaluated.ruling), Decision::Allowed { .. });
        prop_assert_eq!(allowed, expected == Word::Allow);
    }

    #[test]
    fn an_allow_without_the_right_to_grant_never_opens(chain in chain(), default in default(), extra in 1_usize..4) {
        let mut with = chain.clone();
        with.extend((100..100 + extra).map(|position| opinion(position, false, Ok(Verdict::Allow))));
        prop_assert_eq!(evaluated(with, default).ruling, evaluated(chain, default).ruling);
    }

    #[test]
    fn another_plugin_without_the_right_to_grant_only_tightens(chain in chain(), default in default(), more in outcome()) {
        let rank = |ruling: &Ruling| match ruling.word() {
            Word::Allow => 0,
            Word::Ask => 1,
            Word::Deny => 2,
        };
        let before = rank(&evaluated(chain.clone(), default).ruling);
        let mut with = chain;
        with.push(opinion(100, false, more.clone()));
        let after = rank(&evaluated(with, default).ruling);
        // Its question is stricter than a default of deny only in that a plugin asked; that a person is asked is the
        // plugin's word, and no plugin that may not grant can bring about an allow.
        if matches!(more, Ok(Verdict::Ask(_))) {
            prop_assert!(after >= 1);
        } else {
            prop_assert!(after >= before);
        }
    }

    #[test]
    fn only_the_generation_it_was_evaluated_under_settles(chain in chain(), default in default(), generation in 0_u64..6) {
        let evaluated = evaluated(chain, default);
        let decision = decision(&evaluated.ruling);
        let case = Case { call: call(1, "{}"), evaluated };
        let settled = settle(&case, Present { generation, now: Moment::default() }, &mut Counters::default());
        prop_assert_eq!(settled.map(|settled| settled.decision), (generation == 3).then_some(decision));
    }
}

#[test]
fn strictness_is_ordered() {
    assert!(
        Strictness::Deny > Strictness::Ask
            && Strictness::Ask > Strictness::Allow
            && Strictness::Allow > Strictness::Abstain
    );
}

#[test]
fn the_earlier_of_two_equally_strict_ones_speaks() {
    let allow = |position| opinion(position, true, Ok(Verdict::Allow));
    let ruling = evaluated(vec![allow(2), allow(1)], ChainDefault::Deny).ruling;
    assert_eq!(ruling, Ruling::Allow { plugin: "plugin-1".to_owned(), rule: None });
}

#[test]
fn an_empty_chain_is_its_default() {
    assert_eq!(evaluated(Vec::new(), ChainDefault::Deny).ruling, Ruling::Default(ChainDefault::Deny));
}

#[test]
fn each_failure_is_refused_with_its_own_code_and_sentence() {
    let table = [
        (Failure::Deadline { limit_ms: 100 }, Code::PluginDeadline, Retry::Later, "it gave no answer within 100 ms"),
        (Failure::Fuel { limit: 7 }, Code::PluginFuel, Retry::Never, "it used up its 7 units of fuel"),
        (
            Failure::Memory { limit_bytes: 64 },
            Code::PluginMemory,
            Retry::Never,
            "it asked for more memory than its limit of 64 bytes",
        ),
        (Failure::Trap("a panic".to_owned()), Code::PluginTrap, Retry::Never, "it failed: a panic"),
        (
            Failure::BadAnswer("65 notes".to_owned()),
            Code::PluginBadAnswer,
            Retry::Never,
            "its answer breaks the contract: 65 notes",
        ),
        (Failure::Overload, Code::PluginOverload, Retry::Later, "too many calls are being decided at once"),
        (
            Failure::NotReady("no settings".to_owned()),
            Code::PluginNotReady,
            Retry::Never,
            "it is not ready: no settings",
        ),
        (
            Failure::Breaker { last: Box::new(Failure::Trap("a panic".to_owned())) },
            Code::PluginBreaker,
            Retry::Never,
            "it failed too often for this agent and is not asked any more until it is reset; the last time it failed: a panic",
        ),
        (
            Failure::TooLarge { bytes: 9, limit_bytes: 8 },
            Code::CallTooLarge,
            Retry::Changed,
            "the arguments take 9 bytes, more than the 8 that can be judged",
        ),
    ];
    let kinds: std::collections::HashSet<_> =
        table.iter().map(|(failure, ..)| std::mem::discriminant(failure)).collect();
    assert_eq!(kinds.len(), 9, "a failure stands twice");
    for (failure, code, retry, sentence) in table {
        let refused = decision(&Ruling::Failed { plugin: "guard".to_owned(), failure });
        let expected = Reason {
            code,
            policy_code: None,
            message: format!("the policy plugin guard could not decide: {sentence}"),
            retry,
            plugin: Some("guard".to_owned()),
            rule: None,
        };
        assert_eq!(refused, Decision::Refused(expected));
    }
}

#[test]
fn a_failure_is_filed_as_an_error_and_a_deny_as_denied() {
    let filing = |outcome| decision(&evaluated(vec![opinion(0, true, outcome)], ChainDefault::Allow).ruling).filing();
    assert_eq!(filing(Err(Failure::Overload)), Filing::Error);
    let denial = Denial { code: "no".to_owned(), message: "no".to_owned(), retry: Retry::Never };
    assert_eq!(filing(Ok(Verdict::Deny(denial))), Filing::Denied);
    assert_eq!(filing(Ok(Verdict::Allow)), Filing::Allowed);
}
