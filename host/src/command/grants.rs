//! `callgate grant`, `callgate revoke` and `callgate grants`

use std::collections::BTreeMap;

use serde::Serialize;

use callgate_core::escape::visible;
use callgate_core::grant::{GrantEntry, GrantsOf};
use callgate_core::identity::ServerName;
use callgate_core::policy::PolicyItem;
use callgate_ipc::message::Command;

use super::log;
use super::policy::{add, changed, in_force};
use crate::cli::{ArgumentPattern, Grant, Grants, Revoke};
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn grant(Grant { agent, server, tool, args }: Grant, home: &Home) -> Outcome {
    let args = patterns(args)?;
    let granted = add(home, PolicyItem::Grant(GrantEntry { agent, server: server.clone(), tool, args }), "granted")?;
    warn_of_unknown(&server, home)?;
    Ok(granted)
}

fn patterns(args: Vec<ArgumentPattern>) -> Result<BTreeMap<String, String>, Failure> {
    let mut patterns = BTreeMap::new();
    for ArgumentPattern { name, pattern } in args {
        if patterns.insert(name.clone(), pattern).is_some() {
            let failure = Failure::usage(format!("the argument {name:?} has two patterns"));
            return Err(failure.hint("make two grants: what one of them allows is allowed"));
        }
    }
    Ok(patterns)
}

/// A grant on a server that nobody has is most likely a slip of the pen, and would only be found out by a call that is refused.
fn warn_of_unknown(server: &ServerName, home: &Home) -> Result<(), Failure> {
    if !log::open(home)?.has_seen(server).map_err(|error| log::unreadable(&error))? {
        output::tell(&format!("warning: no session was ever opened for a server named {server}; see callgate log"));
    }
    Ok(())
}

pub(super) fn revoke(Revoke { agent, server, tool }: Revoke, home: &Home) -> Outcome {
    changed(home, &Command::Revoke(GrantsOf { agent, server, tool }), "revoked")
}

#[derive(Serialize)]
struct Listed {
    grants: Vec<GrantEntry>,
}

pub(super) fn list(Grants { agent, json }: &Grants, home: &Home) -> Outcome {
    let grants = in_force(home)?.into_iter().filter_map(|item| match item {
        PolicyItem::Grant(grant) => Some(grant),
        PolicyItem::Rule(_) | PolicyItem::Budget(_) => None,
    });
    let grants: Vec<GrantEntry> =
        grants.filter(|grant| agent.as_ref().is_none_or(|agent| grant.agent == *agent)).collect();
    if json.json {
        output::json(&Listed { grants })?;
    } else if grants.is_empty() {
        output::line("no grants")?;
    } else {
        grants.iter().try_for_each(|grant| output::line(&visible(&grant.to_string())))?;
    }
    Ok(Exit::Done)
}
