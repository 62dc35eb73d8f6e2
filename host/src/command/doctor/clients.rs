//! The clients' configuration files: whether what they start goes through Callgate.

use callgate_clients::plan::Status;

use super::Check;
use crate::command::init::{self, Looked};
use crate::environment::Environment;

const CHECK: &str = "clients";

/// Whether each client's servers go through this Callgate.
pub(super) fn clients(environment: &Environment) -> Vec<Check> {
    match init::look(environment) {
        Ok(files) if files.is_empty() => vec![Check::ok(CHECK, "no configuration file of a client is found")],
        Ok(files) => files.iter().map(file).collect(),
        Err(failure) => vec![Check::failed(CHECK, failure)],
    }
}

fn file(Looked { client, path, entries }: &Looked) -> Check {
    let whose = format!("{client}: {}", path.display());
    let entries = match entries {
        Ok(entries) => entries,
        Err(why) => {
            let remedy = format!("mend it, as {client} has to read it too");
            return Check::warn(CHECK, format!("{whose}: {why}"), remedy);
        }
    };
    let count = |status| entries.iter().filter(|entry| **entry == status).count();
    let (all, stale, other, bare) =
        (entries.len(), count(Status::StalePath), count(Status::OtherPath), count(Status::Wrapped));
    if stale > 0 {
        let found =
            format!("{whose}: {stale} of {all} servers do not start, since the callgate they name is not there");
        return Check::fail(CHECK, found, "callgate init --repoint --write");
    }
    if other > 0 {
        let found = format!("{whose}: {other} of {all} servers go through another callgate");
        return Check::warn(CHECK, found, "callgate init --repoint --write");
    }
    if bare > 0 {
        let found = format!("{whose}: {bare} of {all} servers do not go through Callgate");
        return Check::warn(CHECK, found, "callgate init --write");
    }
    let through = count(Status::Already);
    let left = if through == all { String::new() } else { format!(", {} left alone", all - through) };
    Check::ok(CHECK, format!("{whose}: {through} servers go through Callgate{left}"))
}
