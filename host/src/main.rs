//! The `callgate` binary.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

use callgate::cli::Cli;
use callgate::environment::Environment;

fn main() -> ExitCode {
    callgate::run(Cli::parse(), &Environment::read()).into()
}
