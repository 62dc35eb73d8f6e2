//! The frames of a server: read as far as they can be read. They are forwarded whatever they are.

use super::{Id, ServerAnswer, ServerFrame};
use crate::code::Code;
use crate::json::{Fault, LineBreaks, Repeats, Scanner};

/// See [`super::read_server`].
pub(super) fn read(frame: &[u8]) -> ServerFrame<'_> {
    let invalid = match simdutf8::compat::from_utf8(frame) {
        Ok(text) => return read_text(text),
        Err(error) => error.valid_up_to(),
    };
    // Clients decode such a frame with U+FFFD in it and match its id; the text of the result is no longer the frame's own.
    let lossy = String::from_utf8_lossy(frame);
    let answers = read_text(&lossy).answers.into_iter();
    let answers =
        answers.map(|ServerAnswer { key, is_error, .. }| ServerAnswer { key, is_error, result: None }).collect();
    ServerFrame { answers, oddity: Some((Code::NotUtf8, format!("invalid UTF-8 at byte {invalid}"))) }
}

fn read_text(frame: &str) -> ServerFrame<'_> {
    let line = frame.strip_suffix('\n');
    let text = line.unwrap_or(frame);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let unmarked = text.strip_prefix('\u{feff}');
    let Some(scanner) = Scanner::new(unmarked.unwrap_or(text), LineBreaks::Refused) else {
        return ServerFrame { answers: Vec::new(), oddity: Some((Code::FrameTooLong, "longer than 4 GiB".to_owned())) };
    };
    let mut reader = Reader { scanner, answers: Vec::new(), oddity: None };
    if line.is_none() {
        reader.odd(Code::Unterminated, "the output ended before the frame's line feed");
    }
    if unmarked.is_some() {
        reader.odd(Code::ByteOrderMark, "a byte order mark before the frame");
    }
    reader.read()
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    answers: Vec<ServerAnswer<'a>>,
    oddity: Option<(Code, String)>,
}

/// What stands in one message; of a key that repeats, the last one, as clients take it.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: bool,
    result: Option<&'a str>,
    is_error: bool,
    error: bool,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> ServerFrame<'a> {
        if let Err(fault) = self.document() {
            // A client cannot read such a frame either: nothing in it is an answer.
            self.answers.clear();
            self.oddity = Some((fault.code, fault.detail()));
        }
        self.note_finding();
        ServerFrame { answers: self.answers, oddity: self.oddity }
    }

    fn document(&mut self) -> Result<(), Box<Fault>> {
        self.scanner.blank()?;
        match self.scanner.peek() {
            None => return Ok(()),
            Some(b'{') => self.message()?,
            Some(b'[') => self.batch()?,
            Some(_) => {
                self.scanner.value(Repeats::Ignored)?;
                self.odd(Code::NotAMessage, "neither an object nor an array");
            }
        }
        self.scanner.end()
    }

    fn batch(&mut self) -> Result<(), Box<Fault>> {
        let mut more = self.scanner.enter_array()?;
        if !more {
            self.odd(Code::NotAMessage, "an empty batch");
        }
        while more {
            if self.scanner.peek() == Some(b'{') {
                self.message()?;
            } else {
                self.scanner.value(Repeats::Ignored)?;
                self.odd(Code::NotAMessage, "a message of the batch is not an object");
            }
            more = self.scanner.next_element()?;
        }
        Ok(())
    }

    fn message(&mut self) -> Result<(), Box<Fault>> {
        let mut envelope = Envelope::default();
        let mut next = self.scanner.enter_object(Repeats::Found)?;
        while let Some(key) = next {
            match &*self.scanner.spelled(key) {
                "result" => (envelope.result, envelope.is_error) = self.result()?,
                "id" => envelope.id = Some(self.scanner.value(Repeats::Ignored)?),
                "jsonrpc" => envelope.jsonrpc = Some(self.scanner.value(Repeats::Ignored)?),
                other => {
                    envelope.method |= other == "method";
                    envelope.error |= other == "error";
                    self.scanner.value(Repeats::Ignored)?;
                }
            }
            next = self.scanner.next_key(Repeats::Found)?;
        }
        self.note_finding();
        self.understand(&envelope);
        Ok(())
    }

    /// Steps over a result. Tells its text and whether it says `isError: true`.
    fn result(&mut self) -> Result<(Option<&'a str>, bool), Box<Fault>> {
        if self.scanner.peek() != Some(b'{') {
            return Ok((Some(self.scanner.value(Repeats::Ignored)?), false));
        }
        let start = self.scanner.position();
        let mut is_error = false;
        let mut next = self.scanner.enter_object(Repeats::Ignored)?;
        while let Some(key) = next {
            let value = self.scanner.value(Repeats::Ignored)?;
            is_error |= value == "true" && self.scanner.spelled(key) == "isError";
            next = self.scanner.next_key(Repeats::Ignored)?;
        }
        Ok((Some(self.scanner.since(start)), is_error))
    }

    fn understand(&mut self, envelope: &Envelope<'a>) {
        let &Envelope { jsonrpc, id, method, result, is_error, error } = envelope;
        if jsonrpc != Some("\"2.0\"") {
            self.odd(Code::NotAMessage, "no `jsonrpc` that is \"2.0\"");
        }
        match (method, result, error) {
            (true, None, false) => return,
            (false, None, false) => return self.odd(Code::NotAMessage, "neither `method` nor `result` nor `error`"),
            (false, Some(_), false) | (false, None, true) => {}
            (true, Some(_), _) => self.odd(Code::MixedMessage, "`method` stands beside `result`"),
            (true, None, true) => self.odd(Code::MixedMessage, "`method` stands beside `error`"),
            (false, Some(_), true) => self.odd(Code::MixedMessage, "`result` stands beside `error`"),
        }
        match id.map(|raw| (raw, Id::read(raw))) {
            Some((_, Some(id))) => self.answers.push(ServerAnswer { key: id.key, is_error: is_error || error, result }),
            // JSON-RPC's own form of an error about a request whose id could not be read.
            Some(("null", None)) if error => {}
            Some((_, None)) => self.odd(Code::BadId, "an answer whose id is neither a string nor a whole number"),
            None => self.odd(Code::NotAMessage, "an answer without an id"),
        }
    }

    /// Keeps the first oddity.
    fn odd(&mut self, code: Code, detail: impl Into<String>) {
        self.oddity.get_or_insert_with(|| (code, detail.into()));
    }

    fn note_finding(&mut self) {
        let Some(finding) = self.scanner.take_finding() else { return };
        let (code, detail) = self.scanner.tell(finding);
        self.odd(code, detail);
    }
}
