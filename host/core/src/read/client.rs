//! The frames of a client: read strictly, refused where two parsers could differ.

use std::borrow::Cow;

use super::look_alike::{AT_TOP, CLIENT_INFO, IN_META, IN_PARAMS, PROTOCOL_VERSION, resembled};
use super::{ClientMessage, Id, Notification, Request, ToolCall, Unreadable};
use crate::code::Code;
use crate::json::{self, Fault, Finding, LineBreaks, Repeats, Scanner, StringSpan};
use crate::refusal::Dialect;

/// The longest tool name, bytes. The specification wants at most 128 characters; a name goes into every entry about it.
pub const TOOL_BYTES_MAX: usize = 16 * 1024;
/// The longest client name or revision that is believed, bytes. They are the client's own words; longer ones are ignored.
pub const CLAIM_BYTES_MAX: usize = 256;

/// The first revision of the 2026-07-28 dialect. Revisions are dates, and compare as text.
const MODERN_SINCE: &str = "2026-07-28";
const TOOLS_CALL: &str = "tools/call";

/// See [`super::read_client`].
pub(super) fn read(frame: &[u8]) -> Result<ClientMessage<'_>, Unreadable<'_>> {
    let text = line(frame)?;
    let Some(scanner) = Scanner::new(text, LineBreaks::Refused) else {
        return Err(silent(Objection::new(Code::FrameTooLong, "the frame is longer than 4 GiB")));
    };
    Reader { scanner, objection: None }.read()
}

/// The frame's text without its line ending.
fn line(frame: &[u8]) -> Result<&str, Unreadable<'_>> {
    let Some(line) = frame.strip_suffix(b"\n") else {
        return Err(silent(Objection::new(Code::Unterminated, "the input ended before the frame's line feed")));
    };
    let text = simdutf8::compat::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).map_err(|error| {
        silent(Objection::new(Code::NotUtf8, format!("invalid UTF-8 at byte {}", error.valid_up_to())))
    })?;
    if text.starts_with('\u{feff}') {
        return Err(silent(Objection::new(Code::ByteOrderMark, "a byte order mark before the frame")));
    }
    Ok(text)
}

/// A refusal that cannot be answered, because no id can be read.
fn silent<'a>(objection: Objection) -> Unreadable<'a> {
    objection.answering([])
}

impl From<Box<Fault>> for Unreadable<'_> {
    fn from(fault: Box<Fault>) -> Self {
        silent(Objection::new(fault.code, fault.detail()))
    }
}

/// Why a message is not taken.
struct Objection {
    code: Code,
    detail: String,
}

impl Objection {
    fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// Answers under those of the candidates that are ids.
    fn answering<'a>(self, candidates: impl IntoIterator<Item = &'a str>) -> Unreadable<'a> {
        let answer = candidates.into_iter().filter(|raw| Id::read(raw).is_some()).collect();
        Unreadable { code: self.code, detail: self.detail, answer }
    }
}

/// What stands in one message. Values are JSON text; of a key that repeats, the last one.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    /// A `method` says `tools/call`. Kept, because a method may be megabytes long and this is asked for every key.
    is_call: bool,
    params: Option<Params<'a>>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    /// Some parser may see another id here.
    id_in_doubt: bool,
    /// Some parser may see a `result` or an `error` here.
    resembles_answer: bool,
    /// A key that repeats where that matters only in a `tools/call`.
    deep_repeat: Option<StringSpan>,
}

#[derive(Default)]
struct Params<'a> {
    is_object: bool,
    name: Option<&'a str>,
    arguments: Option<&'a str>,
    task: Option<&'a str>,
    request_id: Option<&'a str>,
    protocol_version: Option<Cow<'a, str>>,
    client: Option<Cow<'a, str>>,
    meta: Meta<'a>,
}

#[derive(Default)]
struct Meta<'a> {
    protocol_version: Option<Cow<'a, str>>,
    client: Option<Cow<'a, str>>,
}

impl<'a> Envelope<'a> {
    /// What is asked about repeated keys further down. Only a `tools/call` is judged by them; as long as the method is not
    /// known this may be one.
    fn deep_repeats(&self) -> Repeats {
        if self.method.is_none() || self.is_call { Repeats::Remembered } else { Repeats::Ignored }
    }

    /// The id to answer a refusal under, if it is one. None for what may be the client's own answer: its id is of the
    /// server's ids, and the client may have a request of its own in flight under the same.
    fn to_answer(&self) -> Option<&'a str> {
        let is_answer = self.method.is_none() && (self.result.or(self.error).is_some() || self.resembles_answer);
        self.id.filter(|_| !is_answer && !self.id_in_doubt)
    }
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    /// The first objection to the message being read.
    objection: Option<Objection>,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<ClientMessage<'a>, Unreadable<'a>> {
        self.scanner.blank()?;
        match self.scanner.peek() {
            None => self.take_objection().map_or(Ok(ClientMessage::Blank), |objection| Err(silent(objection))),
            Some(b'{') => self.single(),
            Some(b'[') => self.batch(),
            Some(_) => {
                self.scanner.value(Repeats::Ignored)?;
                self.scanner.end()?;
                Err(silent(Objection::new(Code::NotAMessage, "neither an object nor an array")))
            }
        }
    }

    fn single(mut self) -> Result<ClientMessage<'a>, Unreadable<'a>> {
        let envelope = self.envelope()?;
        self.scanner.end()?;
        let answer = envelope.to_answer();
        self.understand(envelope).map_err(|objection| objection.answering(answer))
    }

    fn batch(mut self) -> Result<ClientMessage<'a>, Unreadable<'a>> {
        let mut requests = Vec::new();
        let mut answer = Vec::new();
        let mut call = None;
        let mut objection = None;
        let mut number = 0_usize;
        let mut more = self.scanner.enter_array()?;
        while more {
            number += 1;
            if self.scanner.peek() == Some(b'{') {
                let envelope = self.envelope()?;
                answer.extend(envelope.to_answer());
                call = call.or(envelope.is_call.then_some(number));
                match self.understand(envelope) {
                    Ok(ClientMessage::Request(request)) => requests.push(request.id),
                    Ok(_) => {}
                    Err(Objection { code, detail }) => {
                        objection
                            .get_or_insert(Objection::new(code, format!("message {number} of the batch: {detail}")));
                    }
                }
            } else {
                self.scanner.value(Repeats::Ignored)?;
                let detail = format!("message {number} of the batch is not an object");
                objection.get_or_insert(Objection::new(Code::NotAMessage, detail));
            }
            more = self.scanner.next_element()?;
        }
        self.scanner.end()?;
        if let Some(number) = call {
            let detail = format!("message {number} of the batch is a tools/call");
            return Err(Objection::new(Code::BatchCall, detail).answering(answer));
        }
        if number == 0 {
            return Err(silent(Objection::new(Code::NotAMessage, "an empty batch")));
        }
        match objection.or_else(|| self.take_objection()) {
            Some(objection) => Err(objection.answering(answer)),
            None => Ok(ClientMessage::Batch(requests)),
        }
    }

    /// Steps over the message that begins here.
    fn envelope(&mut self) -> Result<Envelope<'a>, Box<Fault>> {
        let mut envelope = Envelope::default();
        let mut next = self.scanner.enter_object(Repeats::Found)?;
        while let Some(key) = next {
            let deep = envelope.deep_repeats();
            match &*self.scanner.spelled(key) {
                "jsonrpc" => envelope.jsonrpc = Some(self.scanner.value(deep)?),
                "method" => {
                    let method = self.scanner.value(deep)?;
                    envelope.is_call |= string(method).is_some_and(|method| method == TOOLS_CALL);
                    envelope.method = Some(method);
                }
                "params" => envelope.params = Some(self.params(deep)?),
                "id" => {
                    envelope.id_in_doubt |= envelope.id.is_some();
                    envelope.id = Some(self.scanner.value(deep)?);
                }
                "result" => envelope.result = Some(self.scanner.value(deep)?),
                "error" => envelope.error = Some(self.scanner.value(deep)?),
                other => {
                    let resembled = self.object_to_look_alike(key, other, &AT_TOP);
                    envelope.id_in_doubt |= resembled == Some("id");
                    envelope.resembles_answer |= matches!(resembled, Some("result" | "error"));
                    self.scanner.value(deep)?;
                }
            }
            next = self.scanner.next_key(Repeats::Found)?;
        }
        envelope.deep_repeat = self.scanner.take_deep_repeat();
        Ok(envelope)
    }

    fn params(&mut self, deep: Repeats) -> Result<Params<'a>, Box<Fault>> {
        let mut params = Params::default();
        if self.scanner.peek() != Some(b'{') {
            self.scanner.value(deep)?;
            return Ok(params);
        }
        params.is_object = true;
        let mut next = self.scanner.enter_object(Repeats::Found)?;
        while let Some(key) = next {
            match &*self.scanner.spelled(key) {
                "name" => params.name = Some(self.scanner.value(deep)?),
                "arguments" => params.arguments = Some(self.scanner.value(deep)?),
                "task" => params.task = Some(self.scanner.value(deep)?),
                "requestId" => params.request_id = Some(self.scanner.value(deep)?),
                "protocolVersion" => params.protocol_version = string(self.scanner.value(deep)?),
                "clientInfo" => params.client = self.name_in(deep)?,
                "_meta" => params.meta = self.meta(deep)?,
                other => {
                    self.object_to_look_alike(key, other, &IN_PARAMS);
                    self.scanner.value(deep)?;
                }
            }
            next = self.scanner.next_key(Repeats::Found)?;
        }
        Ok(params)
    }

    fn meta(&mut self, deep: Repeats) -> Result<Meta<'a>, Box<Fault>> {
        let mut meta = Meta::default();
        if self.scanner.peek() != Some(b'{') {
            self.scanner.value(deep)?;
            return Ok(meta);
        }
        let mut next = self.scanner.enter_object(Repeats::Found)?;
        while let Some(key) = next {
            match &*self.scanner.spelled(key) {
                PROTOCOL_VERSION => meta.protocol_version = string(self.scanner.value(deep)?),
                CLIENT_INFO => meta.client = self.name_in(deep)?,
                other => {
                    self.object_to_look_alike(key, other, &IN_META);
                    self.scanner.value(deep)?;
                }
            }
            next = self.scanner.next_key(Repeats::Found)?;
        }
        Ok(meta)
    }

    /// Steps over a value and tells its `name`, when it is an object with one that is a string. Of a name that repeats,
    /// where that is no objection, nothing is told.
    fn name_in(&mut self, deep: Repeats) -> Result<Option<Cow<'a, str>>, Box<Fault>> {
        if self.scanner.peek() != Some(b'{') {
            self.scanner.value(deep)?;
            return Ok(None);
        }
        let mut names = Vec::new();
        let mut next = self.scanner.enter_object(deep)?;
        while let Some(key) = next {
            let value = self.scanner.value(deep)?;
            if self.scanner.spelled(key) == "name" {
                names.push(value);
            }
            next = self.scanner.next_key(deep)?;
        }
        let [name] = names.as_slice() else { return Ok(None) };
        Ok(claim(string(name)))
    }

    /// What the message means, or the first objection to it.
    fn understand(&mut self, envelope: Envelope<'a>) -> Result<ClientMessage<'a>, Objection> {
        if let Some(objection) = self.take_objection() {
            return Err(objection);
        }
        if envelope.jsonrpc.and_then(string).is_none_or(|version| version != "2.0") {
            return Err(Objection::new(Code::NotAMessage, "no `jsonrpc` that is \"2.0\""));
        }
        match (envelope.method, envelope.result, envelope.error) {
            (Some(method), None, None) => self.asks(method, envelope),
            (Some(_), Some(_), _) => Err(Objection::new(Code::MixedMessage, "`method` stands beside `result`")),
            (Some(_), None, Some(_)) => Err(Objection::new(Code::MixedMessage, "`method` stands beside `error`")),
            (None, Some(_), Some(_)) => Err(Objection::new(Code::MixedMessage, "`result` stands beside `error`")),
            (None, None, None) => Err(Objection::new(Code::NotAMessage, "neither `method` nor `result` nor `error`")),
            (None, Some(_), None) | (None, None, Some(_)) => match envelope.id {
                Some(raw) => id(raw).map(ClientMessage::Response),
                None => Err(Objection::new(Code::NotAMessage, "an answer without an id")),
            },
        }
    }

    fn asks(&self, method: &'a str, envelope: Envelope<'a>) -> Result<ClientMessage<'a>, Objection> {
        let Some(method) = string(method) else {
            return Err(Objection::new(Code::NotAMessage, "`method` is not a string"));
        };
        let id = envelope.id.map(id).transpose()?;
        match (method == TOOLS_CALL, id) {
            (true, Some(id)) => match envelope.deep_repeat {
                Some(key) => Err(self.finding(Finding::RepeatedKey(key))),
                None => call(id, envelope.params).map(ClientMessage::Call),
            },
            (true, None) => {
                Err(Objection::new(Code::NotificationCall, "a tools/call without an id can never be answered"))
            }
            (false, Some(id)) => Ok(ClientMessage::Request(request(id, method, envelope.params.unwrap_or_default()))),
            (false, None) => {
                let cancelled = envelope.params.and_then(|params| params.request_id);
                let cancels =
                    cancelled.filter(|_| method == "notifications/cancelled").and_then(Id::read).map(|id| id.key);
                Ok(ClientMessage::Notification(Notification { method, cancels }))
            }
        }
    }

    /// Keeps an objection to a key that resembles a reserved one, and tells which.
    fn object_to_look_alike(&mut self, key: StringSpan, text: &str, reserved: &[&'static str]) -> Option<&'static str> {
        let name = resembled(text, reserved)?;
        let shown = self.scanner.shown(key);
        let detail = format!("the key {shown} at byte {} looks like the reserved key \"{name}\"", key.start);
        self.objection.get_or_insert(Objection::new(Code::LookAlikeKey, detail));
        Some(name)
    }

    fn take_objection(&mut self) -> Option<Objection> {
        let finding = self.scanner.take_finding().map(|finding| self.finding(finding));
        self.objection.take().or(finding)
    }

    fn finding(&self, finding: Finding) -> Objection {
        let (code, detail) = self.scanner.tell(finding);
        Objection { code, detail }
    }
}

fn call<'a>(id: Id<'a>, params: Option<Params<'a>>) -> Result<ToolCall<'a>, Objection> {
    let bad = |detail: &str| Objection::new(Code::BadCall, format!("a tools/call {detail}"));
    let params = params.filter(|params| params.is_object).ok_or_else(|| bad("whose params are not an object"))?;
    let name = params.name.ok_or_else(|| bad("without a name"))?;
    let tool = string(name).ok_or_else(|| bad("whose name is not a string"))?;
    if tool.len() > TOOL_BYTES_MAX {
        return Err(bad(&format!("whose name takes more than {TOOL_BYTES_MAX} bytes")));
    }
    if params.arguments.is_some_and(|arguments| !arguments.starts_with('{')) {
        return Err(bad("whose arguments are not an object"));
    }
    let version = params.meta.protocol_version;
    // A null task is none: no server makes a task of it.
    let dialect = if params.task.is_some_and(|task| task != "null") {
        Dialect::Task
    } else if version.as_deref().is_some_and(|version| version >= MODERN_SINCE) {
        Dialect::Modern
    } else {
        Dialect::Legacy
    };
    let protocol_version = claim(version);
    Ok(ToolCall { id, tool, arguments: params.arguments, dialect, protocol_version, client: params.meta.client })
}

fn request<'a>(id: Id<'a>, method: Cow<'a, str>, params: Params<'a>) -> Request<'a> {
    let Params { client, protocol_version, meta, .. } = params;
    let (client, protocol_version) =
        if method == "initialize" { (client, protocol_version) } else { (meta.client, meta.protocol_version) };
    Request { id, method, client, protocol_version: claim(protocol_version) }
}

fn id(raw: &str) -> Result<Id<'_>, Objection> {
    let detail =
        || format!("an id that is neither a string nor a whole number of at most {} bytes", super::ID_BYTES_MAX);
    Id::read(raw).ok_or_else(|| Objection::new(Code::BadId, detail()))
}

/// The string that a JSON text is, decoded.
fn string(raw: &str) -> Option<Cow<'_, str>> {
    raw.strip_prefix('"')?.strip_suffix('"').map(json::decode)
}

/// A client's own word, when it is not too long to be believed.
fn claim(text: Option<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    text.filter(|text| text.len() <= CLAIM_BYTES_MAX)
}
