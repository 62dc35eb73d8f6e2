//! The daemon, if one runs, and what it says of itself and of its plugins.

use callgate_ipc::message::{Command, CommandReply, Problem, Status};

use super::Check;
use crate::client::{Client, Reached, unexpected};
use crate::command::plugin;
use crate::failure::Failure;
use crate::home::Home;

/// The daemon as it was found.
pub(super) enum Running {
    /// None runs.
    No,
    /// It runs and answers.
    Yes(Status),
    /// One runs that this build cannot talk to.
    Unusable(Failure),
}

impl Running {
    pub(super) fn find(home: &Home) -> Self {
        let status = || {
            let Some(mut client) = Client::reach(home).and_then(Reached::ready)? else { return Ok(None) };
            match client.ask(&Command::Status)? {
                CommandReply::Status(status) => Ok(Some(status)),
                _ => Err(unexpected()),
            }
        };
        match status() {
            Ok(None) => Self::No,
            Ok(Some(status)) => Self::Yes(status),
            Err(failure) => Self::Unusable(failure),
        }
    }

    /// Whether it can be talked to.
    pub(super) fn check(&self) -> Check {
        let check = "daemon";
        match self {
            Self::No => Check::ok(check, "not running; it starts by itself when it is needed"),
            Self::Yes(Status { pid, sessions, .. }) => {
                Check::ok(check, format!("running (pid {pid}), of this build, {sessions} sessions"))
            }
            Self::Unusable(Failure { message, hint, .. }) => {
                let hint = hint.clone().unwrap_or_else(|| "callgate daemon restart".to_owned());
                Check::fail(check, message.clone(), hint)
            }
        }
    }

    /// The plugins of the chain.
    pub(super) fn plugins(&self, home: &Home) -> Vec<Check> {
        // Who cannot talk to the daemon hears so once, from the check of the daemon.
        if matches!(self, Self::Unusable(_)) {
            return Vec::new();
        }
        // A configuration that cannot be read has a check of its own.
        let Ok(plugins) = plugin::list::all(home) else { return Vec::new() };
        let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        let wrong = plugins.iter().flat_map(|plugin| &plugin.problems);
        let wrong = wrong.map(|problem| told("plugins", problem)).collect();
        Check::some_or_ok(wrong, "plugins", names.join(", "))
    }

    /// What else it says is wrong, besides what was told of the plugins.
    pub(super) fn problems(&self, told: &[Check]) -> Vec<Check> {
        let Self::Yes(Status { problems, .. }) = self else { return Vec::new() };
        let checks = problems.iter().map(|problem| self::told("daemon", problem));
        checks.filter(|check| !told.iter().any(|told| told.found == check.found)).collect()
    }
}

fn told(check: &'static str, Problem { problem, hint }: &Problem) -> Check {
    Check::fail(check, problem.clone(), hint.clone())
}
