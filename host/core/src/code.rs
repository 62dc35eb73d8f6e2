//! Every code a refusal or an anomaly can carry. One enum; docs/reference/codes.md is generated from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::settle::Filing;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $filing:ident;)+) => {
        /// Why a call or a frame was refused. The text of a code never changes its meaning.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum Code {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $name,)+
        }

        impl Code {
            /// Every code, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as text: kebab-case.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What it means, for the reference page.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii_start()),+ }
            }

            /// Whether policy said no (`denied`) or something failed (`error`).
            pub const fn filing(self) -> Filing {
                match self { $(Self::$name => Filing::$filing),+ }
            }
        }
    };
}

codes! {
    /// A policy plugin denied the call. In a refusal the code is `<plugin>/<code the plugin gave>`, for example `rules/deny`.
    Policy = "policy", Denied;
    /// Every plugin abstained and the chain's default is deny.
    DefaultDeny = "default-deny", Denied;
    /// A policy wants a person to decide, and calls cannot be held for an answer yet.
    AskUnavailable = "ask-unavailable", Denied;

    /// A policy plugin gave no answer within its deadline.
    PluginDeadline = "plugin-deadline", Error;
    /// A policy plugin used up its fuel.
    PluginFuel = "plugin-fuel", Error;
    /// A policy plugin asked for more memory or table room than it may have.
    PluginMemory = "plugin-memory", Error;
    /// A policy plugin failed: a panic, a trap, a stack that ran out.
    PluginTrap = "plugin-trap", Error;
    /// A policy plugin's answer breaks a bound that the contract states.
    PluginBadAnswer = "plugin-bad-answer", Error;
    /// More calls are being decided at once than there are plugin instances.
    PluginOverload = "plugin-overload", Error;
    /// A policy plugin is not ready: its settings did not load or it could not be instantiated.
    PluginNotReady = "plugin-not-ready", Error;
    /// A policy plugin failed so often for this agent that it is not asked any more, until it is reset or changed.
    PluginBreaker = "plugin-breaker", Error;
    /// The arguments are larger than a plugin is shown.
    CallTooLarge = "call-too-large", Error;
    /// The chain changed three times while the call was being decided.
    ChainUnsettled = "chain-unsettled", Error;
    /// What the call consumes cannot be counted: there are too many counters, or the clock is beyond any calendar.
    ChargeUncounted = "charge-uncounted", Error;

    /// The decision could not be written to the journal.
    JournalWrite = "journal-write", Error;
    /// The disk that holds the journal is full.
    JournalFull = "journal-full", Error;
    /// The database is missing, was swapped, or is of another install or a newer schema.
    JournalForeign = "journal-foreign", Error;
    /// More decisions wait to be written than there is room for.
    JournalOverload = "journal-overload", Error;

    /// The daemon could not be reached or started.
    DaemonUnreachable = "daemon-unreachable", Error;
    /// The daemon gave no decision within the deadline.
    DaemonSlow = "daemon-slow", Error;
    /// The connection to the daemon closed before the decision came.
    DaemonLost = "daemon-lost", Error;
    /// The daemon runs another build than this relay. `callgate daemon restart` mends it.
    OlderBuild = "older-build", Error;
    /// The daemon's answer belongs to another call, connection or frame.
    ReplyMismatch = "reply-mismatch", Error;
    /// The session's id was used before, by another session.
    SessionUsed = "session-used", Error;
    /// More requests of this session are in flight than there may be.
    SessionOverload = "session-overload", Error;
    /// The call could not be written to the server.
    ServerWrite = "server-write", Error;
    /// The client cancelled the call before it was forwarded; it was not.
    Withdrawn = "withdrawn", Error;

    /// The frame is not one JSON document: bad syntax, a comment, NaN, trailing text, a second document, a NUL byte.
    NotJson = "not-json", Error;
    /// The frame is not valid UTF-8.
    NotUtf8 = "not-utf8", Error;
    /// The frame starts with a byte order mark.
    ByteOrderMark = "byte-order-mark", Error;
    /// A string holds half a surrogate pair.
    LoneSurrogate = "lone-surrogate", Error;
    /// A carriage return that is not directly before the line feed: some servers end a line there.
    CarriageReturn = "carriage-return", Error;
    /// A key stands twice in one object, where parsers differ about which counts.
    RepeatedKey = "repeated-key", Error;
    /// A key looks like a reserved one but is spelled otherwise, so that some parsers take it for the reserved one.
    LookAlikeKey = "look-alike-key", Error;
    /// The frame is nested deeper than 128.
    TooDeep = "too-deep", Error;
    /// The frame is longer than `relay.frame_bytes_max`.
    FrameTooLong = "frame-too-long", Error;
    /// The input ended before the frame's line feed.
    Unterminated = "unterminated", Error;
    /// Not a JSON-RPC 2.0 message: not an object, no or another `jsonrpc`, a `method` that is no string, neither `method` nor `result` nor `error`.
    NotAMessage = "not-a-message", Error;
    /// The message has `method` beside `result` or `error`, or `result` beside `error`.
    MixedMessage = "mixed-message", Error;
    /// The id is neither a string nor a whole number.
    BadId = "bad-id", Error;
    /// A `tools/call` takes an id that another request in flight has.
    IdInFlight = "id-in-flight", Error;
    /// A batch holds a `tools/call`; it is refused whole.
    BatchCall = "batch-call", Error;
    /// A `tools/call` without an id: it could never be answered.
    NotificationCall = "notification-call", Error;
    /// A `tools/call` whose `params`, `name` or `arguments` are not of the form the specification gives them.
    BadCall = "bad-call", Error;
    /// A server answered a request that its client did not make, or one that was answered already. It is forwarded.
    UnexpectedAnswer = "unexpected-answer", Error;

    /// No server of this name is registered, and the client gave no command to start.
    ServerUnregistered = "server-unregistered", Error;
    /// The server's registration is another one than the session was started with. A restart of the server in the client mends it.
    ServerChanged = "server-changed", Error;
    /// A credential that the server needs cannot be had, so the server was not started.
    CredentialUnavailable = "credential-unavailable", Error;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
