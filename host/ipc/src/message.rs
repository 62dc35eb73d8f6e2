//! The values. A connection serves one purpose, committed to by its [`Hello`].

use std::fmt;

use serde::{Deserialize, Serialize};

use callgate_core::budget::BudgetEntry;
use callgate_core::call::Listed;
use callgate_core::charge::Owner;
use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::entry::{Outcome, Side};
use callgate_core::evidence::WhyUnknown;
use callgate_core::grant::GrantsOf;
use callgate_core::identity::{Agent, AgentName, PluginName, ServerName, SessionId};
use callgate_core::permit::Permit;
use callgate_core::plugin::PluginEntry;
use callgate_core::policy::{PolicyChange, PolicyItem};
use callgate_core::refusal::Reason;
use callgate_core::server::ServerId;
use callgate_core::settle::Foreseen;

use crate::agents::{AgentChanged, Enrol, Refresh};
use crate::frame::{Malformed, Message};

/// The first message of every connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The caller's build.
    pub build: String,
    /// What the connection is for.
    pub purpose: Purpose,
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// One stdio session.
    Relay,
    /// Commands of a person.
    Command,
    /// Registered servers and their credentials.
    Servers,
}

/// The daemon's answers to a [`Hello`]: any number of `Starting`, then one of the others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Greeting {
    /// The daemon compiles its plugins; wait.
    Starting,
    /// The connection is served.
    Welcome {
        /// A number drawn for this connection; permits are bound to it.
        connection: u64,
    },
    /// The ends are of different builds.
    OtherBuild {
        /// The daemon's build.
        build: String,
    },
    /// There is no room for another connection, or the daemon cannot serve.
    Unavailable {
        /// Why.
        message: String,
    },
}

/// What a relay says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromRelay {
    /// Begins or resumes the session.
    Open(Open),
    /// Asks for a decision.
    Decide(Decide),
    /// Tells what a forwarded call came to.
    Outcome(CallOutcome),
    /// Tells of an odd frame.
    Anomaly(Anomaly),
    /// Ends the session.
    Close(Close),
}

/// Begins or resumes a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Open {
    /// The session.
    pub session: SessionId,
    /// The server it is for.
    pub server: ServerName,
    /// The server's command.
    pub command: Vec<String>,
    /// What the relay was told of the agent.
    pub claim: Option<AgentName>,
    /// Whether the session was open with an earlier daemon or connection.
    pub resumed: bool,
    /// The id of the registered server whose command it is; `None` for a command that the client gave.
    pub registered: Option<ServerId>,
}

/// Asks for a decision on one `tools/call`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Decide {
    /// The call's number on this connection, from 1, without a gap.
    pub sequence: u64,
    /// The frame's digest.
    pub frame: Digest,
    /// The id's raw JSON text.
    pub request_id: String,
    /// The tool.
    pub tool: String,
    /// The client's own name.
    pub client: String,
    /// The MCP revision the call speaks, when known.
    pub protocol_version: Option<String>,
    /// What the server said of the tool.
    pub listed: Option<Listed>,
    /// `params.arguments` as it stands in the frame, `{}` when absent. Travels raw, beside the head.
    #[serde(skip)]
    pub arguments: String,
}

/// Tells what a forwarded call came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallOutcome {
    /// The entry that allowed it.
    pub decision: u64,
    /// What came back.
    pub outcome: Outcome,
    /// How long the server took to answer, milliseconds; `None` when it did not.
    pub took_ms: Option<u64>,
}

/// Tells of an odd frame.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Anomaly {
    /// Who sent it.
    pub from: Side,
    /// What is odd.
    pub code: Code,
    /// The same as a sentence.
    pub detail: String,
    /// The frame's digest.
    pub frame: Option<Digest>,
    /// Its length.
    pub bytes: u64,
}

/// Ends a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Close {
    /// How it ended, a word.
    pub how: String,
    /// Events that could not be told.
    pub lost_events: u64,
}

/// What the daemon says to a relay. Decisions come in any order.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRelay {
    /// The session is open.
    Opened,
    /// The session cannot be opened; every call is refused for this reason.
    NotOpened(Reason),
    /// The frame may be forwarded.
    Permitted(Permit),
    /// The call is refused.
    Refused(Refused),
}

/// A refused call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Which call.
    pub sequence: u64,
    /// Why.
    pub reason: Reason,
    /// The journal entry that says so.
    pub entry: Option<u64>,
}

/// What a command asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Changes the policy: all of it or nothing.
    Change(Vec<PolicyChange>),
    /// Removes grants, all of these or none.
    Revoke(GrantsOf),
    /// What would be decided.
    Explain(Explain),
    /// What is spent of the budgets.
    Usage,
    /// Enrols an agent.
    Enrol(Enrol),
    /// Takes an agent's program as it is now.
    RefreshAgent(Refresh),
    /// Enrols an agent no more.
    RemoveAgent(AgentName),
    /// How the plugins of the chain are.
    Plugins,
    /// Takes another list of plugins into force.
    ChangePlugins(ChangePlugins),
    /// Gives a plugin that failed again and again another chance.
    ResetPlugin(PluginName),
    /// How the daemon is.
    Status,
    /// Ends the daemon in good order.
    Stop,
}

/// A configuration with another list of plugins, to take the place of the one there is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangePlugins {
    /// The digest of the file that it was made of; another one by now is left as it is.
    pub before: Digest,
    /// The whole file as it is to be.
    pub config: String,
    /// A plugin that was accepted anew, although nothing may differ.
    pub renewed: Option<PluginName>,
}

/// How one plugin of the chain is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PluginState {
    /// Its name in the chain.
    pub name: String,
    /// Its component.
    pub digest: Digest,
    /// How the operator set it; a shipped one is not set.
    pub entry: Option<PluginEntry>,
    /// What is wrong with it: that it is not ready, or for whom it is not asked any more.
    pub problems: Vec<Problem>,
}

impl PluginState {
    /// Whether it is set just so.
    pub fn is_set_as(&self, entry: Option<&PluginEntry>) -> bool {
        self.entry.as_ref() == entry
    }
}

/// A call that nobody makes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Explain {
    /// The tool.
    pub tool: String,
    /// The agent.
    pub agent: Option<AgentName>,
    /// The server; without one, a server that no rule names.
    pub server: Option<ServerName>,
    /// The arguments as JSON text.
    pub arguments: String,
    /// The session whose call it would be; without one, a new session.
    pub session: Option<SessionId>,
}

/// What a command is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandReply {
    /// The policy was changed.
    Changed(Changed),
    /// The plugins of the chain, in order.
    Plugins(Vec<PluginState>),
    /// The list is in force.
    PluginsChanged {
        /// The journal's entries; none when nothing differed.
        entries: Vec<u64>,
        /// What a person should look at.
        warnings: Vec<String>,
    },
    /// The plugin is asked again for everybody.
    PluginReset {
        /// The journal entry; none when there was nothing to reset.
        entry: Option<u64>,
        /// For how many agents it was not asked any more.
        breakers: u64,
    },
    /// The enrolments were changed.
    AgentChanged(Box<AgentChanged>),
    /// The explanation.
    Explained(Box<Explained>),
    /// What is spent.
    Usage(Usage),
    /// The status.
    Status(Status),
    /// The daemon stops after this.
    Stopping,
    /// It was not done.
    Failed {
        /// What failed, as a sentence.
        message: String,
        /// The next step.
        hint: Option<String>,
        /// Whose fault it is.
        fault: Fault,
    },
}

/// A change of the policy that was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// What was added or removed, as much of it as fits into a message.
    pub items: Vec<ChangedItem>,
    /// How much more that was.
    pub more: u64,
    /// What a person should look at, although it is in force.
    pub warnings: Vec<String>,
}

/// An item that was added or removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangedItem {
    /// The journal entry that says so.
    pub entry: u64,
    /// The item.
    pub item: PolicyItem,
}

/// What is spent of the budgets in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Every budget, in the order in which they were added.
    pub budgets: Vec<BudgetUsage>,
}

/// What is spent of one budget.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// The budget.
    pub budget: BudgetEntry,
    /// By whom, who spent most first; as many as fit into a message.
    pub spent: Vec<Spent>,
    /// How many more there are.
    pub more: u64,
}

/// What one owner of a counter has spent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Spent {
    /// Who.
    pub by: Owner,
    /// How much.
    pub spent: u64,
    /// How much is left.
    pub left: u64,
}

/// Whose fault a failed command is; decides the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// What was asked cannot be done.
    Request,
    /// The environment: disk, database.
    Environment,
}

/// An explanation: the daemon's own decision on a call that nobody makes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Explained {
    /// What would be decided.
    pub verdict: callgate_core::settle::Word,
    /// Why it would be refused; `None` when it would be forwarded.
    pub refusal: Option<Reason>,
    /// The plugin that spoke.
    pub plugin: Option<String>,
    /// Its rule.
    pub rule: Option<callgate_core::verdict::Rule>,
    /// The notes of the plugins.
    pub notes: Vec<String>,
    /// What each plugin of the chain said, in order.
    pub opinions: Vec<PluginOpinion>,
    /// What the call would be charged, in order.
    pub charges: Vec<Foreseen>,
    /// The chain's generation.
    pub generation: u64,
    /// Whose call it would be; without an id where no agent of that name is enrolled.
    pub agent: Option<Agent>,
}

/// What one plugin said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PluginOpinion {
    /// The instance.
    pub plugin: String,
    /// deny, ask, allow, abstain, or the code of a failure.
    pub verdict: String,
    /// Its rule as text.
    pub rule: Option<String>,
}

/// How the daemon is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its build.
    pub build: String,
    /// Its process id.
    pub pid: u32,
    /// Milliseconds since it began to serve.
    pub uptime_ms: u64,
    /// Sessions open now.
    pub sessions: u64,
    /// As many of them as fit into a message, those first that were opened first.
    pub open_sessions: Vec<SessionState>,
    /// The chain's generation.
    pub generation: u64,
    /// The number of the newest entry.
    pub entries: u64,
    /// The chain's head, hex.
    pub head: String,
    /// What is wrong, if anything: plugins that are not ready, a journal that refuses.
    pub problems: Vec<Problem>,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// What, as a sentence.
    pub problem: String,
    /// The next step.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (hint: {})", self.problem, self.hint)
    }
}

/// A session that is open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionState {
    /// Which.
    pub session: SessionId,
    /// The server that it is with.
    pub server: ServerName,
    /// Whose it is.
    pub agent: Option<Agent>,
    /// Why that is not known.
    pub unknown: Option<WhyUnknown>,
    /// Its relay's process id.
    pub pid: u32,
    /// Milliseconds since it was opened, or, if the daemon started anew meanwhile, resumed.
    pub age_ms: u64,
}

impl Message for Hello {}
impl Message for Greeting {}
impl Message for ToRelay {}
impl Message for Command {}
impl Message for CommandReply {}

impl Message for FromRelay {
    fn tail(&self) -> &[u8] {
        match self {
            Self::Decide(decide) => decide.arguments.as_bytes(),
            Self::Open(_) | Self::Outcome(_) | Self::Anomaly(_) | Self::Close(_) => &[],
        }
    }

    fn attach(self, tail: &[u8]) -> Result<Self, Malformed> {
        match self {
            Self::Decide(mut decide) => {
                let arguments = simdutf8::basic::from_utf8(tail).map_err(|_| Malformed::Tail("arguments are UTF-8"))?;
                arguments.clone_into(&mut decide.arguments);
                Ok(Self::Decide(decide))
            }
            other @ (Self::Open(_) | Self::Outcome(_) | Self::Anomaly(_) | Self::Close(_)) if tail.is_empty() => {
                Ok(other)
            }
            Self::Open(_) | Self::Outcome(_) | Self::Anomaly(_) | Self::Close(_) => Err(Malformed::Tail("it has none")),
        }
    }
}
