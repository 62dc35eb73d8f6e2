//! A connection about registered servers: a person's changes, and a relay that asks what to start.

use callgate_ipc::servers::ServersCommand;

use super::gate::Gate;
use crate::wire::{Broken, Wire};

/// Serves one command or relay until it closes the connection.
pub(super) fn serve(mut wire: Wire, pid: u32, gate: &Gate) -> Result<(), Broken> {
    loop {
        let command = wire.receive(None)?;
        wire.wipe();
        let reply = match command {
            ServersCommand::Add(add) => gate.add_server(add),
            ServersCommand::Remove(name) => gate.remove_server(&name),
            ServersCommand::SetCredential(set) => gate.set_credential(&set),
            ServersCommand::RemoveCredential { server, variable } => gate.remove_credential(&server, &variable),
            ServersCommand::StoreStatus => gate.store_states(),
            ServersCommand::InitSealedFile(passphrase) => gate.create_sealed_file(&passphrase),
            ServersCommand::Unlock(passphrase) => gate.unlock(&passphrase),
            ServersCommand::Launch(name) => gate.launch(&name, || runs_this_program(pid)),
        };
        let sent = wire.send(&[reply]);
        wire.wipe();
        sent?;
    }
}

/// Whether a process runs the very file that we run, by the kernel's word. The path alone says nothing: another file may be there
/// by now.
#[cfg(target_os = "linux")]
fn runs_this_program(pid: u32) -> bool {
    let program =
        |process: &str| rustix::fs::stat(format!("/proc/{process}/exe")).map(|file| (file.st_dev, file.st_ino));
    matches!((program(&pid.to_string()), program("self")), (Ok(theirs), Ok(ours)) if theirs == ours)
}

/// It cannot be found out here yet, and who is not known gets no secret.
#[cfg(not(target_os = "linux"))]
fn runs_this_program(_pid: u32) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_very_file_runs_this_program() {
        assert!(runs_this_program(std::process::id()));
        assert!(!runs_this_program(1));
        assert!(!runs_this_program(u32::MAX));
    }
}
