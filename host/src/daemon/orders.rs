//! A command's connection: changes of the policy, explanations, the status, the end.

use callgate_ipc::message::{Command, CommandReply};

use super::gate::Gate;
use crate::wire::{Broken, Wire};

/// Serves one command until it closes the connection.
pub(super) fn serve(mut wire: Wire, gate: &Gate, stop: &tokio::sync::mpsc::Sender<()>) -> Result<(), Broken> {
    loop {
        let command = wire.receive(None)?;
        let stopping = command == Command::Stop;
        let reply = match command {
            Command::Change(changes) => gate.change(changes),
            Command::Revoke(grants) => gate.revoke(&grants),
            Command::Explain(explain) => gate.explain(explain),
            Command::Usage => gate.usage(),
            Command::Enrol(enrol) => gate.enrol(enrol),
            Command::RefreshAgent(refresh) => gate.refresh_agent(refresh),
            Command::RemoveAgent(name) => gate.remove_agent(&name),
            Command::Plugins => gate.plugin_states(),
            Command::ChangePlugins(change) => gate.change_plugins(change),
            Command::ResetPlugin(name) => gate.reset_plugin(&name),
            Command::Status => gate.status(),
            Command::Stop => CommandReply::Stopping,
        };
        wire.send(&[reply])?;
        if stopping {
            // Full means that somebody else has asked already.
            stop.try_send(()).ok();
        }
    }
}
