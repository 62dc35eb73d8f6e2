//! `callgate credential`

use callgate_core::escape::visible;
use callgate_core::server::StoreKind;
use callgate_ipc::servers::{Secrets, ServersCommand, ServersReply, SetCredential, StoreStates};
use serde::Serialize;

use super::secret_input;
use super::servers::{done, registry};
use crate::cli::Json;
use crate::cli::servers::{CredentialCommand, InitStore, OneCredential, Store};
use crate::client::{Client, unexpected};
use crate::failure::{Exit, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn credential(command: CredentialCommand, home: &Home) -> Outcome {
    match command {
        CredentialCommand::Set(one) => set(one, home),
        CredentialCommand::List(json) => list(home, json),
        CredentialCommand::Remove(OneCredential { server, variable }) => {
            let told = format!("removed: {variable} of {server}");
            done(home, &ServersCommand::RemoveCredential { server, variable }, &told)
        }
        CredentialCommand::Store(Store::Status(json)) => status(home, json),
        CredentialCommand::Store(Store::Init(InitStore { given_key, .. })) => {
            let passphrase = if given_key { Vec::new() } else { vec![secret_input::new_passphrase()?] };
            done(home, &ServersCommand::InitSealedFile(Secrets::of(&passphrase)), "made and open: the sealed file")
        }
        CredentialCommand::Store(Store::Unlock) => {
            let passphrase = secret_input::passphrase("passphrase of the sealed file")?;
            done(
                home,
                &ServersCommand::Unlock(Secrets::of(&[passphrase])),
                "open until the daemon stops: the sealed file",
            )
        }
    }
}

fn set(OneCredential { server, variable }: OneCredential, home: &Home) -> Outcome {
    let value = Secrets::of(&secret_input::secrets(&[format!("{variable} of {server}")])?);
    let told = format!("set: {variable} of {server}");
    done(home, &ServersCommand::SetCredential(SetCredential { server, variable, value }), &told)
}

#[derive(Serialize)]
struct Listed {
    credentials: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    server: String,
    variable: String,
    /// `null` where none is set.
    store: Option<StoreKind>,
}

fn list(home: &Home, json: Json) -> Outcome {
    let registry = registry(home)?;
    let rows = registry.servers.iter().flat_map(|server| {
        server.env.iter().map(|variable| Row {
            server: server.name.to_string(),
            variable: variable.to_string(),
            store: registry.credential(&server.id, variable).map(|credential| credential.store),
        })
    });
    let credentials: Vec<Row> = rows.collect();
    if json.json {
        output::json(&Listed { credentials })?;
    } else if credentials.is_empty() {
        output::line("no credentials")?;
    } else {
        for Row { server, variable, store } in credentials {
            let store = store.map_or_else(|| "not set".to_owned(), |store| format!("in {store}"));
            output::line(&format!("{variable} of {server}: {store}"))?;
        }
    }
    Ok(Exit::Done)
}

fn status(home: &Home, json: Json) -> Outcome {
    let reply = Client::connect_about_servers(home)?.ask_about_servers(&ServersCommand::StoreStatus)?;
    let ServersReply::Stores(states) = reply else { return Err(unexpected()) };
    if json.json {
        output::json(&states)?;
    } else {
        print(&states)?;
    }
    let works = states.stores.iter().any(|state| state.store == states.in_use && state.problem.is_none());
    Ok(if works { Exit::Done } else { Exit::Environment })
}

fn print(StoreStates { in_use, stores }: &StoreStates) -> Result<(), crate::failure::Failure> {
    for state in stores {
        let used = if state.store == *in_use { " (in use)" } else { "" };
        let problem = state.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
        output::line(&visible(&format!("{}{used}: {}{problem}", state.store, state.state)))?;
        if let Some(hint) = state.hint.as_ref().filter(|_| state.store == *in_use) {
            output::line(&visible(&format!("  hint: {hint}")))?;
        }
    }
    Ok(())
}
