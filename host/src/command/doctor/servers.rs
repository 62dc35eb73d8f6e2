//! The registered servers and the stores of their credentials.

use callgate_core::server::{Registry, ServerEntry};
use callgate_ipc::servers::{ServersCommand, ServersReply, StoreState, StoreStates};

use super::Check;
use super::running::Running;
use crate::client::{Client, unexpected};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::home::Home;
use crate::stores;

/// Whether credentials can be kept, and those that there are be had.
pub(super) fn stores(
    home: &Home,
    environment: &Environment,
    running: &Running,
    registry: Option<&Registry>,
) -> Vec<Check> {
    let check = "credentials";
    let StoreStates { in_use, stores } = match states(home, environment, running) {
        Ok(states) => states,
        Err(failure) => return vec![Check::failed(check, failure)],
    };
    let kept = |store| {
        let credentials = registry.map_or(&[][..], |registry| &registry.credentials);
        credentials.iter().filter(|credential| credential.store == store).count()
    };
    let wrong = stores.into_iter().filter_map(|StoreState { store, problem, hint, .. }| {
        let hint = hint.unwrap_or_default();
        match (problem?, kept(store)) {
            (problem, 0) if store == in_use => Some(Check::warn(check, format!("none can be kept: {problem}"), hint)),
            (_, 0) => None,
            (problem, count) => Some(Check::fail(check, format!("{count} cannot be had: {problem}"), hint)),
        }
    });
    Check::some_or_ok(wrong.collect(), check, format!("{} in {in_use}", kept(in_use)))
}

/// By the daemon, which has the sealed file open; where none runs, by a look of our own.
fn states(home: &Home, environment: &Environment, running: &Running) -> Result<StoreStates, Failure> {
    if !matches!(running, Running::Yes { .. }) {
        return Ok(stores::states(&stores::of(home, environment)?));
    }
    let Some(mut client) = Client::reach_about_servers(home)?.ready()? else { return Err(unexpected()) };
    match client.ask_about_servers(&ServersCommand::StoreStatus)? {
        ServersReply::Stores(states) => Ok(states),
        _ => Err(unexpected()),
    }
}

/// Whether each registered server could be started.
pub(super) fn servers(environment: &Environment, registry: Result<Registry, Failure>) -> Vec<Check> {
    let check = "servers";
    let registry = match registry {
        Ok(registry) => registry,
        Err(failure) => return vec![Check::failed(check, failure)],
    };
    let wrong = registry.servers.iter().flat_map(|server| {
        let credentials = server.env.iter().filter(|variable| registry.credential(&server.id, variable).is_none());
        let credentials = credentials.map(|variable| {
            let name = &server.name;
            let hint = format!("callgate credential set {name} --env {variable}");
            Check::fail(check, format!("{name} does not start: its credential {variable} is not set"), hint)
        });
        credentials.chain(program(environment, server)).collect::<Vec<_>>()
    });
    Check::some_or_ok(wrong.collect(), check, format!("{} registered", registry.servers.len()))
}

/// Clients give their servers a `PATH` of their own, so what is not in this one may still be found.
fn program(environment: &Environment, ServerEntry { name, command, .. }: &ServerEntry) -> Option<Check> {
    let program = command.first()?;
    which::which_in(program, environment.path.as_ref(), "/").err()?;
    Some(Check::warn(
        "servers",
        format!("the program of {name} is not found: {program}"),
        "install it, or register the server anew with its whole path",
    ))
}
