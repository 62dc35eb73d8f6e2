//! `callgate completions` and `callgate man`: what a shell and `man` know of the command line.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Exit, Failure, Outcome};
use crate::output;

pub(super) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "callgate", &mut script);
    output::raw(&script)?;
    Ok(Exit::Done)
}

pub(super) fn man(folder: &Path) -> Outcome {
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| Failure::environment(format!("cannot write manual pages to {}: {error}", folder.display())))?;
    output::line(&format!("written: {}", folder.join("callgate.1").display()))?;
    Ok(Exit::Done)
}
