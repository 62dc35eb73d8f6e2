//! `init`, as it is typed.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;

use callgate_clients::client::Client;

use super::Json;

/// `init`
#[derive(Args, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option as it is typed")]
pub struct Init {
    /// Write the files. Each is backed up first, and written whole or not at all.
    #[arg(long, conflicts_with_all = ["print", "undo"])]
    pub write: bool,
    /// Bring back the one file that a backup is of, unless it has changed since.
    #[arg(long, value_name = "BACKUP", exclusive = true)]
    pub undo: Option<PathBuf>,
    /// Only this client's files; may be given several times.
    #[arg(long = "client", value_name = "NAME", value_parser = client())]
    pub clients: Vec<Client>,
    /// This file, of the client that --client names, instead of those that are found.
    #[arg(long, value_name = "PATH", requires = "clients")]
    pub config: Option<PathBuf>,
    /// Let entries that start another Callgate start this one.
    #[arg(long)]
    pub repoint: bool,
    /// Register servers with secrets in their environment, put the secrets into the credential store and take them out of the
    /// file.
    #[arg(long)]
    pub move_secrets: bool,
    /// Print the one file as it would be, whole, with the secrets that stay in it; nothing is written.
    #[arg(long, conflicts_with = "json")]
    pub print: bool,
    /// How to print it.
    #[command(flatten)]
    pub json: Json,
}

fn client() -> impl TypedValueParser<Value = Client> {
    PossibleValuesParser::new(Client::ALL.map(Client::name)).try_map(|name| name.parse::<Client>())
}
