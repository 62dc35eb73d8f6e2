//! What each command does.

mod agents;
mod budget;
mod credentials;
mod daemon;
mod demo;
mod demo_server;
mod doctor;
mod grants;
mod init;
mod log;
mod plugin;
mod policy;
mod run;
mod secret_input;
mod servers;
mod shell;
mod status;
mod verify;
mod version;

use crate::cli::{Cli, Command};
use crate::environment::Environment;
use crate::failure::{Exit, Outcome};
use crate::home::Home;
use crate::output;

/// Runs a command and tells a person of its failure.
pub fn run(cli: Cli, environment: &Environment) -> Exit {
    dispatch(cli.command, environment).unwrap_or_else(|failure| {
        if failure.exit != Exit::Done {
            output::tell(&failure.to_string());
        }
        failure.exit
    })
}

fn dispatch(command: Command, environment: &Environment) -> Outcome {
    match command {
        Command::Version(json) => version::show(json),
        Command::Demo => demo::show(),
        Command::DemoServer => demo_server::serve(),
        Command::Run(run) => run::run(run, Home::find(environment)?),
        Command::Init(init) => init::init(&init, environment),
        Command::Policy(policy) => policy::policy(policy, &Home::find(environment)?),
        Command::Grant(grant) => grants::grant(grant, &Home::find(environment)?),
        Command::Revoke(revoke) => grants::revoke(revoke, &Home::find(environment)?),
        Command::Grants(grants) => grants::list(&grants, &Home::find(environment)?),
        Command::Plugin(plugin) => plugin::plugin(plugin, environment),
        Command::Server(server) => servers::server(server, &Home::find(environment)?),
        Command::Credential(credential) => credentials::credential(credential, &Home::find(environment)?),
        Command::Agent(agent) => agents::agent(agent, &Home::find(environment)?, environment),
        Command::Status(json) => status::status(&Home::find(environment)?, json),
        Command::Doctor(json) => doctor::doctor(json, environment),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { folder } => shell::man(&folder),
        Command::Log(log) => log::show(&log, &Home::find(environment)?),
        Command::Verify(verify) => verify::verify(&verify, &Home::find(environment)?),
        Command::Daemon(daemon) => daemon::daemon(&daemon, &Home::find(environment)?, environment),
    }
}
