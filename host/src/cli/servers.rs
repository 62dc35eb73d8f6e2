//! `server` and `credential`, as they are typed.

use clap::{Args, Subcommand};

use callgate_core::identity::ServerName;
use callgate_core::server::VariableName;

use super::Json;

/// `server`
#[derive(Subcommand, Debug)]
pub enum Server {
    /// Register a server: its command, and the credentials that only this command is given. Each credential's value is read from
    /// stdin, or asked for on a terminal.
    Add(AddServer),
    /// Show the registered servers.
    List(Json),
    /// Show one registered server, and which of its credentials are set.
    Show {
        /// Its name.
        name: ServerName,
        /// How to print it.
        #[command(flatten)]
        json: Json,
    },
    /// Register a server no more, and remove its credentials. Its name is free again.
    Remove {
        /// Its name.
        name: ServerName,
    },
}

/// `server add`
#[derive(Args, Debug)]
pub struct AddServer {
    /// What rules and `callgate run --server` name.
    pub name: ServerName,
    /// A variable of the server's environment that comes from a credential. Its value is read from stdin: all of it for one
    /// variable, a line each for several.
    #[arg(long = "env", value_name = "VARIABLE")]
    pub env: Vec<VariableName>,
    /// The server's command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `credential`
#[derive(Subcommand, Debug)]
pub enum CredentialCommand {
    /// Set a credential of a registered server. The value is read from stdin, or asked for on a terminal.
    Set(OneCredential),
    /// Show which credentials there are, and where they are kept; never what they are.
    List(Json),
    /// Remove a credential. Its server does not start until it is set again.
    Remove(OneCredential),
    /// Where credentials are kept.
    #[command(subcommand)]
    Store(Store),
}

/// One credential.
#[derive(Args, Debug)]
pub struct OneCredential {
    /// The server.
    pub server: ServerName,
    /// The variable.
    #[arg(long = "env", value_name = "VARIABLE")]
    pub variable: VariableName,
}

/// `credential store`
#[derive(Subcommand, Debug)]
pub enum Store {
    /// Say how the stores are, and which one is used. Exits 3 when the one that is used cannot be used now. Nobody is asked for a
    /// password.
    Status(Json),
    /// Make a store for machines that have none: a file that is sealed with a passphrase, read from stdin or asked for.
    Init(InitStore),
    /// Open the sealed file for as long as the daemon runs. The passphrase is read from stdin, or asked for on a terminal.
    Unlock,
}

/// `credential store init`
#[derive(Args, Debug)]
pub struct InitStore {
    /// The one store that can be made.
    #[arg(long, required = true)]
    pub sealed_file: bool,
    /// Seal it with the key that systemd gave the daemon as the credential `callgate-key`, instead of a passphrase.
    #[arg(long)]
    pub given_key: bool,
}
