//! `callgate server`

use callgate_core::escape::visible;
use callgate_core::identity::ServerName;
use callgate_core::server::{Registry, ServerEntry, StoreKind};
use callgate_ipc::servers::{AddServer as Adding, Secrets, ServersCommand, ServersReply};
use serde::Serialize;

use super::{log, secret_input};
use crate::cli::Json;
use crate::cli::servers::{AddServer, Server};
use crate::client::{Client, unexpected};
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn server(server: Server, home: &Home) -> Outcome {
    match server {
        Server::Add(add) => self::add(add, home),
        Server::List(json) => list(home, json),
        Server::Show { name, json } => show(home, &name, json),
        Server::Remove { name } => done(home, &ServersCommand::Remove(name.clone()), &format!("removed: {name}")),
    }
}

fn add(AddServer { name, env, command }: AddServer, home: &Home) -> Outcome {
    let names: Vec<String> = env.iter().map(|variable| format!("{variable} of {name}")).collect();
    let values = Secrets::of(&secret_input::secrets(&names)?);
    let told = format!("registered: {name}");
    done(home, &ServersCommand::Add(Adding { name, command, env, values }), &told)
}

/// Asks for a change, and tells what was done.
pub(super) fn done(home: &Home, command: &ServersCommand, told: &str) -> Outcome {
    let how = changed(home, command)?;
    output::line(&visible(&format!("{told}{how}")))?;
    Ok(Exit::Done)
}

/// Asks for a change, and says where its secrets are and which entries tell of it.
pub(super) fn changed(home: &Home, command: &ServersCommand) -> Result<String, Failure> {
    let reply = Client::connect_about_servers(home)?.ask_about_servers(command)?;
    let ServersReply::Done { entries, store, warnings } = reply else { return Err(unexpected()) };
    for warning in warnings {
        output::tell(&format!("warning: {}", visible(&warning)));
    }
    let store = store.map(|store| format!(", its secrets in {store}")).unwrap_or_default();
    let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
    let entries = match entries.len() {
        0 => String::new(),
        1 => format!(" (entry {})", entries[0]),
        _ => format!(" (entries {})", entries.join(", ")),
    };
    Ok(format!("{store}{entries}"))
}

/// The registry. Before the first daemon there is no database, and so nothing is registered.
pub(super) fn registry(home: &Home) -> Result<Registry, Failure> {
    if !home.database().exists() {
        return Ok(Registry::default());
    }
    log::open(home)?.registry().map_err(|error| log::unreadable(&error))
}

#[derive(Serialize)]
struct Listed<'a> {
    servers: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    name: &'a str,
    command: &'a [String],
    env: Vec<Variable<'a>>,
}

#[derive(Serialize)]
struct Variable<'a> {
    variable: &'a str,
    /// Where its secret is kept; `null` where none is set.
    store: Option<StoreKind>,
}

fn shown<'a>(server: &'a ServerEntry, registry: &'a Registry) -> Shown<'a> {
    let variable = |variable| Variable {
        variable: callgate_core::server::VariableName::as_str(variable),
        store: registry.credential(&server.id, variable).map(|credential| credential.store),
    };
    Shown {
        id: server.id.as_str(),
        name: server.name.as_str(),
        command: &server.command,
        env: server.env.iter().map(variable).collect(),
    }
}

fn list(home: &Home, json: Json) -> Outcome {
    let registry = registry(home)?;
    if json.json {
        output::json(&Listed { servers: registry.servers.iter().map(|server| shown(server, &registry)).collect() })?;
    } else if registry.servers.is_empty() {
        output::line("no servers are registered")?;
    } else {
        let width = registry.servers.iter().map(|server| server.name.as_str().len()).max().unwrap_or(0);
        for server in &registry.servers {
            let missing =
                server.env.iter().filter(|variable| registry.credential(&server.id, variable).is_none()).count();
            let missing = if missing == 0 { String::new() } else { format!(" ({missing} credentials not set)") };
            let line = format!("{:<width$}  {}{missing}", server.name.as_str(), server.command.join(" "));
            output::line(&visible(&line))?;
        }
    }
    Ok(Exit::Done)
}

fn show(home: &Home, name: &ServerName, json: Json) -> Outcome {
    let registry = registry(home)?;
    let Some(server) = registry.named(name) else {
        return Err(Failure::usage(format!("no server named {name} is registered")).hint("callgate server list"));
    };
    let shown = shown(server, &registry);
    if json.json {
        output::json(&shown)?;
        return Ok(Exit::Done);
    }
    output::line(&visible(&format!("{} ({})", shown.name, shown.id)))?;
    output::line(&visible(&format!("  command: {}", shown.command.join(" "))))?;
    for Variable { variable, store } in &shown.env {
        let store = store.map_or_else(|| "not set".to_owned(), |store| format!("in {store}"));
        output::line(&format!("  {variable}: {store}"))?;
    }
    Ok(Exit::Done)
}
