//! Whether more budgets could fit one call than an answer may hold charges.

use crate::budget::{Budget, Scope};

/// A budget that could fit a call together with too many others.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// The budget.
    pub(crate) place: usize,
    /// The earlier ones that could each fit a call together with it.
    pub(crate) others: Vec<usize>,
}

/// The first budget with which more than `together_max` could fit one call, if there may be such.
///
/// Never misses one. Budgets are put into rows, each into the first row in which no budget fits a call together with it, so
/// that of one row at most one fits any call. Finding the exact number is the clique problem; this may see a crowd where
/// there is none, but only among globs that overlap one another in many ways.
pub(crate) fn find(budgets: &[Budget], together_max: usize) -> Option<Crowd> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for (place, Budget { scope, .. }) in budgets.iter().enumerate() {
        let mut others = Vec::new();
        let free = rows.iter().position(|row| {
            let other = row.iter().find(|other| scope.may_meet(&budgets[**other].scope));
            others.extend(other);
            other.is_none()
        });
        match free {
            Some(row) => rows[row].push(place),
            None if rows.len() == together_max => return Some(Crowd { place, others }),
            None => rows.push(vec![place]),
        }
    }
    None
}

impl Scope {
    /// Whether some call fits both.
    fn may_meet(&self, other: &Self) -> bool {
        let may_be_same =
            |one: &Option<String>, other: &Option<String>| one.is_none() || other.is_none() || one == other;
        may_be_same(&self.agent, &other.agent)
            && may_be_same(&self.server, &other.server)
            && match (&self.tool, &other.tool) {
                (Some(one), Some(other)) => one.overlaps(other),
                (None, _) | (_, None) => true,
            }
    }
}
