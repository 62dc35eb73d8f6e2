//! The chain and the switch: who is asked, in what order, and that a call sees one chain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use callgate_core::call::Call;
use callgate_core::digest::Digest;
use callgate_core::evaluate::{ChainDefault, Member, Ruling, evaluate};
use callgate_core::port::Evaluator as _;
use callgate_core::verdict::{Answer, Failure, Verdict};
use callgate_plugin::{Chain, Configured, Engine, Limits, Link, Scope, ScopeError, Switch};

use crate::fixture::{Guest, KEPT, allow, call, caller, deny, engine};

fn plugin(engine: &Engine, name: &str, answer: &Answer) -> Configured {
    engine.load(&Guest::answering(answer).build()).unwrap().configure(name, "{}", KEPT).unwrap()
}

fn abstain() -> Answer {
    Answer { verdict: Verdict::Abstain, ..allow() }
}

#[test]
fn every_plugin_is_asked_in_order_and_the_strictest_speaks() {
    let engine = engine(Limits::SHIPPED);
    let (open, closed) = (plugin(&engine, "open", &allow()), plugin(&engine, "closed", &deny("closed")));
    let members = [open.member().clone(), closed.member().clone()];
    let chain = Chain::new(7, ChainDefault::Ask, vec![Link::ready(open, true), Link::ready(closed, false)]);

    let opinions = chain.opinions(&call("x"));
    assert_eq!((opinions.generation, opinions.default), (7, ChainDefault::Ask));
    assert_eq!(*opinions.members, members);
    let said: Vec<_> = opinions
        .opinions
        .iter()
        .map(|opinion| (opinion.position, opinion.plugin.as_str(), opinion.may_grant, opinion.outcome.clone()))
        .collect();
    assert_eq!(said, [(0, "open", true, Ok(allow())), (1, "closed", false, Ok(deny("closed")))]);
    assert!(matches!(evaluate(opinions).ruling, Ruling::Deny { plugin, .. } if plugin == "closed"));
}

#[test]
fn an_allow_without_the_right_to_grant_leaves_the_default() {
    let engine = engine(Limits::SHIPPED);
    let open = plugin(&engine, "open", &allow());
    let silent = plugin(&engine, "silent", &abstain());
    let links = |may_grant| vec![Link::ready(silent.clone(), true), Link::ready(open.clone(), may_grant)];
    let ruling = |links| evaluate(Chain::new(1, ChainDefault::Deny, links).opinions(&call("x"))).ruling;
    assert_eq!(ruling(links(false)), Ruling::Default(ChainDefault::Deny));
    assert_eq!(ruling(links(true)), Ruling::Allow { plugin: "open".to_owned(), rule: None });
    assert_eq!(ruling(vec![]), Ruling::Default(ChainDefault::Deny));
}

#[test]
fn a_plugin_that_could_not_be_made_ready_denies_every_call() {
    let engine = engine(Limits::SHIPPED);
    let open = plugin(&engine, "open", &allow());
    let member =
        Member { plugin: "guard".to_owned(), component: Digest::of(b"component"), settings: Digest::of(b"settings") };
    let broken = Link::broken(member.clone(), "its settings do not load: /a: no such key");
    let chain = Chain::new(1, ChainDefault::Allow, vec![Link::ready(open, true), broken]);
    assert_eq!(chain.members()[1], member);
    let failure = Failure::NotReady("its settings do not load: /a: no such key".to_owned());
    let expected = Ruling::Failed { plugin: "guard".to_owned(), failure };
    assert_eq!(evaluate(chain.opinions(&call("x"))).ruling, expected);
}

#[test]
fn a_switched_chain_holds_from_the_next_call_on_and_never_halfway() {
    let engine = engine(Limits::SHIPPED);
    let chain = |generation: u64| {
        let answer = deny(if generation.is_multiple_of(2) { "even" } else { "odd" });
        let links = ["first", "second"].map(|name| Link::ready(plugin(&engine, name, &answer), false));
        Chain::new(generation, ChainDefault::Deny, links.into())
    };
    let switch = Switch::new(chain(0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let opinions = switch.chain().opinions(&call("x"));
                let expected = deny(if opinions.generation.is_multiple_of(2) { "even" } else { "odd" });
                assert!(opinions.opinions.iter().all(|opinion| opinion.outcome == Ok(expected.clone())));
                assert!(opinions.generation >= last);
                last = opinions.generation;
            }
        });
        for generation in 1..20 {
            switch.set(chain(generation));
            assert_eq!(switch.chain().opinions(&call("x")).generation, generation);
        }
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
    assert_eq!(switch.chain().generation(), 19);
}

fn scope(agents: &[&str], servers: &[&str]) -> Result<Scope, ScopeError> {
    let owned = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
    Scope::new(&owned(agents), &owned(servers))
}

#[test]
fn a_scope_covers_whom_its_patterns_name() {
    let cases = [
        (&["*"][..], &["*"][..], [true, true, true, true]),
        (&["cursor"], &["*"], [true, false, true, false]),
        (&["cu*", "z?d"], &["*"], [true, true, true, false]),
        (&["?*"], &["*"], [true, true, true, false]),
        (&["none", "**"], &["fs"], [true, true, false, true]),
        (&["*"], &["g*"], [false, false, true, false]),
        (&["Cursor"], &["*"], [false, false, false, false]),
    ];
    let callers =
        [caller(Some("cursor"), "fs"), caller(Some("zed"), "fs"), caller(Some("cursor"), "git"), caller(None, "fs")];
    for (agents, servers, expected) in cases {
        let scope = scope(agents, servers).unwrap();
        assert_eq!(callers.each_ref().map(|caller| scope.covers(caller)), expected, "{agents:?} {servers:?}");
    }
}

#[test]
fn a_scope_that_could_not_be_meant_is_refused() {
    let told = |agents, servers| scope(agents, servers).unwrap_err().to_string();
    assert_eq!(told(&[], &["*"]), "`agents` names nobody; write [\"*\"] for all");
    assert_eq!(told(&["*"], &[]), "`servers` names nobody; write [\"*\"] for all");
    assert_eq!(told(&["a", ""], &["*"]), "the pattern \"\" in `agents`: an empty pattern");
    let long = "x".repeat(1025);
    let expected = format!("the pattern {long:?} in `servers`: a pattern of 1025 bytes, where 1024 is the most");
    assert_eq!(told(&["*"], &[&long]), expected);
}

#[test]
fn who_is_out_of_a_plugins_scope_is_not_its_concern() {
    let engine = engine(Limits::SHIPPED);
    let (open, closed) = (plugin(&engine, "open", &allow()), plugin(&engine, "closed", &deny("closed")));
    let absent = Member { plugin: "absent".to_owned(), ..closed.member().clone() };
    let links = vec![
        Link::ready(closed.clone(), false).scoped(scope(&["cursor"], &["*"]).unwrap()),
        Link::ready(open.clone(), true).scoped(scope(&["*"], &["fs"]).unwrap()),
        Link::broken(absent.clone(), "it is gone").scoped(scope(&["*"], &["git"]).unwrap()),
    ];
    let chain = Chain::new(1, ChainDefault::Deny, links);
    let asked = |agent, server| {
        let opinions = chain.opinions(&Call { caller: Arc::new(caller(agent, server)), ..call("x") });
        let positions: Vec<usize> = opinions.opinions.iter().map(|opinion| opinion.position).collect();
        (opinions.members.to_vec(), positions, evaluate(opinions).ruling)
    };
    let member = |plugin: &Configured| plugin.member().clone();
    let allowed = Ruling::Allow { plugin: "open".to_owned(), rule: None };
    assert_eq!(asked(Some("zed"), "fs"), (vec![member(&open)], vec![1], allowed.clone()));
    assert_eq!(asked(None, "fs"), (vec![member(&open)], vec![1], allowed));
    assert_eq!(asked(None, "db"), (vec![], vec![], Ruling::Default(ChainDefault::Deny)));
    let (members, positions, ruling) = asked(Some("cursor"), "fs");
    assert_eq!((members, positions), (vec![member(&closed), member(&open)], vec![0, 1]));
    assert!(matches!(ruling, Ruling::Deny { plugin, .. } if plugin == "closed"));
    let (members, positions, ruling) = asked(Some("zed"), "git");
    assert_eq!((members, positions), (vec![absent], vec![2]));
    assert!(matches!(ruling, Ruling::Failed { plugin, .. } if plugin == "absent"));
    assert_eq!(chain.members().len(), 3);
}
