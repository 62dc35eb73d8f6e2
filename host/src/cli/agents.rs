//! `agent`, as it is typed.

use clap::{Args, Subcommand};

use callgate_core::identity::{AgentName, WrapperName};

use super::Json;

/// `agent`
#[derive(Subcommand, Debug)]
pub enum Agent {
    /// Enrol an agent: a name, and the program whose sessions have it from now on.
    Add(AddAgent),
    /// Show the enrolled agents, and whether their programs are still the ones that were enrolled.
    List(Json),
    /// Show one enrolled agent, and what of the policy names it.
    Show {
        /// Its name.
        name: AgentName,
        /// How to print it.
        #[command(flatten)]
        json: Json,
    },
    /// Take an agent's program as it is now, after an update. Its name, its rules and what it has spent stay.
    Refresh {
        /// Its name.
        name: AgentName,
    },
    /// Enrol an agent no more. Its open sessions are not known from their next call on; its name is free again.
    Remove {
        /// Its name.
        name: AgentName,
    },
}

/// `agent add`
#[derive(Args, Debug)]
pub struct AddAgent {
    /// What rules, grants and budgets name.
    pub name: AgentName,
    /// The agent's program: a path, or a name that is looked for in the PATH. A script that says in its first line what runs it is
    /// enrolled as that interpreter running it.
    pub program: String,
    /// What the agent starts its servers through, and only that is looked through: the file names of programs, of an interpreter
    /// that of its script. `sh` is any shell that was given a command, `npx` and `uvx` are their package managers too.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub via: Vec<WrapperName>,
    /// Of an interpreter, such as node or python, the script that it runs.
    #[arg(long, value_name = "PATH")]
    pub script: Option<String>,
}
