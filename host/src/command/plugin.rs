//! `callgate plugin`

mod build;
mod eval;
mod install;
pub(super) mod list;
mod load;
mod remove;

use crate::cli::plugin::Plugin;
use crate::environment::Environment;
use crate::failure::Outcome;
use crate::home::Home;

pub(super) fn plugin(plugin: Plugin, environment: &Environment) -> Outcome {
    let home = || Home::find(environment);
    match plugin {
        Plugin::Install(install) => install::install(&install, &home()?),
        Plugin::List(json) => list::list(&home()?, json),
        Plugin::Show { name, json } => list::show(&home()?, &name, json),
        Plugin::Remove { name } => remove::remove(&home()?, &name),
        Plugin::Reset { name } => remove::reset(&home()?, &name),
        Plugin::Build(build) => build::build(&build, environment),
        Plugin::Eval(eval) => eval::eval(&eval, &home()?),
    }
}
