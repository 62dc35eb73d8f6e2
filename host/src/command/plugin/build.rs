//! `callgate plugin build`

use std::ffi::OsString;

use callgate_component::{BuildError, Built, Tools};

use super::load;
use crate::cli::plugin::Build;
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;
use crate::plugins::asks::Asks;
use crate::plugins::store;

pub(super) fn build(build: &Build, environment: &Environment) -> Outcome {
    let or = |tool: &Option<OsString>, name: &str| tool.clone().unwrap_or_else(|| name.into());
    let cargo_home = environment.cargo_home.clone();
    let tools = Tools {
        cargo: or(&environment.cargo, "cargo"),
        rustc: or(&environment.rustc, "rustc"),
        cargo_home: cargo_home.or_else(|| environment.home.as_ref().map(|home| home.join(".cargo"))),
    };
    let Built { package, component } =
        callgate_component::build(&build.folder, &tools).map_err(|error| not_built(&error))?;
    // What the daemon would refuse is refused here, before it is written anywhere.
    let engine = load::engine(&Home::find(environment)?)?;
    let asks = Asks::of(&load::plugin(&engine, &package, &component)?);

    let out = build.out.clone().unwrap_or_else(|| build.folder.join(format!("{package}.wasm")));
    store::write(&out, &component)
        .map_err(|error| Failure::environment(format!("cannot write {}: {error}", out.display())))?;
    output::line(&format!("built: {} ({} bytes)", out.display(), component.len()))?;
    for (word, text) in asks.lines() {
        output::line(&format!("  {word:<8} {text}"))?;
    }
    Ok(Exit::Done)
}

fn not_built(error: &BuildError) -> Failure {
    let message = error.to_string();
    let failure = match error {
        BuildError::NoTool { .. } | BuildError::NoTarget { .. } | BuildError::Unreadable { .. } => {
            Failure::environment(message)
        }
        BuildError::Failed => Failure { exit: Exit::No, message, hint: None },
        BuildError::NoCrate(_) | BuildError::NoModule | BuildError::Several(_) | BuildError::NoComponent(_) => {
            Failure::usage(message)
        }
    };
    Failure { hint: error.hint(), ..failure }
}
