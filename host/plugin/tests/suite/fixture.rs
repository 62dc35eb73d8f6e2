//! Plugins made of WebAssembly text, so that a test can hold one that no toolchain would build.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use callgate_core::call::{Annotations, Call, Listed};
use callgate_core::digest::Digest;
use callgate_core::identity::{Agent, Attribute, Caller, Server, SessionId};
use callgate_core::permit::Binding;
use callgate_core::verdict::{Answer, Denial, Failure, Question, Retry, Rule, Verdict};
use callgate_plugin::{Configured, Engine, Life, Limits, LogBatch, LogLine, LogSink};

/// Where a guest's answer to `configure` lies in its memory. All zeros: it takes the settings without a warning.
pub(crate) const CONFIGURED: usize = 512;
/// Where its answer to `decide` lies.
pub(crate) const DECISION: usize = 1024;
/// How long a `decision` is, before the texts it points to.
pub(crate) const DECISION_BYTES: usize = 76;

/// What `configure` and `decide` do by default: give the answer that lies in memory.
const ANSWER_CONFIGURE: &str = "(i32.const 512)";
pub(crate) const ANSWER_DECIDE: &str = "(i32.const 1024)";

/// What a plugin usually exports beside `lifecycle`.
const CALL_POLICY: &str = r#"(export "callgate:policy/call-policy@0.1.0" (instance $call-policy))"#;

/// A plugin to be built: what goes into the holes of `guest.wat`.
#[derive(Clone)]
pub(crate) struct Guest {
    /// The body of `configure`; `$text` and `$length` are the settings.
    pub(crate) configure: String,
    /// The body of `decide`; `$call` is the record.
    pub(crate) decide: String,
    /// More fields of the core module.
    pub(crate) fields: String,
    /// What lies at [`DECISION`].
    pub(crate) decision: Vec<u8>,
    /// What lies at [`CONFIGURED`].
    pub(crate) configured: Vec<u8>,
    /// What the component exports beside `lifecycle`.
    pub(crate) exports: String,
    /// Its manifest, if it has one.
    pub(crate) manifest: Option<String>,
    /// A last change to the whole text.
    pub(crate) alter: fn(String) -> String,
}

impl Guest {
    /// One that gives this answer to every call.
    pub(crate) fn answering(answer: &Answer) -> Self {
        Self {
            configure: ANSWER_CONFIGURE.to_owned(),
            decide: ANSWER_DECIDE.to_owned(),
            fields: String::new(),
            decision: decision(answer),
            configured: vec![0; 12],
            exports: CALL_POLICY.to_owned(),
            manifest: None,
            alter: |text| text,
        }
    }

    /// One that does this instead of answering.
    pub(crate) fn deciding(body: &str) -> Self {
        Self { decide: body.to_owned(), ..Self::answering(&allow()) }
    }

    /// One that does this instead of taking its settings.
    pub(crate) fn configuring(body: &str) -> Self {
        Self { configure: body.to_owned(), ..Self::answering(&allow()) }
    }

    /// The same, claiming that its answers are the same whatever the arguments.
    pub(crate) fn for_any_arguments(mut self) -> Self {
        self.decision[72] = 1;
        self
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let manifest = self.manifest.as_deref().map_or_else(String::new, |manifest| {
            format!(r#"(@custom "callgate:manifest" "{}")"#, bytes(manifest.as_bytes()))
        });
        let holes = [
            ("configured", &bytes(&self.configured)),
            ("decision", &bytes(&self.decision)),
            ("configure", &self.configure),
            ("decide", &self.decide),
            ("fields", &self.fields),
            ("exports", &self.exports),
            ("manifest", &manifest),
        ];
        let text = holes.into_iter().fold(include_str!("guest.wat").to_owned(), |text, (hole, content)| {
            text.replace(&["{{", hole, "}}"].concat(), content)
        });
        wat::parse_str((self.alter)(text)).unwrap()
    }
}

/// Denies with a code that tells how often this very instance has been asked, `a` for the first time; asked for a tool whose
/// name begins with `t`, it traps.
pub(crate) fn counting() -> Guest {
    let body = "(if (i32.eq (i32.load8_u (i32.load offset=60 (local.get $call))) (i32.const 116)) (then unreachable))
        (i32.store8 (i32.load (i32.const 1028)) (i32.add (i32.load8_u (i32.load (i32.const 1028))) (i32.const 1)))
        (i32.const 1024)";
    Guest { decision: decision(&deny("`")), ..Guest::deciding(body) }
}

/// The code of a denial.
pub(crate) fn code(outcome: Result<Answer, Failure>) -> String {
    match outcome.unwrap().verdict {
        Verdict::Deny(denial) => denial.code,
        other => panic!("{other:?}"),
    }
}

fn bytes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "\\{byte:02x}").unwrap();
        text
    })
}

/// An answer as a guest's memory holds it, at [`DECISION`].
pub(crate) fn decision(answer: &Answer) -> Vec<u8> {
    let mut memory = Memory { at: DECISION, bytes: vec![0; DECISION_BYTES] };
    match &answer.verdict {
        Verdict::Deny(Denial { code, message, retry }) => {
            memory.bytes[0] = 0;
            memory.text(4, code);
            memory.text(12, message);
            memory.bytes[20] = match retry {
                Retry::Never => 0,
                Retry::Changed => 1,
                Retry::Later => 2,
            };
        }
        Verdict::Ask(Question { code, message, presence }) => {
            memory.bytes[0] = 1;
            memory.text(4, code);
            memory.text(12, message);
            memory.bytes[20] = (*presence).into();
        }
        Verdict::Allow => memory.bytes[0] = 2,
        Verdict::Abstain => memory.bytes[0] = 3,
    }
    if let Some(Rule { path, policy, text }) = &answer.rule {
        memory.bytes[24] = 1;
        memory.text(28, path);
        if let Some(policy) = policy {
            memory.bytes[36] = 1;
            memory.text(40, policy);
        }
        memory.text(48, text);
    }
    let notes = memory.room(8 * answer.notes.len());
    memory.point(56, notes, answer.notes.len());
    for (index, note) in answer.notes.iter().enumerate() {
        memory.text(notes - DECISION + 8 * index, note);
    }
    memory.bytes
}

/// The same with charges, each of zeros, which is well-formed.
pub(crate) fn decision_with_charges(answer: &Answer, charges: usize) -> Vec<u8> {
    let mut memory = Memory { at: DECISION, bytes: decision(answer) };
    let at = memory.room(96 * charges);
    memory.point(64, at, charges);
    memory.bytes
}

/// A piece of a guest's memory, from `at` on.
pub(crate) struct Memory {
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Memory {
    /// Room behind everything so far, aligned to 8; where it begins.
    pub(crate) fn room(&mut self, size: usize) -> usize {
        let begin = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(begin + size, 0);
        self.at + begin
    }

    /// A text somewhere, and the pointer to it at `offset`.
    pub(crate) fn text(&mut self, offset: usize, text: &str) {
        let at = self.room(text.len());
        self.bytes[at - self.at..].copy_from_slice(text.as_bytes());
        self.point(offset, at, text.len());
    }

    pub(crate) fn point(&mut self, offset: usize, at: usize, length: usize) {
        for (index, value) in [at, length].into_iter().enumerate() {
            let value = u32::try_from(value).unwrap().to_le_bytes();
            self.bytes[offset + 4 * index..][..4].copy_from_slice(&value);
        }
    }
}

pub(crate) fn allow() -> Answer {
    Answer { verdict: Verdict::Allow, rule: None, notes: Vec::new(), charges: Vec::new() }
}

pub(crate) fn deny(code: &str) -> Answer {
    let denial = Denial { code: code.to_owned(), message: "not today".to_owned(), retry: Retry::Later };
    Answer { verdict: Verdict::Deny(denial), ..allow() }
}

/// Keeps what plugins write.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<Written>>);

/// One batch: the instance, the tool of the call, the lines, how many were dropped.
pub(crate) type Written = (String, Option<String>, Vec<LogLine>, u64);

impl LogSink for Log {
    fn take(&self, batch: LogBatch<'_>) {
        let tool = batch.call.map(|call| call.tool.clone());
        self.0.lock().unwrap().push((batch.plugin.to_owned(), tool, batch.lines.to_vec(), batch.dropped));
    }
}

impl Log {
    pub(crate) fn written(&self) -> Vec<Written> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An engine without a cache.
pub(crate) fn engine(limits: Limits) -> Engine {
    Engine::new(limits, None, Arc::new(Log::default())).unwrap()
}

pub(crate) const KEPT: Life = Life::Kept { instances: 2 };

/// A guest that is ready to be asked, kept.
pub(crate) fn ready(engine: &Engine, guest: &Guest) -> Configured {
    engine.load(&guest.build()).unwrap().configure("guard", "{}", KEPT).unwrap()
}

/// A call of an unknown agent.
pub(crate) fn call(tool: &str) -> Call {
    Call {
        binding: Binding { connection: 1, sequence: 1, frame: Digest::of(b"frame") },
        session: SessionId::from_random([1; 16]),
        request_id: "1".to_owned(),
        caller: Arc::new(caller(None, "fs")),
        tool: tool.to_owned(),
        listed: None,
        arguments: "{}".into(),
    }
}

/// A call with everything in it that a call can have.
pub(crate) fn full_call() -> Call {
    let annotations =
        Annotations { read_only: Some(true), destructive: Some(false), idempotent: None, open_world: Some(true) };
    let attribute = |name: &str, value: &str| Attribute { name: name.to_owned(), value: value.to_owned() };
    let caller = Caller {
        client: "inspector".to_owned(),
        server: Server { id: "srv_1".to_owned(), name: "fs".parse().unwrap() },
        attributes: vec![attribute("transport", "stdio"), attribute("protocol.version", "2025-11-25")],
        ..caller(Some("cursor"), "fs")
    };
    Call {
        caller: Arc::new(caller),
        listed: Some(Arc::new(Listed { annotations: Some(annotations), definition: Digest::of(b"definition") })),
        arguments: r#"{"path":"/tmp/ä"}"#.into(),
        ..call("write_file")
    }
}

pub(crate) fn caller(agent: Option<&str>, server: &str) -> Caller {
    let agent = agent.map(|name| Agent {
        id: format!("agt_{name}"),
        name: name.parse().unwrap(),
        evidence: "executable".to_owned(),
    });
    let server = Server { id: String::new(), name: server.parse().unwrap() };
    Caller { agent, client: String::new(), server, attributes: Vec::new() }
}
