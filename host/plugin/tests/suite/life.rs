//! How long instances live, and what happens when calls meet.

use std::sync::Barrier;
use std::thread;

use callgate_core::verdict::Failure;
use callgate_plugin::{ConfigureError, Life, Limits};

use crate::fixture::{Guest, allow, call, code, counting, engine};

#[test]
fn a_kept_instance_remembers_and_a_fresh_one_does_not() {
    let plugin = engine(Limits::SHIPPED).load(&counting().build()).unwrap();
    let kept = plugin.configure("kept", "{}", Life::Kept { instances: 1 }).unwrap();
    let fresh = plugin.configure("fresh", "{}", Life::Fresh { ready: 2 }).unwrap();
    let none_ready = plugin.configure("none-ready", "{}", Life::Fresh { ready: 0 }).unwrap();
    for expected in ["a", "b", "c"] {
        assert_eq!(code(kept.decide(&call("x"))), expected);
        assert_eq!(code(fresh.decide(&call("x"))), "a");
        assert_eq!(code(none_ready.decide(&call("x"))), "a");
    }
}

#[test]
fn a_failed_instance_is_replaced_and_its_successor_starts_anew() {
    let plugin = engine(Limits::SHIPPED).load(&counting().build()).unwrap();
    let kept = plugin.configure("kept", "{}", Life::Kept { instances: 1 }).unwrap();
    assert_eq!(code(kept.decide(&call("x"))), "a");
    for _ in 0..3 {
        assert!(matches!(kept.decide(&call("trap")), Err(Failure::Trap(_))));
        assert_eq!(code(kept.decide(&call("x"))), "a");
        assert_eq!(code(kept.decide(&call("x"))), "b");
    }
}

#[test]
fn an_instance_whose_memory_grew_much_is_replaced() {
    let limits = Limits { argument_bytes: 8 << 20, ..Limits::SHIPPED };
    let plugin = engine(limits).load(&counting().build()).unwrap();
    let kept = plugin.configure("kept", "{}", Life::Kept { instances: 1 }).unwrap();
    let large = |bytes: usize| callgate_core::call::Call {
        arguments: format!("\"{}\"", "x".repeat(bytes)).into(),
        ..call("x")
    };
    assert_eq!(code(kept.decide(&large(3 << 20))), "a");
    assert_eq!(code(kept.decide(&large(5 << 20))), "b");
    assert_eq!(code(kept.decide(&call("x"))), "a", "it keeps the memory of one large call for ever");
}

#[test]
fn calls_that_meet_are_all_decided() {
    let plugin = engine(Limits::SHIPPED).load(&Guest::answering(&allow()).build()).unwrap();
    let lives = [Life::Kept { instances: 1 }, Life::Kept { instances: 3 }, Life::Fresh { ready: 1 }];
    for life in lives {
        let configured = plugin.configure("guard", "{}", life).unwrap();
        let begin = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..200 {
                        assert_eq!(configured.decide(&call("x")), Ok(allow()), "{life:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn calls_that_meet_a_plugin_that_keeps_trapping_all_hear_of_the_trap() {
    let plugin = engine(Limits::SHIPPED).load(&Guest::deciding("unreachable").build()).unwrap();
    let configured = plugin.configure("guard", "{}", Life::Kept { instances: 2 }).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let failure = configured.decide(&call("x")).unwrap_err();
                    let is_the_trap = |failure: &Failure| matches!(failure, Failure::Trap(_));
                    // Until the breaker opens, and from then on from it.
                    let heard =
                        is_the_trap(&failure) || matches!(&failure, Failure::Breaker { last } if is_the_trap(last));
                    assert!(heard, "{failure}");
                }
            });
        }
    });
}

#[test]
fn who_waits_too_long_for_an_instance_is_told_so_where_there_can_be_no_other() {
    let limits = Limits { fuel: u64::MAX, deadline_ms: 300, instances: 1, ..Limits::SHIPPED };
    let body = "(if (i32.eq (i32.load8_u (i32.load offset=60 (local.get $call))) (i32.const 115)) (then (loop (br 0))))
        (i32.const 1024)";
    let plugin = engine(limits).load(&Guest::deciding(body).build()).unwrap();
    let one = plugin.configure("guard", "{}", Life::Kept { instances: 1 }).unwrap();
    // One spins until its deadline; of those behind it, whoever gets the instance next spins as long.
    let fates = thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| one.decide(&call("spin")).unwrap_err())).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(fates.contains(&Failure::Deadline { limit_ms: 300 }), "{fates:?}");
    assert!(fates.contains(&Failure::Overload), "{fates:?}");
    assert!(fates.iter().all(|fate| matches!(fate, Failure::Deadline { .. } | Failure::Overload)), "{fates:?}");
    assert_eq!(Failure::Overload.to_string(), "too many calls are being decided at once");
    // What is spent is torn down on another thread, and only then is there room for the next.
    let mut again = std::iter::repeat_with(|| one.decide(&call("x")));
    assert_eq!(again.find(|fate| *fate != Err(Failure::Overload)), Some(Ok(allow())));
}

#[test]
fn there_are_never_more_instances_than_the_limit() {
    let engine = engine(Limits { instances: 2, ..Limits::SHIPPED });
    let plugin = engine.load(&Guest::answering(&allow()).build()).unwrap();
    let first = plugin.configure("first", "{}", Life::Kept { instances: 1 }).unwrap();
    let second = plugin.configure("second", "{}", Life::Kept { instances: 1 }).unwrap();
    let third = plugin.configure("third", "{}", Life::Kept { instances: 1 }).unwrap_err();
    assert_eq!(third, ConfigureError::Failed(Failure::Overload));
    assert_eq!((first.decide(&call("x")), second.decide(&call("x"))), (Ok(allow()), Ok(allow())));
    drop(first);
    assert!(plugin.configure("third", "{}", Life::Kept { instances: 1 }).is_ok());
}
