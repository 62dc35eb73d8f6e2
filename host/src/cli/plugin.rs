//! `callgate plugin` as it is typed.

use std::path::PathBuf;

use callgate_core::identity::PluginName;
use clap::{Args, Subcommand};

use super::Json;

/// `plugin`
#[derive(Subcommand, Debug)]
pub enum Plugin {
    /// Put a plugin into the chain: shows what it is and asks for, then keeps the file by its digest, writes it into
    /// callgate.yaml and journals it. In force from the next call on.
    Install(Install),
    /// Show the plugins of the chain.
    List(Json),
    /// Show one plugin: what it is, what it asks for, how it is set, and how it is.
    Show {
        /// The plugin's name.
        name: PluginName,
        /// How to print it.
        #[command(flatten)]
        json: Json,
    },
    /// Take a plugin out of the chain. In force from the next call on.
    Remove {
        /// The plugin's name.
        name: PluginName,
    },
    /// Give a plugin that failed again and again another chance: closes its breakers.
    Reset {
        /// The plugin's name.
        name: PluginName,
    },
    /// Build a policy crate in Rust into a component. Needs cargo and the target wasm32-unknown-unknown, nothing else.
    Build(Build),
    /// Ask a plugin about calls without a daemon or a journal: a table of cases, or one call a line. Exits 1 when a case
    /// comes out otherwise.
    Eval(Eval),
}

/// `plugin install`
#[derive(Args, Debug)]
pub struct Install {
    /// The component.
    pub file: PathBuf,
    /// What to call it. [default: the id in its manifest, else the file's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<PluginName>,
    /// Its settings, a JSON object. A plugin that is there keeps its own without this.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Let its `allow` count. Without this it can only refuse and ask.
    #[arg(long)]
    pub may_grant: bool,
    /// Ask it only about calls of these agents: globs, separated by commas.
    #[arg(long, value_name = "GLOBS", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// Ask it only about calls to these servers: globs, separated by commas.
    #[arg(long, value_name = "GLOBS", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// Do not ask.
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// `plugin build`
#[derive(Args, Debug)]
pub struct Build {
    /// The crate's folder.
    #[arg(default_value = ".", value_name = "DIR")]
    pub folder: PathBuf,
    /// Where to write the component. [default: the package's name with .wasm, in DIR]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `plugin eval`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["cases", "calls"]))]
pub struct Eval {
    /// A plugin of the chain, shipped or installed, or the file of a component.
    #[arg(value_name = "NAME|FILE")]
    pub plugin: String,
    /// A table of cases: a JSON list of settings, each with `calls` and what is expected of them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["settings", "json"])]
    pub cases: Option<PathBuf>,
    /// Calls, a JSON object a line: `server`, `tool`, and, where it has them, `agent` and `arguments`.
    #[arg(long, value_name = "FILE")]
    pub calls: Option<PathBuf>,
    /// The settings to ask it with, a JSON object. [default: an installed plugin's own, else none]
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// How to print it.
    #[command(flatten)]
    pub json: Json,
}
