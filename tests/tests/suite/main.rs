//! The end-to-end suite: the real binary, real processes, exact bytes.
//!
//! One binary, so that it is linked once. A group that needs what this machine does not offer says so on stderr, by name:
//! `peers` needs `CALLGATE_PEERS` (see tests/peers/install), `mounts` needs root,
//! `keyring` dbus, gnome-keyring and secret-tool, `guide` a WebAssembly toolchain (`CALLGATE_PLUGINS`).

mod budgets;
mod coming_from;
mod commands;
mod doctor;
mod fail_closed;
mod grants;
mod guide;
mod identity;
mod init;
mod kill;
mod lifecycle;
mod parsers;
mod peers;
mod plugins;
mod repo;
mod servers;
mod tables;
mod traps;

use std::io::Write;
use std::sync::Mutex;

/// Says, once a group, that a group was skipped and why. Past the harness, which swallows what passing tests print.
#[expect(clippy::explicit_write, reason = "what `eprintln!` prints is swallowed")]
fn skipped(group: &'static str, why: &str) {
    static SAID: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap();
    if !said.contains(&group) {
        said.push(group);
        writeln!(std::io::stderr(), "skipped: {group} ({why})").unwrap();
    }
}
