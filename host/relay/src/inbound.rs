//! What a client's frame is, and the one way its bytes become writable to the server.
//!
//! [`Cleared`] is made here and nowhere else: from a frame that the strict reader took for something other than a call,
//! or from a call and the permit for it.

use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::permit::{Binding, Mismatch, Permit};
use callgate_core::read::{ClientMessage, IdKey, Request, ToolCall, read_client};
use callgate_core::refusal::Dialect;
use serde::Deserialize;

/// One frame of the client.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// Goes to the server in its turn.
    Message(Message),
    /// Goes nowhere without a permit.
    Call(Call),
    /// Goes nowhere.
    Refused(RefusedFrame),
}

/// A frame that holds no call.
#[derive(Debug)]
pub(crate) struct Message {
    /// What it is about.
    pub(crate) about: About,
    bytes: Vec<u8>,
}

/// What the relay has to know of a frame that holds no call.
#[derive(Debug)]
pub(crate) enum About {
    /// A request.
    Request {
        /// Its id.
        key: IdKey,
        /// What its answer will tell.
        asks: Asks,
        /// Who says it is asking.
        speaker: Speaker,
    },
    /// The requests of a batch.
    Requests(Vec<IdKey>),
    /// Cancels an earlier request.
    Cancels(IdKey),
    /// Says that the handshake is done.
    Initialized,
    /// Nothing that matters here: another notification, an answer to the server, white space.
    Other,
}

/// What the answer to a request tells the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asks {
    /// `initialize`: the revision that is spoken.
    Revision,
    /// `tools/list`: tools.
    Tools {
        /// From the beginning, so that what was known before is out of date.
        first: bool,
    },
    /// Nothing.
    Nothing,
}

/// What the client says of itself; its own words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Speaker {
    /// The client program's name.
    pub(crate) client: Option<String>,
    /// The revision it speaks.
    pub(crate) protocol_version: Option<String>,
}

/// A call that is not decided yet.
#[derive(Debug)]
pub(crate) struct Call {
    bytes: Vec<u8>,
    /// What names it towards the client.
    pub(crate) asked: Asked,
    /// Its arguments as they stand in the frame; taken out when the decision is asked for.
    pub(crate) arguments: String,
    /// Who says it is asking.
    pub(crate) speaker: Speaker,
}

/// What is needed to answer a call and to speak of it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its id, for comparing.
    pub(crate) key: IdKey,
    /// Its id, for echoing.
    pub(crate) request_id: String,
    /// How a refusal has to look.
    pub(crate) dialect: Dialect,
    /// The tool.
    pub(crate) tool: String,
    /// The digest of the frame.
    pub(crate) frame: Digest,
    /// The frame's length.
    pub(crate) bytes: u64,
}

/// A frame that is refused.
#[derive(Debug)]
pub(crate) struct RefusedFrame {
    /// Why.
    pub(crate) code: Code,
    /// The same as a sentence.
    pub(crate) detail: String,
    /// The ids to answer.
    pub(crate) answer: Vec<String>,
    /// The digest of the frame.
    pub(crate) frame: Digest,
    /// The frame's length.
    pub(crate) bytes: u64,
}

/// Bytes that may be written to the server: exactly those that arrived.
#[derive(Debug)]
pub(crate) struct Cleared {
    bytes: Vec<u8>,
    released: Option<Released>,
}

/// A call, and a permit that is for something else.
#[derive(Debug)]
pub(crate) struct Unreleased {
    /// The call.
    pub(crate) call: Call,
    /// How the permit differs.
    pub(crate) mismatch: Mismatch,
}

/// A call that its permit has released.
#[derive(Debug)]
pub(crate) struct Released {
    /// The call.
    pub(crate) asked: Asked,
    /// The journal entry that allows it.
    pub(crate) entry: u64,
}

impl Inbound {
    /// Reads a frame.
    pub(crate) fn read(bytes: Vec<u8>) -> Self {
        match read_client(&bytes) {
            Ok(ClientMessage::Call(call)) => Self::Call(Call {
                asked: Asked::new(&call, &bytes),
                arguments: call.arguments.unwrap_or("{}").to_owned(),
                speaker: Speaker {
                    client: call.client.map(Into::into),
                    protocol_version: call.protocol_version.map(Into::into),
                },
                bytes,
            }),
            Ok(ClientMessage::Request(request)) => {
                let about = About::request(request, &bytes);
                Self::Message(Message { about, bytes })
            }
            Ok(ClientMessage::Notification(notification)) => {
                let about = match (notification.cancels, &*notification.method) {
                    (Some(key), _) => About::Cancels(key),
                    (None, "notifications/initialized") => About::Initialized,
                    (None, _) => About::Other,
                };
                Self::Message(Message { about, bytes })
            }
            Ok(ClientMessage::Batch(ids)) => {
                let about = About::Requests(ids.into_iter().map(|id| id.key).collect());
                Self::Message(Message { about, bytes })
            }
            Ok(ClientMessage::Response(_) | ClientMessage::Blank) => {
                Self::Message(Message { about: About::Other, bytes })
            }
            Err(unreadable) => Self::Refused(RefusedFrame {
                code: unreadable.code,
                answer: unreadable.answer.into_iter().map(str::to_owned).collect(),
                detail: unreadable.detail,
                frame: Digest::of(&bytes),
                bytes: length(&bytes),
            }),
        }
    }
}

impl About {
    fn request(request: Request<'_>, frame: &[u8]) -> Self {
        let asks = match &*request.method {
            "initialize" => Asks::Revision,
            "tools/list" => Asks::Tools { first: is_first_page(frame) },
            _ => Asks::Nothing,
        };
        let speaker = Speaker {
            client: request.client.map(Into::into),
            protocol_version: request.protocol_version.map(Into::into),
        };
        Self::Request { key: request.id.key, asks, speaker }
    }
}

/// Whether a `tools/list` asks from the beginning: an empty cursor is a cursor, an absent or null one is none.
fn is_first_page(frame: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct List {
        params: Option<Page>,
    }
    #[derive(Deserialize)]
    struct Page {
        cursor: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice(frame).map_or(true, |list: List| list.params.is_none_or(|page| page.cursor.is_none()))
}

impl Speaker {
    /// Takes over what the newer words say.
    pub(crate) fn update(&mut self, newer: &Self) {
        if newer.client.is_some() {
            self.client.clone_from(&newer.client);
        }
        if newer.protocol_version.is_some() {
            self.protocol_version.clone_from(&newer.protocol_version);
        }
    }
}

impl Asked {
    fn new(call: &ToolCall<'_>, frame: &[u8]) -> Self {
        Self {
            key: call.id.key.clone(),
            request_id: call.id.raw.to_owned(),
            dialect: call.dialect,
            tool: call.tool.clone().into_owned(),
            frame: Digest::of(frame),
            bytes: length(frame),
        }
    }
}

impl Message {
    /// The frame.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it may go before calls that came earlier and are not decided. The handshake may not: calls are made within
    /// it. Nor may a batch, which can hold a part of it.
    pub(crate) const fn may_pass_calls(&self) -> bool {
        match &self.about {
            About::Request { asks: Asks::Revision, .. } | About::Requests(_) | About::Initialized => false,
            About::Request { asks: Asks::Tools { .. } | Asks::Nothing, .. } | About::Cancels(_) | About::Other => true,
        }
    }
}

impl Call {
    /// How many bytes it holds on to.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Spends a permit on this call, which is what `binding` describes. A permit for anything else releases nothing.
    pub(crate) fn release(self, permit: Permit, binding: &Binding) -> Result<Cleared, Box<Unreleased>> {
        if binding.frame != self.asked.frame {
            let elsewhere = Binding { frame: self.asked.frame, ..*binding };
            let mismatch = Mismatch { waiting: elsewhere, permitted: *binding };
            return Err(Box::new(Unreleased { call: self, mismatch }));
        }
        match permit.spend(binding) {
            Ok(entry) => Ok(Cleared { bytes: self.bytes, released: Some(Released { asked: self.asked, entry }) }),
            Err(mismatch) => Err(Box::new(Unreleased { call: self, mismatch })),
        }
    }
}

impl From<Message> for Cleared {
    fn from(message: Message) -> Self {
        Self { bytes: message.bytes, released: None }
    }
}

impl Cleared {
    /// The bytes to write.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The call, if it is one.
    pub(crate) const fn released(&self) -> Option<&Released> {
        self.released.as_ref()
    }

    /// The call, if it is one; its bytes are given up.
    pub(crate) fn into_released(self) -> Option<Released> {
        self.released
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CALL: &[u8] = br#" {"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"a"}}
"#;

    fn permit(binding: Binding) -> Permit {
        serde_json::from_value(json!({ "binding": binding, "entry": 9 })).unwrap()
    }

    fn call() -> Call {
        match Inbound::read(CALL.to_vec()) {
            Inbound::Call(call) => call,
            other => panic!("no call but {other:?}"),
        }
    }

    #[test]
    fn a_permit_releases_the_very_bytes_that_arrived() {
        let binding = Binding { connection: 3, sequence: 4, frame: Digest::of(CALL) };
        let cleared = call().release(permit(binding), &binding).unwrap();
        assert_eq!(cleared.bytes(), CALL);
        let released = cleared.into_released().unwrap();
        assert_eq!((released.entry, released.asked.request_id.as_str()), (9, "1.0"));
    }

    #[test]
    fn a_permit_for_another_connection_sequence_or_frame_releases_nothing() {
        let binding = Binding { connection: 3, sequence: 4, frame: Digest::of(CALL) };
        for other in [
            Binding { connection: 5, ..binding },
            Binding { sequence: 5, ..binding },
            Binding { frame: Digest::of(b"other"), ..binding },
        ] {
            assert!(call().release(permit(other), &binding).is_err());
        }
    }

    #[test]
    fn a_permit_for_what_the_waiting_frame_is_not_releases_nothing() {
        let binding = Binding { connection: 3, sequence: 4, frame: Digest::of(b"other") };
        assert!(call().release(permit(binding), &binding).is_err());
    }

    #[test]
    fn an_empty_cursor_is_a_cursor() {
        let first = |params: &str| {
            let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{params}}}"#) + "\n";
            match Inbound::read(frame.into_bytes()) {
                Inbound::Message(Message { about: About::Request { asks, .. }, .. }) => asks,
                other => panic!("no request but {other:?}"),
            }
        };
        for params in ["", r#","params":{}"#, r#","params":{"cursor":null}"#] {
            assert_eq!(first(params), Asks::Tools { first: true }, "{params}");
        }
        assert_eq!(first(r#","params":{"cursor":""}"#), Asks::Tools { first: false });
    }
}
