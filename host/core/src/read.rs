//! The strict reader: one pass over a client's frame, spans into its original bytes.
//!
//! What two parsers could read differently is refused here, so that what is judged is what every server will run. The
//! reader never copies, repairs or re-serialises a frame; it never guesses.

mod client;
mod id;
mod look_alike;
mod server;

use std::borrow::Cow;

use crate::code::Code;
use crate::json;
use crate::refusal::Dialect;

pub use client::{CLAIM_BYTES_MAX, TOOL_BYTES_MAX};
pub use id::ID_BYTES_MAX;

/// How deep a frame may be nested.
pub const DEPTH_MAX: usize = json::DEPTH_MAX;

/// One message of a client, understood the only way it can be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientMessage<'a> {
    /// A `tools/call` with an id: what there is to decide.
    Call(ToolCall<'a>),
    /// Any other request.
    Request(Request<'a>),
    /// A message with a method and no id, not a `tools/call`.
    Notification(Notification<'a>),
    /// An answer to a request of the server.
    Response(Id<'a>),
    /// A JSON array of messages, none of which is a `tools/call`; the ids of its requests.
    Batch(Vec<Id<'a>>),
    /// A line of white space.
    Blank,
}

/// A JSON-RPC id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Id<'a> {
    /// Its raw JSON text, for echoing.
    pub raw: &'a str,
    /// What it is compared by.
    pub key: IdKey,
}

/// What ids are compared by: `1`, `1.0`, `1e0` and `"1"` are one key, because clients match answers that way. Large whole
/// numbers are told apart by their exact text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct IdKey(String);

/// A `tools/call`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall<'a> {
    /// Its id.
    pub id: Id<'a>,
    /// `params.name`, decoded.
    pub tool: Cow<'a, str>,
    /// `params.arguments` as it stands in the frame; `None` when absent.
    pub arguments: Option<&'a str>,
    /// How a refusal has to look.
    pub dialect: Dialect,
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`, when it is there.
    pub protocol_version: Option<Cow<'a, str>>,
    /// The client's own name from the per-request metadata of the 2026-07-28 dialect.
    pub client: Option<Cow<'a, str>>,
}

/// A request that is not a `tools/call`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Its id.
    pub id: Id<'a>,
    /// Its method, decoded.
    pub method: Cow<'a, str>,
    /// The client's own name: `params.clientInfo.name` of an `initialize`, or the per-request metadata of the 2026-07-28 dialect.
    pub client: Option<Cow<'a, str>>,
    /// `params.protocolVersion` of an `initialize`, or the per-request metadata of the 2026-07-28 dialect.
    pub protocol_version: Option<Cow<'a, str>>,
}

/// A notification that is not a `tools/call`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification<'a> {
    /// Its method, decoded.
    pub method: Cow<'a, str>,
    /// What a `notifications/cancelled` cancels.
    pub cancels: Option<IdKey>,
}

/// A frame that is refused, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Unreadable<'a> {
    /// What is wrong.
    pub code: Code,
    /// The same as a sentence, lower-case, naming where (a byte offset or a key).
    pub detail: String,
    /// The raw texts of the ids to answer: exactly one for a single message whose id can be read without doubt, one for
    /// each request of a refused batch, else none.
    pub answer: Vec<&'a str>,
}

/// What a server's frame means to the relay. Server frames are never refused; what is odd about one is only noted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerFrame<'a> {
    /// The answers in it (one, or several in a batch).
    pub answers: Vec<ServerAnswer<'a>>,
    /// What is odd about it.
    pub oddity: Option<(Code, String)>,
}

/// One answer of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerAnswer<'a> {
    /// Which request it answers.
    pub key: IdKey,
    /// A JSON-RPC error, or a result with `isError: true`.
    pub is_error: bool,
    /// The raw text of `result`, when there is one.
    pub result: Option<&'a str>,
}

/// Reads one frame of a client: a line with its line feed, and with the carriage return before it if it has one.
pub fn read_client(frame: &[u8]) -> Result<ClientMessage<'_>, Unreadable<'_>> {
    client::read(frame)
}

/// Reads one frame of a server, as far as it can be read.
pub fn read_server(frame: &[u8]) -> ServerFrame<'_> {
    server::read(frame)
}
