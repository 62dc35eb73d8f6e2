//! Official clients and published servers through the gate, message by message beside a direct connection. Needs
//! `CALLGATE_PEERS`.
//!
//! A tap stands in front of the server in both runs, and one between client and gate in the relayed run. In the relayed
//! run what the two taps saw is compared byte for byte; across the runs, what the client made of it is compared line by
//! line, and what went over the wire message by message, less what differs between any two runs: see [`comparable`].

mod clients;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use callgate_tests::command::Finished;
use callgate_tests::home::Home;
use callgate_tests::peer::Peers;
use callgate_tests::program;
use callgate_tests::relay::{self, Relay};
use callgate_tests::session::contains;
use serde_json::{Value, json};

use crate::skipped;
use crate::traps::by_kind;

pub(crate) fn peers() -> Option<Peers> {
    let peers = Peers::find();
    if peers.is_none() {
        skipped("peers", "CALLGATE_PEERS is not set; tests/peers/install FOLDER fills one");
    }
    peers
}

/// What one run left: the client's transcript and, by tap, the bytes each way.
struct Run {
    transcript: Vec<Value>,
    taps: PathBuf,
}

impl Run {
    fn of(client: &mut Command, server: &[OsString], home: &Home) -> Self {
        let finished = Finished::of(client.args(server).env("CALLGATE_HOME", home.path()));
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert!(finished.stdout.lines().count() > 15, "{}\n{}", finished.stdout, finished.stderr);
        Self { transcript: finished.json_lines(), taps: home.path().to_owned() }
    }

    fn bytes(&self, tap: &str) -> Vec<u8> {
        relay::recorded(&self.taps.join(tap))
    }
}

fn tapped(home: &Home, name: &str, command: &[OsString]) -> Vec<OsString> {
    [program::tap().into_os_string(), home.path().join(name).into()]
        .into_iter()
        .chain(command.iter().cloned())
        .collect()
}

/// Client → server.
fn direct(client: &mut Command, server: &[OsString]) -> (Home, Run) {
    let home = Home::new();
    let run = Run::of(client, &tapped(&home, "server", server), &home);
    (home, run)
}

/// Client → tap → gate → tap → server.
fn relayed(client: &mut Command, server: &[OsString], rules: &[&[&str]]) -> (Home, Run) {
    let home = Home::new();
    for rule in rules {
        let _ = home.ok(rule);
    }
    let gate = home.relay("peer").command_line(tapped(&home, "server", server));
    let run = Run::of(client, &tapped(&home, "client", &gate), &home);
    (home, run)
}

/// Everything passes: the same bytes on both sides of the gate, the same messages and the same transcript as without it.
#[track_caller]
fn passes_unchanged(mut client: impl FnMut() -> Command, server: &[OsString]) {
    let (_direct_home, direct) = direct(&mut client(), server);
    took_place(&direct.transcript);
    let (home, relayed) = relayed(&mut client(), server, &[]);
    same_bytes(&relayed, &[]);
    for (direct, relayed) in direct.transcript.iter().zip(&relayed.transcript) {
        assert_eq!(direct, relayed);
    }
    assert_eq!(direct.transcript.len(), relayed.transcript.len());
    for direction in ["server.in", "server.out"] {
        assert_eq!(comparable(&direct.bytes(direction)), comparable(&relayed.bytes(direction)), "{direction}");
    }
    // Every call of the scenario was decided, and allowed.
    let calls =
        messages(&relayed.bytes("server.in")).iter().filter(|message| message["method"] == "tools/call").count();
    let decisions = home.decisions();
    assert!(calls > 8 && decisions.len() == calls, "{calls} calls, {} decisions", decisions.len());
    assert!(decisions.iter().all(|decision| decision["decision"] == "allowed"));
    let anomalies: Vec<_> =
        home.entries().into_iter().filter(|entry| entry.kind == "anomaly").map(|entry| entry.body).collect();
    assert!(anomalies.is_empty(), "{anomalies:?}");
}

/// One tool is denied: all but its call is the same, and the official client takes the refusal for a tool's failure.
#[track_caller]
fn denied_alone_differs(mut client: impl FnMut() -> Command, server: &[OsString], tool: &str, modern: bool) {
    let (_direct_home, direct) = direct(&mut client(), server);
    took_place(&direct.transcript);
    let (home, relayed) = relayed(&mut client(), server, &[&["policy", "deny", tool]]);
    same_bytes(&relayed, &[tool]);
    for (direct, relayed) in direct.transcript.iter().zip(&relayed.transcript) {
        if direct["step"] == "denied by a rule" {
            let result = &relayed["result"];
            assert_eq!(result["isError"], true, "{relayed}");
            let decision = &result["_meta"]["dev.callgate/decision"];
            assert_eq!((&decision["code"], &decision["plugin"]), (&json!("rules/deny"), &json!("rules")), "{relayed}");
        } else {
            assert_eq!(direct, relayed);
        }
    }
    let refusals: Vec<Value> = messages(&relayed.bytes("client.out")).into_iter().filter(is_refusal).collect();
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0]["result"].get("resultType"), modern.then_some(&json!("complete")));
    assert!(!messages(&relayed.bytes("server.in")).iter().any(|message| message["params"]["name"] == tool));
    let denied: Vec<_> = home.decisions().into_iter().filter(|decision| decision["decision"] == "denied").collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(denied[0]["tool"], tool);
}

/// What the scenario is for did happen on the direct connection: the same failure on both sides would compare as equal.
#[track_caller]
fn took_place(transcript: &[Value]) {
    for line in transcript {
        let step = line["step"].as_str().unwrap();
        let failed = line.get("error").is_some() || line["result"]["isError"] == true;
        match step {
            "raise" => assert_eq!(line["result"]["isError"], true, "{line}"),
            // Some servers give a result that is an error, some an error.
            "unknown tool" => assert!(failed, "{line}"),
            // One client throws, the other one returns.
            "cancel" => assert!(
                line["result"]["cancelled"] == true || contains(line["error"].to_string().as_bytes(), b"on purpose"),
                "{line}"
            ),
            _ => assert!(!failed && !line["result"].is_null(), "{line}"),
        }
    }
    for asked in ["elicitation", "sampling"] {
        let line = transcript.iter().find(|line| line["step"] == asked).unwrap();
        let events: Vec<_> = line["events"].as_array().unwrap().iter().map(|event| event[0].clone()).collect();
        assert_eq!(events, [asked], "the client was not asked: {line}");
    }
}

/// What passed the gate is what came to it, byte for byte, less refused calls and their refusals: calls in their order,
/// and the rest of what the client sent in its own, because that does not wait for decisions.
#[track_caller]
fn same_bytes(run: &Run, refused_tools: &[&str]) {
    let is_refused = |line: &[u8]| {
        refused_tools
            .iter()
            .any(|tool| contains(line, b"tools/call") && contains(line, json!(tool).to_string().as_bytes()))
    };
    let keep = |bytes: Vec<u8>, drop: &dyn Fn(&[u8]) -> bool| -> Vec<u8> {
        bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| !drop(line)).flatten().copied().collect()
    };
    let (sent, arrived) = (by_kind(&keep(run.bytes("client.in"), &is_refused)), by_kind(&run.bytes("server.in")));
    assert!(sent == arrived, "client to server: {}", first_difference(sent.as_bytes(), arrived.as_bytes()));
    let (answered, got) =
        (run.bytes("server.out"), keep(run.bytes("client.out"), &|line| is_refusal(&relay::json(line))));
    // A server may still speak when its client has gone; all that the client got is what the server said first.
    let (first, rest) = answered.split_at(got.len().min(answered.len()));
    assert!(first == got, "server to client: {}", first_difference(&got, &answered));
    let late: Vec<Value> = messages(rest);
    assert!(late.iter().all(|message| message["method"] == "notifications/progress"), "{late:?}");
}

fn first_difference(left: &[u8], right: &[u8]) -> String {
    let at = left.iter().zip(right).position(|(left, right)| left != right).unwrap_or(left.len().min(right.len()));
    let around = |bytes: &[u8]| {
        String::from_utf8_lossy(&bytes[at.saturating_sub(80).min(bytes.len())..(at + 80).min(bytes.len())]).into_owned()
    };
    format!("at byte {at}: {} | {}", around(left), around(right))
}

fn is_refusal(message: &Value) -> bool {
    message["result"]["_meta"].get("dev.callgate/decision").is_some()
}

fn messages(bytes: &[u8]) -> Vec<Value> {
    bytes.split_inclusive(|&byte| byte == b'\n').map(relay::json).collect()
}

/// What two runs have in common: the exact lines, in any order, because both ends send of their own accord; without
/// progress messages, of which there are as many as time allowed; and with what servers make up at random masked.
fn comparable(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut lines: Vec<String> = lines
        .map(|line| masked(std::str::from_utf8(line).expect("frames are UTF-8")))
        .filter(|line| !line.contains("notifications/progress"))
        .collect();
    lines.sort();
    lines
}

/// Masks the state that the Python server seals with a key of its own for every process.
fn masked(line: &str) -> String {
    let Some((before, rest)) = line.split_once(r#""requestState":""#) else { return line.to_owned() };
    let (_, after) = rest.split_once('"').expect("a string ends");
    format!(r#"{before}"requestState":"…"{after}"#)
}

#[test]
fn peers_typescript_client_with_server_everything_passes_unchanged() {
    let Some(peers) = peers() else { return };
    for sdk in ["v1", "legacy", "auto"] {
        passes_unchanged(|| peers.typescript_client(sdk, "everything"), &peers.everything());
    }
}

#[test]
fn peers_typescript_client_with_both_own_servers_passes_unchanged() {
    let Some(peers) = peers() else { return };
    for sdk in ["legacy", "modern"] {
        passes_unchanged(|| peers.typescript_client(sdk, "peer"), &peers.typescript_server());
        passes_unchanged(|| peers.typescript_client(sdk, "peer"), &peers.python_server());
    }
}

#[test]
fn peers_python_client_with_a_python_server_passes_unchanged() {
    let Some(peers) = peers() else { return };
    for mode in ["legacy", "modern", "auto"] {
        passes_unchanged(|| peers.python_client(mode, "peer"), &peers.python_server());
    }
}

#[test]
fn peers_python_client_with_typescript_servers_passes_unchanged() {
    let Some(peers) = peers() else { return };
    passes_unchanged(|| peers.python_client("modern", "peer"), &peers.typescript_server());
    // It asks for the era first; the server's error to that passes as it is, or there would be no session.
    passes_unchanged(|| peers.python_client("auto", "everything"), &peers.everything());
}

#[test]
fn peers_a_denied_tool_is_all_that_differs_in_both_eras() {
    let Some(peers) = peers() else { return };
    denied_alone_differs(|| peers.typescript_client("v1", "everything"), &peers.everything(), "get-tiny-image", false);
    denied_alone_differs(|| peers.typescript_client("modern", "peer"), &peers.typescript_server(), "drop", true);
    denied_alone_differs(|| peers.python_client("legacy", "peer"), &peers.python_server(), "drop", false);
    denied_alone_differs(|| peers.python_client("modern", "peer"), &peers.python_server(), "drop", true);
}

#[test]
fn peers_a_client_that_closes_a_session_with_a_stubborn_server_kills_nobody_and_leaves_nobody() {
    let Some(peers) = peers() else { return };
    let home = Home::new();
    // The session is over soon: where there is no daemon yet it could be so before one has heard of it.
    let _ = home.ok(&["daemon", "start"]);
    // Neither the end of input nor SIGTERM ends it, nor what it started, which holds its pipes.
    let server = ["sh", "-c", r#"trap '' TERM; sleep 1000 & exec "$FIXTURE" --ignore-eof"#];
    let gate = home.relay("stubborn").command_line(server);
    let mut client = peers.node("close.mjs", &[]);
    client.args(gate).env("CALLGATE_HOME", home.path()).env("FIXTURE", program::fixture());
    let closed = Finished::of(&mut client).exits(0);
    assert_eq!(closed.json(), json!({ "server": "fixture", "signals": [] }), "the client lost its patience");
    assert_eq!(home.processes(), home.daemons(), "the relay has ended, and with it all that is the server's");
    let end = home.entry("the session's end", |entry| entry.kind == "session.end");
    assert_eq!(end.body["how"], "client-closed");
}

#[test]
fn peers_the_file_server_serves_and_is_guarded() {
    let Some(peers) = peers() else { return };
    let home = Home::new();
    let folder = home.path().join("files");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "text").unwrap();
    let mut relay = home.relay("fs").start(peers.filesystem(&folder));
    open(&mut relay);
    let path = |name: &str| json!({ "path": folder.join(name), "content": "new" }).to_string();
    let read = relay.call("1", "read_text_file", &json!({ "path": folder.join("a.txt") }).to_string());
    assert_eq!(read["result"]["content"][0]["text"], "text", "{read}");
    assert_eq!(relay.call("2", "write_file", &path("b.txt"))["result"]["isError"], Value::Null);
    // Refused from the next call on, no restart.
    let _ = home.ok(&["policy", "deny", "write_file"]);
    assert_eq!(relay.call("3", "write_file", &path("c.txt"))["result"]["isError"], true);
    let _ = home.ok(&["policy", "remove", "write_file"]);
    let _ = home.ok(&["policy", "allow", "write_file", "--server", "fs"]);
    assert_eq!(relay.call("4", "write_file", &path("d.txt"))["result"]["isError"], Value::Null);
    assert_eq!(relay.close().code(), 0);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["a.txt", "b.txt", "d.txt"]);
}

#[test]
fn peers_a_server_of_the_first_python_sdk_is_never_handed_an_unterminated_call() {
    let Some(peers) = peers() else { return };
    let (direct_tables, relayed_tables) =
        (tables_after_an_unterminated_call(&peers, false), tables_after_an_unterminated_call(&peers, true));
    assert!(direct_tables, "this server no longer runs an unterminated last line: the test shows nothing any more");
    assert!(!relayed_tables, "the unterminated call was run");
}

/// Opens a session with the `SQLite` server, sends it a `create_table` without a line feed, closes, and looks.
fn tables_after_an_unterminated_call(peers: &Peers, gated: bool) -> bool {
    let home = Home::new();
    let database = home.path().join("peer.db");
    let server = peers.sqlite_server(&database);
    let mut relay = if gated {
        home.relay("db").start(&server)
    } else {
        Relay::of(Command::new(&server[0]).args(&server[1..]).env("CALLGATE_HOME", home.path()))
    };
    open(&mut relay);
    relay.send(callgate_tests::frame::call("1", "create_table", r#"{"query":"CREATE TABLE ghost (x)"}"#));
    relay.close();
    contains(&std::fs::read(&database).unwrap_or_default(), b"CREATE TABLE ghost")
}

/// The handshake of 2025-11-25.
fn open(relay: &mut Relay) {
    relay.send_line(
        r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}"#,
    );
    relay.answer(&json!("open"));
    relay.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
}
