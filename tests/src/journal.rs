//! The journal as it lies on the disk, read beside the daemon that writes it.

use std::path::Path;

use callgate_journal::{Content, Filter, Reader};
use serde_json::Value;

/// One entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its number.
    pub seq: u64,
    /// What it is about.
    pub kind: String,
    /// Its body, as stored.
    pub body: Value,
    /// What is kept of a call's arguments, as text.
    pub arguments: Option<String>,
}

/// Every entry, oldest first; none where there is no database yet.
#[track_caller]
pub fn entries(database: &Path) -> Vec<Entry> {
    if !database.exists() {
        return Vec::new();
    }
    let reader = Reader::open(database, None).unwrap_or_else(|error| panic!("{}: {error}", database.display()));
    let (mut entries, mut after) = (Vec::new(), 0);
    loop {
        let page = reader.page(after, &Filter::default(), usize::MAX).expect("the journal can be read");
        entries.extend(page.entries.into_iter().map(entry));
        if page.complete {
            return entries;
        }
        after = page.after;
    }
}

fn entry(entry: callgate_journal::Entry) -> Entry {
    let arguments = match &entry.content {
        Content::Decision(decision) => decision.arguments.as_ref().and_then(|kept| kept.value.clone()),
        _ => None,
    };
    Entry {
        seq: entry.seq,
        kind: entry.kind,
        body: serde_json::from_slice(&entry.body).expect("a body is JSON"),
        arguments: arguments.map(|bytes| String::from_utf8(bytes).expect("arguments are UTF-8")),
    }
}
