//! The rules in an order in which those of one kind stand side by side.

use crate::rule::Rule;

/// The places of rules, those with the same target together, then by agent, then by server, then by place.
#[derive(Debug)]
pub(crate) struct Order(Vec<usize>);

impl Order {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut places: Vec<usize> = (0..rules.len()).collect();
        places.sort_unstable_by(|a, b| rules[*a].key().cmp(&rules[*b].key()).then(a.cmp(b)));
        Self(places)
    }

    pub(crate) fn places(&self) -> &[usize] {
        &self.0
    }
}
