//! The journal as it lies on the disk, read beside the daemon that writes it.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Has the journal read by the verifier that shares no code with Callgate, and `head` found in its chain. `None` where there
/// is no Python to run it; with `CALLGATE_PEERS`, which promises one, that is a failure.
#[track_caller]
pub fn verified_by_python(database: &Path, head: &str) -> Option<()> {
    let verifier = concat!(env!("CARGO_MANIFEST_DIR"), "/verifier/verify_journal.py");
    let mut command = Command::new("python3");
    let output = match command.arg(verifier).arg(database).arg(head).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound && std::env::var_os("CALLGATE_PEERS").is_none() => {
            return None;
        }
        Err(error) => panic!("python3 cannot be started: {error}"),
    };
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.starts_with("sound entries="), "{}: {said}{wrong}", database.display());
    Some(())
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
