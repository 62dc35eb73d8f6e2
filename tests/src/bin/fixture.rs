//! A scriptable MCP server: says what it was told, misbehaves on request, and keeps every byte it received.
//!
//! ```text
//! fixture [--record FILE] [--dump FILE] [--stderr TEXT] [--ignore-eof] [--farewell TEXT] [--idle]
//! ```
//!
//! `--record` appends what was read, before anything is made of it. `--dump` writes arguments, folder and environment.
//! `--ignore-eof` stays alive when stdin ends, `--farewell` writes a line then. `--idle` only waits to be killed.
//! What it does with a call is up to the tool called; see [`Server::call`].

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, thread};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const READ_BYTES: usize = 64 * 1024;

#[derive(Default)]
struct Options {
    record: Option<File>,
    dump: Option<File>,
    stderr: Option<OsString>,
    ignore_eof: bool,
    farewell: Option<OsString>,
    idle: bool,
}

fn main() -> ExitCode {
    let options = options();
    if options.idle {
        wait_forever();
    }
    match serve(options) {
        Ok(()) => ExitCode::SUCCESS,
        // The client is gone: so are the answers.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fixture: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Options {
    let mut options = Options::default();
    let mut arguments = env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("an option has a value");
        match argument.to_str() {
            Some("--record") => options.record = Some(appendable(&value())),
            Some("--dump") => options.dump = Some(appendable(&value())),
            Some("--stderr") => options.stderr = Some(value()),
            Some("--ignore-eof") => options.ignore_eof = true,
            Some("--farewell") => options.farewell = Some(value()),
            Some("--idle") => options.idle = true,
            // What a test passes through to see it in the dump.
            _ => {}
        }
    }
    options
}

fn appendable(path: &OsString) -> File {
    OpenOptions::new().create(true).append(true).open(path).expect("the file can be written")
}

fn wait_forever() -> ! {
    loop {
        thread::park();
    }
}

fn serve(mut options: Options) -> io::Result<()> {
    if let Some(dump) = &mut options.dump {
        dump.write_all(&surroundings()?)?;
    }
    if let Some(text) = &options.stderr {
        io::stderr().write_all(text.as_bytes())?;
    }
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let server = Server { stdout: Arc::new(Mutex::new(stdout)), late: Arc::default() };
    let mut pending = Vec::new();
    let mut chunk = vec![0; READ_BYTES];
    let mut stdin = io::stdin().lock();
    loop {
        let read = stdin.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        if let Some(record) = &mut options.record {
            record.write_all(&chunk[..read])?;
        }
        pending.extend_from_slice(&chunk[..read]);
        let mut taken = 0;
        while let Some(length) = pending[taken..].iter().position(|&byte| byte == b'\n') {
            server.line(&pending[taken..taken + length])?;
            taken += length + 1;
        }
        pending.drain(..taken);
    }
    if let Some(text) = options.farewell {
        server.write(&[text.as_bytes(), b"\n"].concat())?;
    }
    if options.ignore_eof {
        wait_forever();
    }
    Ok(())
}

/// Arguments, folder and environment, each part ended by a NUL, the three kinds by a second one.
fn surroundings() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for argument in env::args_os() {
        bytes.extend_from_slice(argument.as_bytes());
        bytes.push(0);
    }
    bytes.push(0);
    bytes.extend_from_slice(env::current_dir()?.as_os_str().as_bytes());
    bytes.extend_from_slice(&[0, 0]);
    for (name, value) in env::vars_os() {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "inputResponses")]
    input_responses: Option<Value>,
}

#[derive(Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

#[derive(Clone)]
struct Server {
    /// Past the standard library's line buffer, so that one answer is one write.
    stdout: Arc<Mutex<File>>,
    /// Answers that wait for a `notifications/cancelled`.
    late: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Server {
    fn line(&self, line: &[u8]) -> io::Result<()> {
        // Like most servers, it reads what it can and ignores the rest.
        let Ok(message) = serde_json::from_slice::<Message>(line) else { return Ok(()) };
        let Some(method) = message.method else { return Ok(()) };
        let params = message.params.map_or("{}", RawValue::get);
        let Some(id) = message.id.map(RawValue::get) else {
            if method == "notifications/cancelled" {
                let late: Vec<_> = self.late.lock().unwrap().drain(..).collect();
                late.iter().try_for_each(|answer| self.write(answer))?;
            }
            return Ok(());
        };
        match method.as_ref() {
            "tools/call" => self.call(id, params),
            "ping" => self.result(id, "{}"),
            "tools/list" => self.result(id, &json!({ "tools": tools() }).to_string()),
            "initialize" => self.result(id, &initialized().to_string()),
            "server/discover" => self.result(id, &discovered().to_string()),
            _ => self.write(error(id, -32_601, "method not found").as_bytes()),
        }
    }

    /// Every tool there is.
    fn call(&self, id: &str, params: &str) -> io::Result<()> {
        let Ok(call) = serde_json::from_str::<Call>(params) else {
            return self.write(error(id, -32_602, "no such call").as_bytes());
        };
        let arguments = call.arguments.map_or("{}", RawValue::get);
        let given = || serde_json::from_str::<Value>(arguments).unwrap_or_default();
        let number = |name: &str| given()[name].as_u64().unwrap_or_default();
        match call.name.as_ref() {
            // Says `message` again, as the JSON text it was.
            "echo" => {
                let message = serde_json::from_str::<Echo>(arguments).map_or("null", |echo| echo.message.get());
                let quoted = if message.starts_with('"') { message.to_owned() } else { json!(message).to_string() };
                self.write(text(id, &quoted).as_bytes())
            }
            // What a rule denies in most tests.
            "drop" => self.write(text(id, r#""dropped""#).as_bytes()),
            // Answers after `ms`, out of order.
            "sleep" => {
                let (server, answer, ms) = (self.clone(), text(id, r#""slept""#), number("ms"));
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(ms));
                    server.write(answer.as_bytes())
                });
                Ok(())
            }
            // Answers with `bytes` of text.
            "big" => {
                let bytes = usize::try_from(number("bytes")).unwrap_or_default();
                self.write(text(id, &format!("\"{}\"", "x".repeat(bytes))).as_bytes())
            }
            // A tool that failed.
            "raise" => self.result(id, r#"{"content":[{"type":"text","text":"it failed"}],"isError":true}"#),
            // A JSON-RPC error.
            "error" => self.write(error(id, -32_000, "on purpose").as_bytes()),
            // Never answers.
            "never" => Ok(()),
            // Answers once the client has cancelled something.
            "late" => {
                self.late.lock().unwrap().push(text(id, r#""late""#).into_bytes());
                Ok(())
            }
            // Answers twice.
            "twice" => {
                let answer = text(id, r#""once""#);
                self.write(answer.as_bytes())?;
                self.write(answer.as_bytes())
            }
            // Answers to the id as a string.
            "alias" => self.write(text(&json!(id).to_string(), r#""alias""#).as_bytes()),
            // Answers to an id that nobody used, then to its own.
            "stranger" => {
                self.write(text("999999", r#""stranger""#).as_bytes())?;
                self.write(text(id, r#""own""#).as_bytes())
            }
            // Puts the id behind a large result.
            "id_last" => {
                let filling = "x".repeat(512 * 1024);
                let content = format!(r#"[{{"type":"text","text":"{filling}"}}]"#);
                self.write(format!("{{\"result\":{{\"content\":{content}}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n").as_bytes())
            }
            // Answers one byte a write.
            "trickle" => {
                let mut stdout = self.stdout.lock().unwrap();
                text(id, r#""trickled""#).as_bytes().iter().try_for_each(|byte| stdout.write_all(&[*byte]))
            }
            // Writes `text` and a line feed as they are, then answers.
            "raw" => {
                let line = format!("{}\n", given()["text"].as_str().unwrap_or_default());
                self.write(line.as_bytes())?;
                self.write(text(id, r#""raw""#).as_bytes())
            }
            // Tells `times` that its tools changed, then answers.
            "list_changed" => {
                for _ in 0..number("times") {
                    self.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n")?;
                }
                self.write(text(id, r#""changed""#).as_bytes())
            }
            // Answers, then writes `frames` notifications of `bytes` each while it goes on reading.
            "flood" => {
                self.write(text(id, r#""flooding""#).as_bytes())?;
                let (server, frames, bytes) = (self.clone(), number("frames"), number("bytes"));
                let data = "x".repeat(usize::try_from(bytes).unwrap_or_default());
                let params = json!({ "level": "info", "data": data });
                let frame = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
                thread::spawn(move || (0..frames).try_for_each(|_| server.write(format!("{frame}\n").as_bytes())));
                Ok(())
            }
            // Sends a request of its own, with the id and method given, then answers.
            "ask" => {
                let given = given();
                let request = json!({ "jsonrpc": "2.0", "id": given["id"], "method": given["method"], "params": {} });
                self.write(format!("{request}\n").as_bytes())?;
                self.write(text(id, r#""asked""#).as_bytes())
            }
            // Asks for input first, in the dialect of 2026-07-28.
            "confirm" if call.input_responses.is_none() => self.result(
                id,
                r#"{"resultType":"input_required","requestState":"s","inputRequests":{"sure":{"method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}}}"#,
            ),
            "confirm" => self.result(id, r#"{"resultType":"complete","content":[{"type":"text","text":"confirmed"}]}"#),
            // Goes without an answer.
            "exit" => std::process::exit(i32::try_from(number("code")).unwrap_or(1)),
            // Is killed by the named signal, without an answer.
            "die" => {
                let signal = format!("-{}", given()["signal"].as_str().unwrap_or("KILL"));
                Command::new("kill").args([signal, std::process::id().to_string()]).status()?;
                wait_forever()
            }
            // Starts a process that outlives nobody by itself, and tells its id.
            "grandchild" => {
                let child = Command::new(env::current_exe()?).arg("--idle").stdin(Stdio::null()).spawn()?;
                self.write(text(id, &format!("\"{}\"", child.id())).as_bytes())
            }
            // Kills the process `pid` and answers: what is not on disk by now never will be.
            "kill" => {
                Command::new("kill").args(["-KILL".to_owned(), number("pid").to_string()]).status()?;
                self.write(text(id, r#""killed""#).as_bytes())
            }
            unknown => self.write(error(id, -32_602, &format!("unknown tool {unknown:?}")).as_bytes()),
        }
    }

    fn result(&self, id: &str, result: &str) -> io::Result<()> {
        self.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").as_bytes())
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        self.stdout.lock().unwrap().write_all(line)
    }
}

fn text(id: &str, quoted: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":{quoted}}}]}}}}\n"
    )
}

fn error(id: &str, code: i64, message: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}\n", json!({ "code": code, "message": message }))
}

fn tools() -> Vec<Value> {
    let tool = |name: &str, read_only: bool| {
        json!({
            "name": name,
            "description": format!("{name} – “ünïcödé”"),
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": read_only },
        })
    };
    vec![tool("echo", true), tool("drop", false), tool("sleep", true)]
}

fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": "fixture", "version": "1" },
    })
}

fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "fixture", "version": "1" },
        "ttlMs": 0,
        "cacheScope": "private",
    })
}
