//! `callgate status`, which is `callgate daemon status`: the daemon, and who is connected.

use std::time::Duration;

use callgate_core::escape::visible;
use callgate_ipc::message::{Command, CommandReply, SessionState, Status};
use serde::Serialize;

use crate::BUILD;
use crate::cli::Json;
use crate::client::{Client, Reached, Unreachable, unexpected};
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

#[derive(Serialize)]
struct Shown {
    running: bool,
    #[serde(flatten)]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_build: Option<String>,
    /// Why it cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable: Option<String>,
}

impl Shown {
    const fn of(running: bool) -> Self {
        Self { running, status: None, other_build: None, unreachable: None }
    }
}

pub(super) fn status(home: &Home, json: Json) -> Outcome {
    let (shown, exit) = match Client::reach(home)? {
        Reached::Absent => (Shown::of(false), Exit::Environment),
        Reached::OtherBuild(other) => (Shown { other_build: Some(other.build), ..Shown::of(true) }, Exit::Environment),
        Reached::Unreachable(Unreachable { why, .. }) => {
            (Shown { unreachable: Some(why), ..Shown::of(true) }, Exit::Environment)
        }
        Reached::Ready(mut client) => {
            let CommandReply::Status(status) = client.ask(&Command::Status)? else {
                return Err(unexpected());
            };
            let exit = if status.problems.is_empty() { Exit::Done } else { Exit::No };
            (Shown { status: Some(status), ..Shown::of(true) }, exit)
        }
    };
    if json.json {
        output::json(&shown)?;
    } else {
        print(&shown)?;
    }
    Ok(exit)
}

fn print(shown: &Shown) -> Result<(), Failure> {
    if let Some(build) = &shown.other_build {
        output::line(&format!("running: another build ({build}); this is {BUILD}"))?;
        output::tell("hint: callgate daemon restart");
        return Ok(());
    }
    if let Some(why) = &shown.unreachable {
        output::line(&format!("running, but it cannot be reached: {why}"))?;
        output::tell("hint: callgate daemon restart");
        return Ok(());
    }
    let Some(status) = &shown.status else {
        return output::line("not running; it starts by itself when it is needed");
    };
    output::line(&format!("running: pid {}, build {}", status.pid, status.build))?;
    output::line(&format!("up: {}", age(status.uptime_ms)))?;
    output::line(&format!("sessions: {}", status.sessions))?;
    status.open_sessions.iter().map(session).try_for_each(|line| output::line(&visible(&line)))?;
    output::line(&format!("journal: {} entries, head {}", status.entries, status.head))?;
    output::line(&format!("rules: generation {}", status.generation))?;
    status.problems.iter().try_for_each(|problem| output::line(&visible(&format!("problem: {problem}"))))
}

fn session(SessionState { server, agent, unknown, pid, age_ms, .. }: &SessionState) -> String {
    let agent = match (agent, unknown) {
        (Some(agent), _) => format!("agent {} ({})", agent.name, agent.evidence),
        (None, Some(why)) => format!("agent not known: {why}"),
        (None, None) => "agent not known: it is enrolled no more".to_owned(),
    };
    format!("  {server}: {agent}; pid {pid}, for {}", age(*age_ms))
}

fn age(ms: u64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(ms / 1000))
}
