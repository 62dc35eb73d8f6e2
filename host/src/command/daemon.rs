//! `callgate daemon`

use callgate_ipc::message::Command;
use rustix::process::{Pid, Signal};

use super::status;
use crate::cli::Daemon;
use crate::client::{Client, Reached, Unreachable};
use crate::daemon;
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
        Daemon::Status(json) => status::status(home, *json),
        Daemon::Serve { detached } => daemon::serve(home, environment, *detached),
    }
}

fn start(home: &Home) -> Outcome {
    let said = if Client::reach(home)?.ready()?.is_some() {
        "the daemon runs already"
    } else {
        launch::start(home)?;
        Client::connect(home)?;
        "the daemon runs"
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
    let path = home.lock_file();
    match Client::reach(home) {
        Ok(Reached::Absent) => return Ok(false),
        Ok(Reached::Ready(mut client)) => {
            client.ask(&Command::Stop)?;
            client.wait_closed();
        }
        // Another build speaks another protocol, and a hung daemon none; SIGTERM is the same for all.
        Ok(Reached::OtherBuild(other) | Reached::Unreachable(Unreachable { announcement: Some(other), .. })) => {
            terminate(home, &other)?;
        }
        Ok(Reached::Unreachable(nameless)) => {
            return Err(Failure { hint: Some(format!("fuser {}", path.display())), ..nameless.failure() });
        }
        Err(failure) => terminate(home, &lock::announced(&path).ok_or(failure)?)?,
    }
    let deadline = std::time::Instant::now() + STOP_TIMEOUT;
    while lock::is_held(&path) {
        if std::time::Instant::now() > deadline {
            return Err(still_there(home));
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

fn still_there(home: &Home) -> Failure {
    match lock::announced(&home.lock_file()) {
        Some(Announcement { pid, .. }) => {
            Failure::environment(format!("the daemon (pid {pid}) does not stop")).hint(format!("kill -9 {pid}"))
        }
        None => Failure::environment("the daemon does not stop"),
    }
}

/// Ends the process that `announcement` names, if it is still the one that holds the lock: an id that is free again may be
/// anybody's.
fn terminate(home: &Home, announcement: &Announcement) -> Result<(), Failure> {
    let pid = i32::try_from(announcement.pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| Failure::environment("the lock file names no process"))?;
    let path = home.lock_file();
    let holds = || lock::is_held(&path) && lock::announced(&path).as_ref() == Some(announcement);
    match signal_if(pid, holds) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => {
            Err(Failure::environment(format!("cannot signal the daemon (pid {}): {error}", announcement.pid)))
        }
    }
}

/// Sends SIGTERM to the process that has the id now, if `it_is_the_one`: what is found out after the process is held by its
/// descriptor is true of the very process that is signalled.
#[cfg(target_os = "linux")]
fn signal_if(pid: Pid, it_is_the_one: impl FnOnce() -> bool) -> rustix::io::Result<()> {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    if it_is_the_one() { pidfd_send_signal(&process, Signal::TERM) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
fn signal_if(pid: Pid, it_is_the_one: impl FnOnce() -> bool) -> rustix::io::Result<()> {
    if it_is_the_one() { rustix::process::kill_process(pid, Signal::TERM) } else { Ok(()) }
}
