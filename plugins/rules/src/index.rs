//! Finds the rule that wins a call, at the cost of the tool patterns that match and not of the rules there are.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use callgate_sdk::matching::ToolIndex;

use crate::order::Order;
use crate::rule::{Effect, Rule, Target};

/// The index over all rules.
#[derive(Debug)]
pub(crate) struct Index {
    agents: Names,
    servers: Names,
    /// The patterns of all rules, each once.
    tools: ToolIndex,
    /// Each pattern's rules, a range of the scoped ones.
    by_pattern: Vec<Range<usize>>,
    /// The rules that are a default, a range of the scoped ones.
    defaults: Range<usize>,
    /// All rules, those of one pattern together and ordered by scope.
    scoped: Vec<Scoped>,
}

/// Which agent and server a rule is for, as one number: an agent's and a server's, 0 for any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Scope(u64);

impl Scope {
    fn new(agent: u32, server: u32) -> Self {
        Self(u64::from(agent) << u32::BITS | u64::from(server))
    }
}

#[derive(Debug)]
struct Scoped {
    scope: Scope,
    rank: Rank,
}

/// What decides between rules that fit: the score, then the strictest, then the earliest.
type Rank = (u8, Effect, Reverse<usize>);

impl Index {
    pub(crate) fn new(rules: &[Rule], order: &Order) -> Self {
        let agents = Names::new(rules.iter().filter_map(|rule| rule.agent.as_deref()));
        let servers = Names::new(rules.iter().filter_map(|rule| rule.server.as_deref()));
        let scoped = order.places().iter().map(|place| {
            let rule = &rules[*place];
            // Names are numbered in their own order, so that the scopes are in order as well.
            let scope = Scope::new(agents.number(rule.agent.as_deref()), servers.number(rule.server.as_deref()));
            Scoped { scope, rank: (rule.score(), rule.effect, Reverse(*place)) }
        });
        let scoped = scoped.collect();
        let (mut patterns, mut by_pattern, mut defaults) = (Vec::new(), Vec::new(), 0..0);
        let mut start = 0;
        for group in order.places().chunk_by(|a, b| rules[*a].target == rules[*b].target) {
            let range = start..start + group.len();
            start = range.end;
            match &rules[group[0]].target {
                Target::Tool(pattern) => {
                    patterns.push(pattern);
                    by_pattern.push(range);
                }
                Target::Default => defaults = range,
            }
        }
        Self { agents, servers, tools: ToolIndex::new(patterns), by_pattern, defaults, scoped }
    }

    /// The place of the rule that wins, in the list that the index was made of. Without an agent only rules that name none
    /// fit.
    pub(crate) fn winner(&self, tool: &str, agent: Option<&str>, server: &str) -> Option<usize> {
        let (agent, server) = (self.agents.number(agent), self.servers.number(Some(server)));
        let mut best = self.best(&self.defaults, agent, server);
        self.tools.each_matching(tool, |pattern| {
            best = best.max(self.best(&self.by_pattern[pattern], agent, server));
        });
        best.map(|(_, _, Reverse(place))| place)
    }

    /// The best of one pattern's rules for a caller: four scopes can fit, however many rules there are.
    fn best(&self, rules: &Range<usize>, agent: u32, server: u32) -> Option<Rank> {
        let rules = &self.scoped[rules.clone()];
        let rank = |agent, server| {
            let place = rules.binary_search_by_key(&Scope::new(agent, server), |rule| rule.scope).ok()?;
            Some(rules[place].rank)
        };
        let mut best = rank(ANY, ANY);
        if agent != ANY {
            best = best.max(rank(agent, ANY));
        }
        if server != ANY {
            best = best.max(rank(ANY, server));
        }
        if agent != ANY && server != ANY {
            best = best.max(rank(agent, server));
        }
        best
    }
}

/// The number of no name.
const ANY: u32 = 0;

/// Names as numbers, from 1 and in their order.
#[derive(Debug)]
struct Names(HashMap<Box<str>, u32, BuildHasherDefault<Fnv>>);

impl Names {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into_iter().map(Box::from).zip(1..).collect())
    }

    /// A name's number. One that no rule mentions fits what no name fits.
    fn number(&self, name: Option<&str>) -> u32 {
        name.and_then(|name| self.0.get(name)).copied().unwrap_or(ANY)
    }
}

/// FNV-1a: a few instructions a byte, for names that the operator chose. Nobody gains by making them collide, and the order
/// of a map is never looked at.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
