//! Real clients read the files that `callgate init` has rewritten, and reach their servers through it.

use callgate_tests::peer::Clients;

use super::*;
use crate::init::{Person, callgate, cursor};

/// The large clients; `None`, and said, where they were not installed.
fn large() -> Option<Clients> {
    let clients = peers()?.clients();
    if clients.is_none() {
        skipped("peers (codex, opencode)", "tests/peers/install --clients FOLDER installs them");
    }
    clients
}

fn words(command: &[OsString]) -> Vec<&str> {
    command.iter().map(|word| word.to_str().unwrap()).collect()
}

/// What stands in front of a server's own command, as its client shows it.
fn in_front(client: &str) -> String {
    format!("{} run --server everything --agent {client} -- node ", callgate())
}

/// Runs a client as this person, to its end.
#[track_caller]
fn run(person: &Person, command: &mut Command, arguments: &[&str]) -> String {
    person.runs(command.args(arguments).env("NO_COLOR", "1"));
    let finished = Finished::of(command).exits(0);
    format!("{}{}", finished.stdout, finished.stderr)
}

/// A session with the server has been opened through Callgate.
#[track_caller]
fn reached(person: &Person) {
    let _ = person
        .home
        .entry("a session", |entry| entry.kind == "session.start" && entry.body["server"]["name"] == "everything");
}

#[test]
fn peers_gemini_reads_its_file_and_connects() {
    let Some(peers) = peers() else { return };
    let person = Person::new();
    let everything = peers.everything();
    let (program, args) = everything.split_first().unwrap();
    let env = json!({ "CALLGATE_HOME": person.home.path() });
    let server = json!({ "command": program.to_str(), "args": words(args), "env": env, "timeout": 30_000 });
    person.has(".gemini/settings.json", &format!("// mine\n{}", cursor(&json!({ "everything": server }))));
    let project = person.path("project");
    person.has(".gemini/trustedFolders.json", &json!({ project.to_str().unwrap(): "TRUST_FOLDER" }).to_string());
    let _ = person.init(&["--write"]).exits(0);
    let listed = run(&person, &mut peers.gemini(), &["mcp", "list"]);
    assert!(listed.contains(&format!("everything: {}", in_front("gemini"))), "{listed}");
    assert!(listed.contains("Connected"), "{listed}");
    reached(&person);
}

/// With the server's command out of the file: the Inspector takes what follows `--` for its own options.
#[test]
fn peers_the_inspector_reads_an_entry_whose_secret_was_moved_out() {
    let Some(peers) = peers() else { return };
    let person = Person::with_store();
    let everything = peers.everything();
    let (program, args) = everything.split_first().unwrap();
    let env = json!({ "API_TOKEN": "canary-5f1e0a9b3c", "CALLGATE_HOME": person.home.path() });
    let file = person.has(
        ".cursor/mcp.json",
        &cursor(&json!({ "everything": { "command": program.to_str(), "args": words(args), "env": env } })),
    );
    let _ = person.init(&["--write", "--move-secrets"]).exits(0);
    assert!(!person.text(".cursor/mcp.json").contains("canary"), "{}", person.text(".cursor/mcp.json"));
    let config = ["--config", file.to_str().unwrap(), "--server", "everything"];
    let call = ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=hello"];
    let answer = run(&person, &mut peers.inspector(), &[&config[..], &call].concat());
    assert!(answer.contains("Echo: hello"), "{answer}");
    reached(&person);
    assert_eq!(person.home.decisions().len(), 1);
}

#[test]
fn peers_codex_reads_its_file() {
    let Some(clients) = large() else { return };
    let person = Person::new();
    person.has(
        ".codex/config.toml",
        "model = 'x' # mine\n\n[mcp_servers.everything]\ncommand = 'node'\nargs = ['a b.js', \"ä\"] # both\nstartup_timeout_sec = 20\n\n[mcp_servers.everything.env]\nA = '1'\n",
    );
    let _ = person.init(&["--write"]).exits(0);
    let mut codex = clients.codex();
    person.runs(codex.args(["mcp", "list", "--json"]));
    let listed = Finished::of(&mut codex).exits(0).json();
    assert_eq!((&listed[0]["name"], &listed[0]["startup_timeout_sec"]), (&json!("everything"), &json!(20.0)));
    let transport = &listed[0]["transport"];
    assert_eq!(transport["command"], callgate());
    let args = json!(["run", "--server", "everything", "--agent", "codex", "--", "node", "a b.js", "ä"]);
    assert_eq!((&transport["args"], &transport["env"]), (&args, &json!({ "A": "1" })));
}

#[test]
fn peers_opencode_reads_its_file_and_connects() {
    let Some(clients) = large() else { return };
    let person = Person::new();
    let everything = peers().unwrap().everything();
    let env = json!({ "CALLGATE_HOME": person.home.path() });
    let server = json!({ "type": "local", "command": words(&everything), "environment": env });
    let file = format!("{{ // mine\n\"mcp\": {{\"everything\": {server},}},}}");
    person.has(".config/opencode/opencode.json", &file);
    let _ = person.init(&["--write"]).exits(0);
    let listed = run(&person, &mut clients.opencode(), &["mcp", "list"]);
    assert!(listed.contains(&in_front("opencode")), "{listed}");
    assert!(listed.contains("connected"), "{listed}");
    reached(&person);
}
