//! What a person should look at before grants are in force: a grant that opens what an older one constrains, and one that
//! allows nothing that another does not. Grants are a union, so neither is an error.

use std::cmp::Reverse;

use callgate_sdk::SettingsWarning;

use crate::grant::{Constraint, Grant};
use crate::pointer;

/// The most grants of one agent and server that are compared with all others of theirs, the newest: the others were when they
/// were written, and comparing all pairs of five thousand takes more than configuring may.
pub const COMPARED_MAX: usize = 100;

/// The warnings, those about the newest grants first: of too many the last ones are left out.
pub(crate) fn warnings(grants: &[Grant]) -> Vec<SettingsWarning> {
    let mut places: Vec<usize> = (0..grants.len()).collect();
    let owner = |place: &usize| (&grants[*place].agent, &grants[*place].server);
    places.sort_by(|a, b| owner(a).cmp(&owner(b)));
    let mut found = Vec::new();
    for group in places.chunk_by(|a, b| owner(a) == owner(b)) {
        for place in group.iter().rev().take(COMPARED_MAX) {
            found.extend(
                covered(grants, group, *place).or_else(|| widening(grants, group, *place)).map(|text| (*place, text)),
            );
        }
    }
    found.sort_by_key(|(place, _)| Reverse(*place));
    found.into_iter().map(|(place, text)| SettingsWarning::new(pointer(place), text)).collect()
}

/// Says which grant allows all that this one does. Of two that allow the same it is the newer that decides nothing; and a newer
/// one that opens what this one constrains is told where it stands itself.
fn covered(grants: &[Grant], group: &[usize], place: usize) -> Option<String> {
    let grant = &grants[place];
    let by = group.iter().copied().find(|other| match &grants[*other] {
        wider if *other == place || !wider.covers(grant) => false,
        wider if *other > place => wider.opens(grant).next().is_none() && !grant.covers(wider),
        _ => true,
    })?;
    Some(format!("decides nothing: {} allows all that it does (`{}`)", pointer(by), grants[by].text()))
}

/// Says what this grant leaves open that an older one constrains.
fn widening(grants: &[Grant], group: &[usize], place: usize) -> Option<String> {
    let newer = &grants[place];
    let is_opened = |older: &Grant| newer.opens(older).next().is_some() && newer.tool.overlaps(&older.tool);
    let older = group.iter().copied().take_while(|other| *other < place).find(|other| is_opened(&grants[*other]))?;
    let opened: Vec<String> = newer.opens(&grants[older]).map(Constraint::text).collect();
    let tool = &grants[older].tool;
    let tools = if newer.tool.covers(tool) {
        format!("`{tool}`")
    } else if tool.covers(&newer.tool) {
        format!("`{}`", newer.tool)
    } else {
        format!("tools that match both `{tool}` and `{}`", newer.tool)
    };
    Some(format!(
        "opens {tools} to calls that {} does not allow: `{}` no longer binds",
        pointer(older),
        opened.join("`, `")
    ))
}

impl Grant {
    /// Whether it allows every call that another grant of the same agent and server does. May miss it, never wrongly so.
    fn covers(&self, other: &Self) -> bool {
        self.args.iter().all(|constraint| other.args.contains(constraint)) && self.tool.covers(&other.tool)
    }

    /// The constraints of an older grant on arguments that this one leaves open.
    fn opens<'a>(&self, older: &'a Self) -> impl Iterator<Item = &'a Constraint> {
        older.args.iter().filter(|constraint| !self.args.iter().any(|own| own.name == constraint.name))
    }
}
