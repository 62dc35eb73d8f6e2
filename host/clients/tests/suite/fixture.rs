//! A plan as the command makes it, with Callgate at a fixed path.

use std::path::Path;

use callgate_clients::client::{Client, Place};
use callgate_clients::plan::{EntryName, Plan, PlanError, Wanted};

pub(crate) const CALLGATE: &str = "/opt/callgate";

/// What is asked of a plan.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    pub(crate) repoint: bool,
    pub(crate) moving: bool,
}

pub(crate) fn plan(client: Client, text: &str, asked: Asked) -> Result<Plan, PlanError> {
    let place = Place { client, path: "/nowhere".into(), shared: false };
    let wanted = Wanted {
        callgate: CALLGATE,
        repoint: asked.repoint,
        exists: &|path: &Path| path == Path::new("/usr/bin/callgate"),
        moving: &|_: &EntryName| asked.moving,
        taken: &|entry: &EntryName| entry.name == "taken",
    };
    Plan::of(&place, text.as_bytes(), &wanted)
}

/// The text with Callgate in front of everything.
pub(crate) fn wrapped(client: Client, text: &str) -> String {
    let plan = plan(client, text, Asked::default()).unwrap();
    plan.text().unwrap_or(text).to_owned()
}
