//! The command line as it is typed. Types only; what a command does is in the module `command`.

pub mod agents;
pub mod init;
pub mod plugin;
pub mod servers;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use callgate_core::digest::Digest;
use callgate_core::identity::{AgentName, BadName, ServerName, SessionId};
use callgate_core::settle::{Filing, Word};

/// A call gate for AI agents: decides every tools/call before it reaches an MCP server, and writes the decision to a
/// hash-chained journal before acting on it.
#[derive(Parser, Debug)]
#[command(name = "callgate", version = crate::BUILD, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Stand in front of one stdio MCP server: put this where the bare command was in a client's configuration.
    Run(Run),
    /// Put Callgate in front of the servers in the configuration files of MCP clients. Shows what it would do; --write does it.
    Init(init::Init),
    /// Rules and budgets: what is allowed, denied or asked, and how many calls go through.
    #[command(subcommand)]
    Policy(Policy),
    /// Let an agent use a server's tools, within what arguments may be. An agent that has a grant gets nothing but what is
    /// granted.
    Grant(Grant),
    /// Take grants back.
    Revoke(Revoke),
    /// Show the grants.
    Grants(Grants),
    /// Plugins of your own: install, list, build and try them.
    #[command(subcommand)]
    Plugin(plugin::Plugin),
    /// Servers that are registered with their command, so that they can have credentials.
    #[command(subcommand)]
    Server(servers::Server),
    /// Secrets of registered servers, kept out of configurations and given to the one command they are for.
    #[command(subcommand)]
    Credential(servers::CredentialCommand),
    /// Agents that are enrolled with their program, so that their sessions are known by what the kernel shows of it.
    #[command(subcommand)]
    Agent(agents::Agent),
    /// Show how the daemon is, and who is connected. Exits 1 when something is wrong, 3 when no daemon runs.
    Status(Json),
    /// Check everything that has to be right, a line a check: OK, WARN or FAIL with its remedy. Starts and changes nothing. Exits 1
    /// when a check fails.
    Doctor(Json),
    /// Show the journal.
    Log(Log),
    /// Check the journal's chain. Exits 0 when it holds, 1 when it is broken, 3 when it cannot be checked.
    Verify(Verify),
    /// The one process a user that decides and journals. It starts by itself when it is needed.
    #[command(subcommand)]
    Daemon(Daemon),
    /// Show the main job in a temporary home: an allowed call, a denied one, a rule changed live, the journal verified.
    Demo,
    /// Print what a shell needs to complete this command line.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command, into a folder that is in the manual's path or will be.
    Man {
        /// The folder.
        folder: PathBuf,
    },
    /// Show the version and the build.
    Version(Json),
    /// The small MCP server that `demo` stands in front of.
    #[command(hide = true)]
    DemoServer,
}

/// `--json`
#[derive(Args, Debug, Clone, Copy, Default)]
pub struct Json {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `run`
#[derive(Args, Debug)]
pub struct Run {
    /// The name of the server, as rules name it.
    #[arg(long, value_name = "NAME")]
    pub server: ServerName,
    /// Which agent the client is, where its program is several. One that its program is not makes it nobody; the claim is recorded
    /// with the session.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<AgentName>,
    /// The server's command and its arguments. Needed unless the server is registered; of a registered one, the registered command
    /// is started whatever stands here.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Which agent and server a rule is for.
#[derive(Args, Debug, Clone)]
pub struct Scope {
    /// Only this agent. Until one of this name is enrolled, no session meets it.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<AgentName>,
    /// Only this server.
    #[arg(long, value_name = "NAME")]
    pub server: Option<ServerName>,
}

/// A tool and a scope.
#[derive(Args, Debug)]
pub struct ToolScope {
    /// The tool's exact name, or a glob: `*` is any text, `?` one character.
    pub tool: String,
    /// For whom.
    #[command(flatten)]
    pub scope: Scope,
}

/// `policy`
#[derive(Subcommand, Debug)]
pub enum Policy {
    /// Let a tool's calls through.
    Allow(ToolScope),
    /// Refuse a tool's calls.
    Deny(ToolScope),
    /// Ask a person; until calls can be held, this refuses and says so.
    Ask(ToolScope),
    /// What counts for every tool that no other rule names.
    Default {
        /// deny, ask or allow
        effect: Effect,
        /// For whom.
        #[command(flatten)]
        scope: Scope,
    },
    /// Let only so many calls through.
    Budget(Budget),
    /// Show what is spent of the budgets, and by whom.
    Usage(Json),
    /// Remove a rule.
    Remove {
        /// The tool as the rule names it.
        #[arg(required_unless_present = "default", conflicts_with = "default")]
        tool: Option<String>,
        /// Remove the default.
        #[arg(long)]
        default: bool,
        /// The rule's own scope.
        #[command(flatten)]
        scope: Scope,
    },
    /// Show the rules and budgets.
    List(Json),
    /// Say what would be decided, and why, and what would be charged. Exits 1 when the call would be refused. Nothing is spent.
    Explain {
        /// The tool.
        tool: String,
        /// Who asks which server.
        #[command(flatten)]
        scope: Scope,
        /// The arguments as a JSON object.
        #[arg(long, value_name = "JSON", default_value = "{}")]
        args: String,
        /// The session that would make the call, as the log names it. Without it, a new session, which has spent nothing.
        #[arg(long, value_name = "ID", value_parser = session)]
        session: Option<SessionId>,
        /// How to print it.
        #[command(flatten)]
        json: Json,
    },
}

/// `policy budget`
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Budget {
    /// Something else to do with budgets.
    #[command(subcommand)]
    pub change: Option<BudgetChange>,
    /// How many calls may go through; those that are refused do not count.
    #[arg(required = true, allow_negative_numbers = true, value_name = "LIMIT")]
    pub limit: Option<String>,
    /// Which calls.
    #[command(flatten)]
    pub counted: Counted,
}

/// What else can be done with a budget.
#[derive(Subcommand, Debug)]
pub enum BudgetChange {
    /// Remove a budget. What was spent of it stays spent: a budget for the same calls goes on from there.
    Remove(Counted),
}

/// Which calls are counted together.
#[derive(Args, Debug)]
pub struct Counted {
    /// The calls of this tool, an exact name, or of all tools that match a glob: `*` is any text, `?` one character.
    #[arg(long, required_unless_present = "all_tools", conflicts_with = "all_tools")]
    pub tool: Option<String>,
    /// The calls of all tools.
    #[arg(long)]
    pub all_tools: bool,
    /// For whom.
    #[command(flatten)]
    pub scope: Scope,
    /// Counts the calls of several sessions together, for good, instead of each session's anew.
    #[arg(long, value_name = "WHOM")]
    pub shared_by: Option<SharedBy>,
}

/// Whose calls are counted together, as typed.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum SharedBy {
    /// Those of an agent's sessions; all sessions whose agent is not established count as one's.
    Agent,
    /// Those of all sessions.
    Everyone,
}

/// `grant`
#[derive(Args, Debug)]
pub struct Grant {
    /// The agent that may call.
    pub agent: AgentName,
    /// The server whose tools it may call.
    pub server: ServerName,
    /// The tool's exact name, or a glob: `*` is any text, `?` one character.
    #[arg(long, default_value = "*")]
    pub tool: String,
    /// What an argument has to match where a call has it: an exact value, a glob (`*` stays within a path segment, `**` crosses
    /// them), or `re:` and a regular expression. A name with dots also reaches into objects.
    #[arg(long, value_name = "NAME=PATTERN", num_args = 1..)]
    pub args: Vec<ArgumentPattern>,
}

/// An argument's name and its pattern.
#[derive(Debug, Clone)]
pub struct ArgumentPattern {
    /// The name.
    pub name: String,
    /// The pattern.
    pub pattern: String,
}

impl std::str::FromStr for ArgumentPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, pattern)) if !name.is_empty() => {
                Ok(Self { name: name.to_owned(), pattern: pattern.to_owned() })
            }
            Some(_) => Err("there is no name in front of the `=`; write NAME=PATTERN".to_owned()),
            None => Err("there is no `=`; write NAME=PATTERN".to_owned()),
        }
    }
}

/// `revoke`
#[derive(Args, Debug)]
pub struct Revoke {
    /// The agent.
    pub agent: AgentName,
    /// The server.
    pub server: ServerName,
    /// Only the grants for this tool, as they name it. Without it, all of the agent's grants on the server.
    #[arg(long)]
    pub tool: Option<String>,
}

/// `grants`
#[derive(Args, Debug)]
pub struct Grants {
    /// Only this agent's.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<AgentName>,
    /// How to print it.
    #[command(flatten)]
    pub json: Json,
}

fn session(text: &str) -> Result<SessionId, BadName> {
    SessionId::try_from(text.to_owned())
}

/// An effect as typed.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Effect {
    /// Refuse.
    Deny,
    /// Ask a person.
    Ask,
    /// Let through.
    Allow,
}

impl From<Effect> for Word {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Deny => Self::Deny,
            Effect::Ask => Self::Ask,
            Effect::Allow => Self::Allow,
        }
    }
}

/// `log`
#[derive(Args, Debug)]
pub struct Log {
    /// How many entries, the newest ones; 0 is all. [default: 50, or with --after all of them]
    #[arg(short = 'n', long = "number", value_name = "COUNT")]
    pub number: Option<usize>,
    /// Go on showing entries as they are written.
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Only entries after this one, from the oldest.
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// Only this server's calls.
    #[arg(long, value_name = "NAME")]
    pub server: Option<ServerName>,
    /// Only this tool's calls.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only calls that were decided so.
    #[arg(long, value_name = "DECISION")]
    pub decision: Option<Decision>,
    /// One JSON object a line.
    #[command(flatten)]
    pub json: Json,
}

impl Log {
    /// How many entries are wanted.
    pub fn count(&self) -> usize {
        match self.number {
            Some(0) => usize::MAX,
            Some(number) => number,
            None => 50,
        }
    }
}

/// A decision as typed.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Decision {
    /// Forwarded.
    Allowed,
    /// Refused by policy.
    Denied,
    /// Refused because something failed.
    Error,
}

impl From<Decision> for Filing {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allowed => Self::Allowed,
            Decision::Denied => Self::Denied,
            Decision::Error => Self::Error,
        }
    }
}

/// `verify`
#[derive(Args, Debug)]
pub struct Verify {
    /// A head that an earlier `verify` printed; it has to be in the chain.
    #[arg(long, value_name = "HASH")]
    pub expect_head: Option<Digest>,
    /// Show every counter as it comes out when the charges of all entries are counted anew. They are compared with the counters
    /// that are written down either way.
    #[arg(long)]
    pub counters: bool,
    /// How to print it.
    #[command(flatten)]
    pub json: Json,
}

/// `daemon`
#[derive(Subcommand, Debug)]
pub enum Daemon {
    /// Start it, unless it runs.
    Start,
    /// Stop it in good order.
    Stop,
    /// Stop it and start this build's.
    Restart,
    /// Say whether it runs, and how it is. Exits 3 when it does not run.
    Status(Json),
    /// Be the daemon, in the foreground.
    #[command(hide = true)]
    Serve {
        /// Leave the session of whoever starts it, and write to the daemon's log instead of stderr.
        #[arg(long)]
        detached: bool,
    },
}
