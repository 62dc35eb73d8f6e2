//! Breakers at the chain: who is denied after repeated failures, and who is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use callgate_core::call::Call;
use callgate_core::evaluate::{ChainDefault, Ruling, evaluate};
use callgate_core::port::Evaluator as _;
use callgate_core::verdict::{Failure, Opinion};
use callgate_plugin::{Chain, Life, Limits, Link, OpenBreaker};

use crate::fixture::{Guest, KEPT, allow, call, caller, engine};

/// Allows, but traps for the tool `trap`.
fn fragile() -> Guest {
    let is_trap = "(i32.eq (i32.load8_u (i32.load offset=60 (local.get $call))) (i32.const 116))";
    Guest::deciding(&format!("(if {is_trap} (then unreachable)) (i32.const 1024)"))
}

fn asked(agent: Option<&str>, tool: &str) -> Call {
    Call { caller: Arc::new(caller(agent, "fs")), ..call(tool) }
}

fn trapped() -> Failure {
    Failure::Trap("it stopped itself (`unreachable`) without saying why".to_owned())
}

fn broken() -> Failure {
    Failure::Breaker { last: Box::new(trapped()) }
}

#[test]
fn repeated_failures_for_one_agent_deny_that_agent_and_nobody_else() {
    let plugin = engine(Limits::SHIPPED).load(&fragile().build()).unwrap();
    for life in [KEPT, Life::Fresh { ready: 2 }] {
        let guard = plugin.configure("guard", "{}", life).unwrap();
        let other = plugin.configure("other", "{}", life).unwrap();
        let ask = |agent, tool| guard.decide(&asked(agent, tool));
        for _ in 0..5 {
            assert_eq!(ask(Some("bomber"), "trap"), Err(trapped()));
            assert_eq!(ask(Some("cursor"), "trap again, but not I"), Err(trapped()));
            (0..100).for_each(|_| assert_eq!(ask(Some("cursor"), "read_file"), Ok(allow())));
        }
        assert_eq!(ask(Some("bomber"), "trap"), Err(broken()));
        assert_eq!(ask(Some("bomber"), "read_file"), Err(broken()), "it is asked again for a good call");
        assert_eq!((ask(Some("cursor"), "read_file"), ask(None, "read_file")), (Ok(allow()), Ok(allow())));
        assert_eq!(other.decide(&asked(Some("bomber"), "read_file")), Ok(allow()), "another plugin is not asked");

        let agent = asked(Some("bomber"), "x").caller.agent.clone();
        assert_eq!(guard.open_breakers(), [OpenBreaker { agent, last: trapped(), denied: 2 }]);
        assert_eq!(guard.reset(), 1);
        assert_eq!((ask(Some("bomber"), "read_file"), guard.open_breakers()), (Ok(allow()), vec![]));
    }
}

#[test]
fn a_breaker_belongs_to_a_plugin_with_its_settings_and_outlives_other_changes_of_the_chain() {
    let plugin = engine(Limits::SHIPPED).load(&fragile().build()).unwrap();
    let guard = plugin.configure("guard", "{}", KEPT).unwrap();
    for _ in 0..5 {
        guard.decide(&asked(None, "trap")).unwrap_err();
    }
    let failed = |guard| {
        let chain = Chain::new(2, ChainDefault::Allow, vec![Link::ready(guard, true)]);
        match evaluate(chain.opinions(&asked(None, "read_file"))).ruling {
            Ruling::Failed { failure, .. } => Some(failure),
            _ => None,
        }
    };
    assert_eq!(failed(guard), Some(broken()));
    assert_eq!(failed(plugin.configure("guard", "{}", KEPT).unwrap()), None, "configured anew, it is asked again");
}

#[test]
fn a_call_that_is_too_large_is_not_held_against_the_plugin() {
    let limits = Limits { argument_bytes: 8, ..Limits::SHIPPED };
    let guard = engine(limits).load(&fragile().build()).unwrap().configure("guard", "{}", KEPT).unwrap();
    let large = Call { arguments: r#"{"path": 1}"#.into(), ..asked(None, "read_file") };
    for _ in 0..20 {
        assert_eq!(guard.decide(&large), Err(Failure::TooLarge { bytes: 11, limit_bytes: 8 }));
    }
    assert_eq!(guard.decide(&asked(None, "read_file")), Ok(allow()));
}

#[test]
fn an_open_breaker_is_a_denial_with_a_code_of_its_own() {
    let opinion = Opinion { position: 0, plugin: "guard".to_owned(), may_grant: true, outcome: Err(broken()) };
    assert_eq!(opinion.strictness(), callgate_core::verdict::Strictness::Deny);
    assert_eq!(broken().code().as_str(), "plugin-breaker");
    let told = "it failed too often for this agent and is not asked any more until it is reset; the last time it failed: \
        it stopped itself (`unreachable`) without saying why";
    assert_eq!(broken().to_string(), told);
}

#[test]
fn a_call_that_nobody_makes_is_held_neither_against_a_plugin_nor_for_it() {
    let plugin = engine(Limits::SHIPPED).load(&fragile().build()).unwrap();
    let guard = plugin.configure("guard", "{}", KEPT).unwrap();
    let chain = Chain::new(1, ChainDefault::Deny, vec![Link::ready(guard.clone(), true)]);
    let imagine = |tool| chain.imagined().opinions(&asked(None, tool)).opinions.remove(0).outcome;
    for _ in 0..10 {
        assert_eq!(imagine("trap"), Err(trapped()));
    }
    assert_eq!(guard.open_breakers(), []);
    for _ in 0..4 {
        assert_eq!(guard.decide(&asked(None, "trap")), Err(trapped()));
        (0..1000).for_each(|_| assert_eq!(imagine("read_file"), Ok(allow())));
    }
    assert_eq!(guard.decide(&asked(None, "trap")), Err(trapped()));
    assert_eq!(imagine("read_file"), Err(broken()), "what is told is what a call would meet");
    assert_eq!(guard.open_breakers(), [OpenBreaker { agent: None, last: trapped(), denied: 0 }]);
}

#[test]
fn the_bombs_of_one_agent_at_once_deny_nobody_else() {
    /// More than instances are kept, and few enough for the good calls to get their turn on two cores.
    const AT_ONCE: usize = 3;
    const BOMBS: usize = 12;
    let is_trap = "(i32.eq (i32.load8_u (i32.load offset=60 (local.get $call))) (i32.const 116))";
    let guest = Guest::deciding(&format!("(if {is_trap} (then (loop (br 0)))) (i32.const 1024)"));
    let limits = Limits { fuel: u64::MAX, deadline_ms: 200, ..Limits::SHIPPED };
    let plugin = engine(limits).load(&guest.build()).unwrap();
    for life in [Life::Kept { instances: 2 }, Life::Fresh { ready: 2 }] {
        let guard = plugin.configure("guard", "{}", life).unwrap();
        let bombs = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while bombs.load(Relaxed) < BOMBS {
                        if guard.decide(&asked(Some("bomber"), "trap")) == Err(Failure::Deadline { limit_ms: 200 }) {
                            bombs.fetch_add(1, Relaxed);
                        }
                        // Without that most would be denied without being asked, which costs nobody anything.
                        let _ = guard.reset();
                    }
                });
            }
            while bombs.load(Relaxed) < BOMBS {
                assert_eq!(guard.decide(&asked(Some("cursor"), "read_file")), Ok(allow()), "{life:?}");
            }
        });
    }
}
