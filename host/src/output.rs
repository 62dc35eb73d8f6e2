//! Data on stdout, everything else on stderr. The only module that prints, and never used while relaying.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::{Exit, Failure};

/// The version of every `--json` shape; docs/reference/json.md.
pub(crate) const SCHEMA: u32 = 1;

/// Prints one line of data.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| not_printed(&error))
}

/// Prints bytes as they are.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| not_printed(&error))
}

/// Prints a value, an object, as one line of JSON, with the schema's version before its own members.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        schema: u32,
        #[serde(flatten)]
        value: &'a T,
    }
    let text = serde_json::to_string(&Versioned { schema: SCHEMA, value })
        .map_err(|error| Failure::internal(format!("cannot write JSON: {error}")))?;
    line(&text)
}

/// Tells a person something that is not data.
#[expect(clippy::print_stderr, reason = "the one place that tells a person something")]
pub(crate) fn tell(text: &str) {
    eprintln!("{text}");
}

fn not_printed(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        // `callgate log | head`: whoever reads has read enough.
        return Failure { exit: Exit::Done, message: "stdout was closed".to_owned(), hint: None };
    }
    Failure::environment(format!("cannot write to stdout: {error}"))
}
