//! Which answers are given again without asking, and for which calls.

use std::sync::Arc;
use std::thread;

use callgate_core::call::{Annotations, Call, Listed};
use callgate_core::digest::Digest;
use callgate_core::evaluate::ChainDefault;
use callgate_core::identity::{Caller, SessionId};
use callgate_core::permit::Binding;
use callgate_core::port::Evaluator as _;
use callgate_core::verdict::Failure;
use callgate_plugin::{Chain, Configured, Engine, Life, Limits, Link};

use crate::fixture::{
    DECISION, Guest, KEPT, Log, call, caller, code, counting, decision, deny, engine, full_call, ready,
};

/// One instance, so that it counts every call it is asked about.
const ONE: Life = Life::Kept { instances: 1 };

fn plugin(guest: &Guest, life: Life) -> Configured {
    engine(Limits::SHIPPED).load(&guest.build()).unwrap().configure("guard", "{}", life).unwrap()
}

fn with_arguments(arguments: &str, call: Call) -> Call {
    Call { arguments: arguments.into(), ..call }
}

#[test]
fn an_answer_that_holds_for_any_arguments_is_given_again() {
    let guard = plugin(&counting().for_any_arguments(), ONE);
    let of_another_session = Call {
        binding: Binding { connection: 2, sequence: 7, frame: Digest::of(b"other") },
        session: SessionId::from_random([2; 16]),
        request_id: "\"two\"".to_owned(),
        // Another allocation of the same caller.
        caller: Arc::new(Caller::clone(&full_call().caller)),
        ..full_call()
    };
    for call in [full_call(), with_arguments(r#"{"path":"/etc"}"#, full_call()), of_another_session] {
        assert_eq!(code(guard.decide(&call)), "a");
    }
}

#[test]
fn an_answer_that_rests_on_the_arguments_is_asked_for_at_every_call() {
    let guard = plugin(&counting(), ONE);
    for expected in ["a", "b", "c"] {
        assert_eq!(code(guard.decide(&full_call())), expected);
    }
}

/// The same call with another caller.
fn called_by(change: impl FnOnce(&mut Caller)) -> Call {
    let mut caller = Caller::clone(&full_call().caller);
    change(&mut caller);
    Call { caller: Arc::new(caller), ..full_call() }
}

/// The same call with another agent.
fn called_by_agent(change: impl FnOnce(&mut callgate_core::identity::Agent)) -> Call {
    called_by(|caller| change(caller.agent.as_mut().unwrap()))
}

/// The same call of a tool with other annotations.
fn annotated(change: impl FnOnce(&mut Annotations)) -> Call {
    let mut listed = Listed::clone(full_call().listed.as_ref().unwrap());
    change(listed.annotations.as_mut().unwrap());
    Call { listed: Some(Arc::new(listed)), ..full_call() }
}

#[test]
fn a_call_that_differs_in_anything_but_its_arguments_is_asked_about() {
    let redefined =
        Listed { definition: Digest::of(b"another"), ..Listed::clone(full_call().listed.as_ref().unwrap()) };
    let bare = Listed { annotations: None, ..redefined.clone() };
    let calls = [
        full_call(),
        called_by(|caller| caller.agent = None),
        called_by_agent(|agent| agent.id = "agt_other".to_owned()),
        called_by_agent(|agent| agent.name = "zed".parse().unwrap()),
        called_by_agent(|agent| agent.evidence = "declared".to_owned()),
        called_by(|caller| caller.client = "other".to_owned()),
        called_by(|caller| caller.server.id = "srv_2".to_owned()),
        called_by(|caller| caller.server.name = "git".parse().unwrap()),
        called_by(|caller| caller.attributes[1].value = "2024-11-05".to_owned()),
        called_by(|caller| caller.attributes[1].name = "other".to_owned()),
        called_by(|caller| caller.attributes.truncate(1)),
        Call { tool: "write_files".to_owned(), ..full_call() },
        Call { listed: None, ..full_call() },
        Call { listed: Some(Arc::new(redefined)), ..full_call() },
        Call { listed: Some(Arc::new(bare)), ..full_call() },
        annotated(|annotations| annotations.read_only = None),
        annotated(|annotations| annotations.destructive = Some(true)),
        annotated(|annotations| annotations.idempotent = Some(false)),
        annotated(|annotations| annotations.open_world = Some(false)),
    ];
    let guard = plugin(&counting().for_any_arguments(), ONE);
    for round in 0..2 {
        for (call, expected) in calls.iter().zip('a'..) {
            let call = with_arguments(&format!(r#"{{"round":{round}}}"#), call.clone());
            assert_eq!(code(guard.decide(&call)), expected.to_string(), "round {round}: {call:?}");
        }
    }
}

#[test]
fn a_plugin_that_writes_something_is_asked_at_every_call_whatever_it_claims() {
    let log = Arc::new(Log::default());
    for log_lines in [4, 0] {
        let engine = Engine::new(Limits { log_lines, ..Limits::SHIPPED }, None, Arc::clone(&log) as _).unwrap();
        let guest = counting().for_any_arguments();
        let decide = ["(call $log (i32.const 1) (i32.const 64) (i32.const 2))", guest.decide.as_str()].concat();
        let fields = r#"(data (i32.const 64) "hi")"#.to_owned();
        let guard = engine.load(&Guest { decide, fields, ..guest }.build()).unwrap();
        let guard = guard.configure("guard", "{}", ONE).unwrap();
        for expected in ["a", "b", "c"] {
            assert_eq!(code(guard.decide(&call("x"))), expected);
            assert_eq!(log.written().len(), 1, "with room for {log_lines} lines");
        }
    }
}

#[test]
fn an_open_breaker_denies_what_an_answer_is_kept_for() {
    let guard = plugin(&counting().for_any_arguments(), ONE);
    let ask = |agent, tool| guard.decide(&Call { caller: Arc::new(caller(agent, "fs")), ..call(tool) });
    assert_eq!(code(ask(Some("bomber"), "x")), "a");
    for _ in 0..5 {
        assert!(matches!(ask(Some("bomber"), "trap"), Err(Failure::Trap(_))), "a failure is given again");
    }
    assert!(matches!(ask(Some("bomber"), "x"), Err(Failure::Breaker { .. })));
    assert_eq!(guard.reset(), 1);
    assert_eq!(code(ask(Some("bomber"), "x")), "a");
}

#[test]
fn a_bad_answer_is_none_however_much_it_claims_to_hold() {
    let guard = ready(&engine(Limits::SHIPPED), &Guest::answering(&deny("Bad Code")).for_any_arguments());
    for _ in 0..5 {
        assert!(matches!(guard.decide(&call("x")), Err(Failure::BadAnswer(_))));
    }
    assert!(matches!(guard.decide(&call("x")), Err(Failure::Breaker { .. })));
}

#[test]
fn a_claim_that_is_neither_yes_nor_no_is_read_as_yes_and_breaks_nothing() {
    let mut guest = counting();
    guest.decision[72] = 0xff;
    let guard = plugin(&guest, ONE);
    assert_eq!((code(guard.decide(&call("x"))), code(guard.decide(&call("x")))), ("a".to_owned(), "a".to_owned()));
}

#[test]
fn arguments_that_are_too_large_are_refused_whatever_is_kept() {
    let engine = engine(Limits { argument_bytes: 10, ..Limits::SHIPPED });
    let guard = ready(&engine, &counting().for_any_arguments());
    assert_eq!(code(guard.decide(&call("x"))), "a");
    let failure = guard.decide(&with_arguments("{\"a\":12345}", call("x"))).unwrap_err();
    assert_eq!(failure, Failure::TooLarge { bytes: 11, limit_bytes: 10 });
}

#[test]
fn who_explains_or_measures_asks_the_plugin_itself() {
    let guard = plugin(&counting().for_any_arguments(), ONE);
    let chain = Chain::new(1, ChainDefault::Deny, vec![Link::ready(guard.clone(), true)]);
    let imagine = || code(chain.imagined().opinions(&call("x")).opinions.remove(0).outcome);
    assert_eq!((imagine(), imagine()), ("a".to_owned(), "b".to_owned()), "what nobody called is kept for no call");
    assert_eq!((code(guard.decide(&call("x"))), code(guard.decide(&call("x")))), ("c".to_owned(), "c".to_owned()));
    assert_eq!(imagine(), "d");
    let measured = guard.measure(&call("x"));
    assert!(measured.fuel > 0);
    assert_eq!(code(measured.outcome), "a", "a fresh instance");
}

/// Denies with the first letter of the arguments' first name, and claims that it does not look at them.
fn liar() -> Guest {
    let letter = "(i32.load8_u offset=2 (i32.load offset=92 (local.get $call)))";
    let body = format!("(i32.store8 (i32.load (i32.const 1028)) {letter}) (i32.const {DECISION})");
    Guest { decision: decision(&deny("x")), ..Guest::deciding(&body) }.for_any_arguments()
}

#[test]
fn what_a_fresh_instance_says_reaches_no_other_call() {
    let codes = |life| {
        let guard = plugin(&liar(), life);
        [r#"{"a":1}"#, r#"{"b":1}"#].map(|arguments| code(guard.decide(&with_arguments(arguments, call("x")))))
    };
    assert_eq!(codes(Life::Fresh { ready: 1 }), ["a", "b"]);
    assert_eq!(codes(KEPT), ["a", "a"], "a plugin that is kept is taken at its word");
}

#[test]
fn calls_that_meet_are_each_given_their_own_answer() {
    // Denies with the first letter of the tool's name.
    let letter = "(i32.load8_u (i32.load offset=60 (local.get $call)))";
    let body = format!("(i32.store8 (i32.load (i32.const 1028)) {letter}) (i32.const {DECISION})");
    let guest = Guest { decision: decision(&deny("x")), ..Guest::deciding(&body) }.for_any_arguments();
    let guard = plugin(&guest, KEPT);
    thread::scope(|scope| {
        for offset in 0..8 {
            let guard = &guard;
            scope.spawn(move || {
                for number in 0..2_000 {
                    let letter = char::from(b'a' + u8::try_from((number + offset) % 26).unwrap());
                    let tool = format!("{letter}{}", number % 50);
                    assert_eq!(code(guard.decide(&call(&tool))), letter.to_string());
                }
            });
        }
    });
}
