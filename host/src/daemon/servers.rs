//! A connection about registered servers: a person's changes, and a relay that asks what to start.

use callgate_ipc::servers::ServersCommand;

use super::gate::Gate;
use super::identity::Caller;
use crate::wire::{Broken, Wire};

/// Serves one command or relay until it closes the connection.
pub(super) fn serve(mut wire: Wire, caller: &Caller, gate: &Gate) -> Result<(), Broken> {
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
            ServersCommand::Launch(name) => gate.launch(&name, caller.runs_this_program()),
        };
        let sent = wire.send(&[reply]);
        wire.wipe();
        sent?;
    }
}
