//! `callgate demo`: the main job in a temporary home. Relay and daemon are real processes of this binary, and every line
//! printed about a call is read back from the journal.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use callgate_core::entry::Kind;
use callgate_core::settle::Filing;
use callgate_journal::{Content, Filter, Verification};
use serde_json::{Value, json};

use super::log;
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::{launch, output};

pub(super) fn show() -> Outcome {
    let folder = tempfile::Builder::new().prefix("callgate-demo-").tempdir();
    let folder = folder.map_err(|error| Failure::environment(format!("cannot make a temporary folder: {error}")))?;
    let environment = Environment { callgate_home: Some(folder.path().to_owned()), ..Environment::default() };
    let home = Home::find(&environment)?;
    let shown = scenes(folder.path(), &home);
    // Whatever came of it, the demo leaves no daemon behind.
    let stopped = callgate(folder.path(), &["daemon", "stop"]);
    shown?;
    stopped?;
    Ok(Exit::Done)
}

fn scenes(folder: &Path, home: &Home) -> Result<(), Failure> {
    say("a client starts `callgate run --server notebook -- …` where it had the bare server")?;
    // A daemon that compiles its plugins for the first time is waited for longer here than by a call.
    callgate(folder, &["daemon", "start"])?;
    let mut client = Client::start(folder)?;
    client.ask(
        "initialize",
        &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "demo" } }),
    )?;
    client.tell("notifications/initialized")?;
    let tools = client.ask("tools/list", &json!({}))?;
    expect(tools["result"]["tools"].as_array().map(Vec::len) == Some(2), "the server's two tools are listed")?;

    say("the agent writes a note: no rule names the tool, so the call goes through")?;
    let written = client.call("write_note", &json!({ "text": "call the bank" }))?;
    expect(written["result"]["isError"].is_null(), "the allowed call is answered by the server")?;
    show_newest(home, Filing::Allowed)?;

    say("meanwhile, in a terminal: callgate policy deny write_note")?;
    callgate(folder, &["policy", "deny", "write_note"])?;
    say("the agent tries again, in the same session")?;
    let refused = client.call("write_note", &json!({ "text": "rob the bank" }))?;
    expect(refused["result"]["isError"] == true, "the denied call is refused")?;
    show_newest(home, Filing::Denied)?;
    say(&format!("the agent is told: {}", refused["result"]["content"][0]["text"].as_str().unwrap_or_default()))?;

    say("reading is still allowed, and shows that the denied call never reached the server")?;
    let notes = client.call("read_notes", &json!({}))?;
    expect(notes["result"]["content"][0]["text"] == "buy milk; call the bank", "the server has the first note only")?;
    show_newest(home, Filing::Allowed)?;

    say("callgate policy remove write_note, and the tool works again")?;
    callgate(folder, &["policy", "remove", "write_note"])?;
    let written = client.call("write_note", &json!({ "text": "water the plants" }))?;
    expect(written["result"]["isError"].is_null(), "the call is allowed again")?;
    show_newest(home, Filing::Allowed)?;
    client.end()?;

    say("callgate verify")?;
    callgate(folder, &["daemon", "stop"])?;
    match callgate_journal::verify(&home.database(), Some(&home.install_marker()), None) {
        Verification::Sound(sound) => output::line(&format!("    {}; head {}", sound.claim, sound.head.chain)),
        broken @ (Verification::Broken { .. } | Verification::Unverifiable { .. }) => {
            Err(off(&format!("the journal verifies, but it gave {broken:?}")))
        }
    }
}

fn say(text: &str) -> Result<(), Failure> {
    output::line(&format!("\n# {text}"))
}

fn expect(holds: bool, what: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(off(what)) }
}

fn off(what: &str) -> Failure {
    Failure { exit: Exit::No, message: format!("the demo is off: expected that {what}"), hint: None }
}

/// Prints the newest decision as the journal has it, and checks what it says.
fn show_newest(home: &Home, decision: Filing) -> Result<(), Failure> {
    let filter = Filter { kinds: Some(vec![Kind::CallDecision]), ..Filter::default() };
    let reader = log::open(home)?;
    let after = reader.after_newest(1, &filter).map_err(|error| log::unreadable(&error))?;
    let page = reader.page(after, &filter, 1).map_err(|error| log::unreadable(&error))?;
    let entry = page.entries.first().ok_or_else(|| off("the decision is in the journal"))?;
    output::line(&format!("    {}", log::text(entry)))?;
    match &entry.content {
        Content::Decision(view) => expect(view.body.decision == decision, "the journal says what the client saw"),
        _ => Err(off("the entry is a decision")),
    }
}

/// Runs a command of this binary in the demo's home.
fn callgate(folder: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let command = arguments.join(" ");
    let output = program(folder)?
        .args(arguments)
        .output()
        .map_err(|error| Failure::environment(format!("cannot run callgate {command}: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(off(&format!("callgate {command} succeeds, but: {}", said.trim())))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the demo plays the client and the person: it starts this binary as they do"
)]
fn program(folder: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(launch::this_program()?);
    command.env("CALLGATE_HOME", folder);
    Ok(command)
}

/// The client's side of one session.
struct Client {
    relay: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    next_id: u64,
}

impl Client {
    fn start(folder: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::environment(format!("cannot start the relay: {error}"));
        let server = launch::this_program()?;
        let mut relay = program(folder)?
            .args(["run", "--server", "notebook", "--"])
            .arg(server)
            .arg("demo-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(requests), Some(answers)) = (relay.stdin.take(), relay.stdout.take()) else {
            return Err(Failure::internal("the relay has no pipes"));
        };
        Ok(Self { relay, requests, answers: BufReader::new(answers), next_id: 1 })
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| off(&format!("the relay answers, but {error}")))?;
        let answer: Value = serde_json::from_str(&line).map_err(|_| off("the relay answers JSON"))?;
        expect(answer["id"] == id, "the answer is to the request")?;
        Ok(answer)
    }

    fn tell(&mut self, method: &str) -> Result<(), Failure> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method }))
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        writeln!(self.requests, "{message}").map_err(|error| off(&format!("the relay reads, but {error}")))
    }

    fn end(self) -> Result<(), Failure> {
        let Self { mut relay, requests, .. } = self;
        drop(requests);
        let status = relay.wait().map_err(|error| off(&format!("the relay ends, but {error}")))?;
        expect(status.success(), "the relay ends when its client does, with its server's exit code")
    }
}
