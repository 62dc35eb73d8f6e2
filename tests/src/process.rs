//! Processes as the kernel shows them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process that lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line, for messages.
    pub command: String,
}

/// Every living process whose environment names `home`, however it was started and whoever its parent is now.
pub fn of_home(home: &Path) -> Vec<Process> {
    let wanted = [b"CALLGATE_HOME=", home.as_os_str().as_bytes()].concat();
    let pids = fs::read_dir("/proc")
        .expect("/proc is there")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted)
    })
    .map(|pid| Process { pid, command: command_line(pid) })
    .filter(|process| process.pid != std::process::id())
    .collect()
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// Whether the process lives; one that ended and waits to be reaped does not.
pub fn lives(pid: u32) -> bool {
    // The state is the first letter after the name, which is in parentheses and may hold anything.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Sends a signal; a process that is gone already is fine.
pub fn signal(pid: u32, signal: Signal) {
    let _: rustix::io::Result<()> = kill_process(as_pid(pid), signal);
}

/// How many descriptors it has open.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// What it keeps in memory, bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}

fn as_pid(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id is a positive number")
}
