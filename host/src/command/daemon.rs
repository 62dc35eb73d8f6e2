//! `callgate daemon`

use serde::Serialize;

use callgate_ipc::message::{Command, CommandReply, Status};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::{Daemon, Json};
use crate::client::{Client, Reached, other_build};
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::lock::{self, Announcement};
use crate::{BUILD, launch, output};

/// How long a daemon may take to finish what it is at.
const STOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
const POLL: std::time::Duration = std::time::Duration::from_millis(5);

pub(super) fn daemon(daemon: &Daemon, home: &Home, environment: &Environment) -> Outcome {
    match daemon {
        Daemon::Start => start(home),
        Daemon::Stop => stop(home),
        Daemon::Restart => {
            end(home)?;
            start(home)
        }
        Daemon::Status(json) => status(home, *json),
        Daemon::Serve { detached } => crate::daemon::serve(home, environment, *detached),
    }
}

fn start(home: &Home) -> Outcome {
    let said = match Client::reach(home)? {
        Reached::Ready(_) => "the daemon runs already",
        Reached::OtherBuild(other) => return Err(other_build(&other)),
        Reached::Absent => {
            launch::start(home)?;
            Client::connect(home)?;
            "the daemon runs"
        }
    };
    let pid = lock::announced(&home.lock_file()).map_or(0, |announcement| announcement.pid);
    output::line(&format!("{said} (pid {pid}, build {BUILD})"))?;
    Ok(Exit::Done)
}

fn stop(home: &Home) -> Outcome {
    let said = if end(home)? { "the daemon has stopped" } else { "no daemon runs" };
    output::line(said)?;
    Ok(Exit::Done)
}

/// Ends the daemon that runs, of whatever build; tells whether there was one.
fn end(home: &Home) -> Result<bool, Failure> {
    let Some(announcement) = lock::announced(&home.lock_file()).filter(|_| lock::is_held(&home.lock_file())) else {
        return Ok(false);
    };
    match Client::reach(home) {
        Ok(Reached::Ready(mut client)) => {
            client.ask(&Command::Stop)?;
            client.wait_closed();
        }
        // Another build speaks another protocol, and a hung one none; SIGTERM is the same for all.
        Ok(Reached::OtherBuild(_) | Reached::Absent) | Err(_) => terminate(&announcement)?,
    }
    let deadline = std::time::Instant::now() + STOP_TIMEOUT;
    while lock::is_held(&home.lock_file()) {
        if std::time::Instant::now() > deadline {
            return Err(Failure::environment(format!("the daemon (pid {}) does not stop", announcement.pid))
                .hint(format!("kill -9 {}", announcement.pid)));
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

fn terminate(announcement: &Announcement) -> Result<(), Failure> {
    let pid = i32::try_from(announcement.pid).ok().and_then(Pid::from_raw);
    let sent = pid.map(|pid| kill_process(pid, Signal::TERM));
    match sent {
        Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
        Some(Err(error)) => {
            Err(Failure::environment(format!("cannot signal the daemon (pid {}): {error}", announcement.pid)))
        }
        None => Err(Failure::environment("the lock file names no process")),
    }
}

#[derive(Serialize)]
struct Shown {
    running: bool,
    #[serde(flatten)]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_build: Option<String>,
}

fn status(home: &Home, json: Json) -> Outcome {
    let (shown, exit) = match Client::reach(home)? {
        Reached::Absent => (Shown { running: false, status: None, other_build: None }, Exit::Environment),
        Reached::OtherBuild(other) => {
            (Shown { running: true, status: None, other_build: Some(other.build) }, Exit::Environment)
        }
        Reached::Ready(mut client) => {
            let CommandReply::Status(status) = client.ask(&Command::Status)? else {
                return Err(Failure::internal("the daemon answered another question"));
            };
            let exit = if status.problems.is_empty() { Exit::Done } else { Exit::No };
            (Shown { running: true, status: Some(status), other_build: None }, exit)
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
    let Some(status) = &shown.status else {
        return output::line("not running; it starts by itself when it is needed");
    };
    output::line(&format!("running: pid {}, build {}", status.pid, status.build))?;
    output::line(&format!(
        "up: {}",
        humantime::format_duration(std::time::Duration::from_secs(status.uptime_ms / 1000))
    ))?;
    output::line(&format!("sessions: {}", status.sessions))?;
    output::line(&format!("journal: {} entries, head {}", status.entries, status.head))?;
    output::line(&format!("rules: generation {}", status.generation))?;
    status.problems.iter().try_for_each(|problem| output::line(&format!("problem: {problem}")))
}
