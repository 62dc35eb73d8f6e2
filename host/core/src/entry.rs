//! The journal's vocabulary: the kinds of entry and the JSON bodies they carry.
//!
//! A body is written once and hashed as the bytes it is; nothing ever re-serialises one to check it. The shapes are
//! documented in docs/reference/journal-format.md, which is normative.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::call::ARGUMENT_BYTES_JUDGED_MAX;
use crate::charge::Applied;
use crate::code::Code;
use crate::digest::Digest;
use crate::evaluate::Member;
use crate::evidence::{Process, WhyUnknown};
use crate::identity::{Agent, Attribute, Server, SessionId};
use crate::json;
use crate::policy::{PolicyItem, PolicyKind};
use crate::port::Case;
use crate::settle::{Decision, Filing, Settled, Word};
use crate::verdict::{Retry, Rule};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        /// What an entry is about.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum Kind {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $name,)+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The kind as it is stored and hashed.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What it is about, for the reference page.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii_start()),+ }
            }
        }

        impl std::str::FromStr for Kind {
            type Err = UnknownKind;

            fn from_str(text: &str) -> Result<Self, UnknownKind> {
                Self::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownKind(text.to_owned()))
            }
        }
    };
}

/// A kind of entry that this build does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of entry {0:?}")]
pub struct UnknownKind(pub String);

kinds! {
    /// The daemon began to serve.
    DaemonStart = "daemon.start";
    /// The daemon stopped in good order.
    DaemonStop = "daemon.stop";
    /// The wall clock jumped.
    ClockJump = "clock.jump";
    /// A session began.
    SessionStart = "session.start";
    /// A session ended.
    SessionEnd = "session.end";
    /// A call was decided.
    CallDecision = "call.decision";
    /// A forwarded call was answered.
    CallOutcome = "call.outcome";
    /// A forwarded call was open when the daemon died, so that its outcome cannot be known.
    OutcomeUnknown = "outcome.unknown";
    /// A frame was refused, or a server's frame was odd.
    Anomaly = "anomaly";
    /// A rule was added.
    RuleAdd = "rule.add";
    /// A rule was removed.
    RuleRemove = "rule.remove";
    /// A budget was added.
    BudgetAdd = "budget.add";
    /// A budget was removed.
    BudgetRemove = "budget.remove";
    /// A grant was added.
    GrantAdd = "grant.add";
    /// A grant was removed.
    GrantRemove = "grant.remove";
    /// A plugin joined the chain.
    PluginAdd = "plugin.add";
    /// A plugin of the chain was exchanged, set otherwise, or accepted anew.
    PluginChange = "plugin.change";
    /// A plugin left the chain.
    PluginRemove = "plugin.remove";
    /// The plugins were put into another order.
    PluginOrder = "plugin.order";
    /// A plugin that failed again and again was given another chance.
    PluginReset = "plugin.reset";
    /// A server was registered.
    ServerAdd = "server.add";
    /// A server is registered no more.
    ServerRemove = "server.remove";
    /// A server's credential was set. What it is stands nowhere in the journal.
    CredentialSet = "credential.set";
    /// A server's credential was removed.
    CredentialRemove = "credential.remove";
    /// An agent was enrolled.
    AgentAdd = "agent.add";
    /// An agent is another program, or another file of the same, from here on.
    AgentRefresh = "agent.refresh";
    /// An agent is enrolled no more.
    AgentRemove = "agent.remove";
}

/// What became of an item of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyStep {
    /// It was added.
    Added,
    /// It was removed.
    Removed,
}

impl Kind {
    /// The kind of the entry that says of an item what became of it.
    pub const fn of_policy(kind: PolicyKind, step: PolicyStep) -> Self {
        match (kind, step) {
            (PolicyKind::Rule, PolicyStep::Added) => Self::RuleAdd,
            (PolicyKind::Rule, PolicyStep::Removed) => Self::RuleRemove,
            (PolicyKind::Budget, PolicyStep::Added) => Self::BudgetAdd,
            (PolicyKind::Budget, PolicyStep::Removed) => Self::BudgetRemove,
            (PolicyKind::Grant, PolicyStep::Added) => Self::GrantAdd,
            (PolicyKind::Grant, PolicyStep::Removed) => Self::GrantRemove,
        }
    }
}

/// What a journal keeps of a call's arguments beside the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// The exact bytes, up to [`ARGUMENT_BYTES_RECORDED_MAX`].
    #[default]
    Full,
    /// `key=value`, [`SUMMARY_VALUE_CHARS_MAX`] characters a value.
    Summary,
    /// Nothing but the salted digest, which stands in the entry.
    Digest,
}

/// Arguments larger than this are not kept, only their digest and size: the journal is not a payload store.
pub const ARGUMENT_BYTES_RECORDED_MAX: usize = 64 * 1024;
/// How much of a key or a value a summary keeps, characters.
pub const SUMMARY_VALUE_CHARS_MAX: usize = 80;
/// Stands in a summary where something was left out.
const CUT: &str = "…";

/// Something to write: a kind, a body, and what lies beside the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// What it is about.
    pub kind: Kind,
    /// UTF-8 JSON text, one object.
    pub body: Vec<u8>,
    /// What is kept beside the chain for a call.
    pub arguments: Option<KeptArguments>,
}

impl Draft {
    /// A draft with a body made of `value`.
    pub fn of(kind: Kind, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).expect("an entry's body is made of text, numbers and lists");
        Self { kind, body, arguments: None }
    }
}

/// What lies beside the chain for one call: prunable without breaking the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptArguments {
    /// The salt of the digest in the entry.
    pub salt: [u8; 16],
    /// What was kept, as `form` says; empty for [`Record::Digest`] and for arguments that are too large.
    pub value: Option<Vec<u8>>,
    /// How `value` is to be read.
    pub form: Record,
}

/// The body of a [`Kind::CallDecision`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DecisionBody<'a> {
    /// The session.
    pub session: SessionId,
    /// The connection the session had then.
    pub connection: u64,
    /// The call's number on that connection.
    pub call: u64,
    /// The JSON-RPC id as raw JSON text.
    pub request_id: Cow<'a, str>,
    /// The frame's digest.
    pub frame: Digest,
    /// The server asked.
    pub server: Cow<'a, Server>,
    /// The agent, when established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Cow<'a, Agent>>,
    /// The client's own name.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub client: Cow<'a, str>,
    /// The tool, byte for byte.
    pub tool: Cow<'a, str>,
    /// How it is filed.
    pub decision: Filing,
    /// What the chain said.
    pub verdict: Word,
    /// Why it was refused; absent for an allowed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The sentence the agent was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// Whether trying again can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Who spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Cow<'a, str>>,
    /// Its rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Cow<'a, Rule>>,
    /// The chain's generation.
    pub generation: u64,
    /// Who was asked, with digests of component and settings.
    pub chain: Cow<'a, [Member]>,
    /// Notes of the plugins.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub notes: Cow<'a, [String]>,
    /// Additive facts the plugins saw.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub attributes: Cow<'a, [Attribute]>,
    /// What the call was charged.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub charges: Cow<'a, [Applied]>,
    /// What the steady clock said, milliseconds; absent where nothing was charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ms: Option<i64>,
    /// What is committed to of the arguments.
    pub arguments: ArgumentsBody,
}

/// What an entry commits to of a call's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArgumentsBody {
    /// SHA-256(salt ‖ bytes); the salt lies beside the chain.
    pub digest: Digest,
    /// How many bytes they are.
    pub bytes: u64,
}

/// The body of a [`Kind::CallOutcome`] and of a [`Kind::OutcomeUnknown`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutcomeBody {
    /// The session.
    pub session: SessionId,
    /// The entry that allowed the call.
    pub decision: u64,
    /// What came back; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// How long the server took to answer, milliseconds; absent when it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// What came back for a forwarded call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A result that is not an error.
    Ok,
    /// A JSON-RPC error, a result with `isError: true`, or none because the server went away.
    Error,
}

/// The body of a [`Kind::SessionStart`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionStartBody {
    /// The session.
    pub session: SessionId,
    /// The server it is for.
    pub server: Server,
    /// The command that was started, as given.
    pub command: Vec<String>,
    /// What the relay was told about the agent; a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The agent, when established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<WhyUnknown>,
    /// What was seen of the processes above the relay, the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestry: Vec<Process>,
    /// The relay's process id.
    pub pid: u32,
    /// Whether the session was there before and found a new daemon.
    pub resumed: bool,
}

/// How a session ended that only lost its connection to the daemon.
pub const CONNECTION_LOST: &str = "connection-lost";

/// The body of a [`Kind::SessionEnd`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionEndBody {
    /// The session.
    pub session: SessionId,
    /// How it ended: `client-closed`, `server-exited`, `signal`, `connection-lost`.
    pub how: String,
    /// Events that could not be told because the daemon was away.
    pub lost_events: u64,
}

/// The body of an [`Kind::Anomaly`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AnomalyBody {
    /// The session.
    pub session: SessionId,
    /// Which side sent the frame.
    pub from: Side,
    /// What is odd about it.
    pub code: Code,
    /// The same as a sentence.
    pub detail: String,
    /// The digest of the frame's exact bytes, where it was whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Digest>,
    /// Its length in bytes, as far as it was read.
    pub bytes: u64,
}

/// A side of the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The MCP client; its odd frames are refused.
    Client,
    /// The MCP server; its odd frames are forwarded.
    Server,
}

/// The body of an entry about the policy: [`Kind::RuleAdd`] and the like. As JSON `{"rule":{…},"generation":1}`, with `budget`
/// or `grant` instead.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyBody {
    /// The item that was added or removed.
    #[serde(flatten)]
    pub item: PolicyItem,
    /// The generation from the last entry of the same change on.
    pub generation: u64,
}

/// The body of a [`Kind::DaemonStart`] and a [`Kind::DaemonStop`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DaemonBody {
    /// The build.
    pub build: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The generation in force.
    pub generation: u64,
    /// The digest of the configuration file's bytes.
    pub config: Digest,
}

/// The body of a [`Kind::ClockJump`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClockBody {
    /// What the wall clock should have said, going by the boot clock or, at start, by the newest entry.
    pub expected_ms: i64,
    /// What it said.
    pub now_ms: i64,
}

/// Writes a settled case as a draft. `clock_ms` is what the steady clock says, and `salt` fresh randomness from the journal.
pub fn decision_draft(case: &Case, settled: &Settled, clock_ms: i64, record: Record, salt: [u8; 16]) -> Draft {
    let Case { call, evaluated } = case;
    let Settled { decision, charges } = settled;
    let arguments = call.arguments.text().as_bytes();
    let (plugin, rule, reason) = match decision {
        Decision::Allowed { plugin, rule } => (plugin, rule, None),
        Decision::Refused(reason) => (&reason.plugin, &reason.rule, Some(reason)),
    };
    let body = DecisionBody {
        session: call.session.clone(),
        connection: call.binding.connection,
        call: call.binding.sequence,
        request_id: Cow::Borrowed(&call.request_id),
        frame: call.binding.frame,
        server: Cow::Borrowed(&call.caller.server),
        agent: call.caller.agent.as_ref().map(Cow::Borrowed),
        client: Cow::Borrowed(&call.caller.client),
        tool: Cow::Borrowed(&call.tool),
        decision: decision.filing(),
        verdict: evaluated.ruling.word(),
        code: reason.map(crate::refusal::Reason::code_text),
        reason: reason.map(|reason| Cow::Borrowed(&*reason.message)),
        retry: reason.map(|reason| reason.retry),
        plugin: plugin.as_deref().map(Cow::Borrowed),
        rule: rule.as_ref().map(Cow::Borrowed),
        generation: evaluated.generation,
        chain: Cow::Borrowed(&evaluated.members),
        notes: Cow::Borrowed(&evaluated.notes),
        attributes: Cow::Borrowed(&call.caller.attributes),
        charges: Cow::Borrowed(charges),
        clock_ms: (!charges.is_empty()).then_some(clock_ms),
        arguments: ArgumentsBody {
            digest: Digest::of_parts(&[&salt, arguments]),
            bytes: u64::try_from(arguments.len()).unwrap_or(u64::MAX),
        },
    };
    let mut draft = Draft::of(Kind::CallDecision, &body);
    draft.arguments = Some(kept(call.arguments.text(), record, salt));
    draft
}

fn kept(arguments: &str, record: Record, salt: [u8; 16]) -> KeptArguments {
    let value = match record {
        Record::Digest => None,
        Record::Full => Some(arguments.as_bytes().to_vec()).filter(|value| value.len() <= ARGUMENT_BYTES_RECORDED_MAX),
        Record::Summary if arguments.len() > ARGUMENT_BYTES_JUDGED_MAX => None,
        Record::Summary => summary(arguments).map(String::into_bytes),
    };
    KeptArguments { salt, value, form: record }
}

/// `key=value` pairs joined by `, `, in the order they arrived: strings decoded, everything else as its JSON text, key and
/// value each cut at [`SUMMARY_VALUE_CHARS_MAX`] characters, and the whole at [`ARGUMENT_BYTES_RECORDED_MAX`] bytes.
/// `…` stands where something was cut. `None` for what is no JSON object.
fn summary(arguments: &str) -> Option<String> {
    let mut summary = String::new();
    for (key, value) in json::members(arguments)? {
        let string = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).map(json::decode);
        let separator = if summary.is_empty() { "" } else { ", " };
        let pair = format!("{separator}{}={}", cut(&key), cut(&string.unwrap_or(value.into())));
        if summary.len() + pair.len() + CUT.len() > ARGUMENT_BYTES_RECORDED_MAX {
            summary.push_str(CUT);
            break;
        }
        summary.push_str(&pair);
    }
    Some(summary)
}

fn cut(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SUMMARY_VALUE_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.push_str(CUT);
    }
    shown
}
