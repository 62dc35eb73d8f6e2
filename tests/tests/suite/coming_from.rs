//! The page for who comes from another system: every command of ours on it is run as it stands there, and does what it is there for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use callgate_tests::command::Finished;
use callgate_tests::home::Home;
use callgate_tests::program;
use callgate_tests::relay::{self, Relay};
use serde_json::{Value, json};

const GUIDE: &str = include_str!("../../../docs/guide/coming-from.md");

/// Every command of ours: in the tables, and on a line of its own.
fn commands() -> BTreeSet<&'static str> {
    let rows = GUIDE.lines().filter(|line| line.starts_with("| "));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let lines = GUIDE.lines().filter(|line| line.starts_with("callgate "));
    code.chain(lines).filter(|code| code.starts_with("callgate ")).collect()
}

/// A reader, at a home of their own.
struct Reader {
    home: Home,
    /// Where the clients' configurations are.
    folder: tempfile::TempDir,
    /// What stands for something of the reader's own.
    words: BTreeMap<&'static str, String>,
    input: &'static str,
}

impl Reader {
    fn new(home: Home) -> Self {
        let command = format!("{} --record {}", program::fixture().display(), home.path().join("received").display());
        let folder = tempfile::tempdir().unwrap();
        Self { home, folder, words: BTreeMap::from([("COMMAND", command)]), input: "" }
    }

    /// Types a line.
    fn types(&self, line: &str) -> Finished {
        let words = line.split(' ').map(|word| self.words.get(word).map_or(word, String::as_str));
        let mut bash = Command::new("bash");
        bash.args(["-c", &words.collect::<Vec<_>>().join(" ")]).current_dir(self.folder.path());
        bash.env("HOME", self.folder.path()).env_remove("XDG_CONFIG_HOME");
        bash.envs(self.home.prepare(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        let path = format!("{}:{}", program::callgate().parent().unwrap().display(), std::env::var("PATH").unwrap());
        let input = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(input.path(), self.input).unwrap();
        Finished::of(bash.env("PATH", path).stdin(Stdio::from(input.reopen().unwrap())))
    }

    #[track_caller]
    fn ok(&self, line: &str) -> Finished {
        self.types(line).exits(0)
    }

    /// What becomes of a call, by the code of its refusal.
    #[track_caller]
    fn calls(&self, server: &str, tool: &str, arguments: &str) -> Result<(), String> {
        outcome(&mut self.session(server, None), tool, arguments)
    }

    #[track_caller]
    fn session(&self, server: &str, agent: Option<&str>) -> Relay {
        let launch = self.home.relay(server);
        let launch = match agent {
            Some(agent) => launch.option("--agent").option(agent),
            None => launch,
        };
        launch.start(relay::fixture(&self.home.path().join("received")))
    }
}

#[track_caller]
fn outcome(relay: &mut Relay, tool: &str, arguments: &str) -> Result<(), String> {
    let answer = relay.call("1", tool, arguments);
    let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str();
    code.map_or(Ok(()), |code| Err(code.to_owned()))
}

fn refused(code: &str) -> Result<(), String> {
    Err(code.to_owned())
}

type Effect = fn(&mut Reader, &str);

/// What each command is for.
const EFFECTS: &[(&str, Effect)] = &[
    ("callgate init", |reader, line| {
        let file = configured(reader, "npx", &["a-server"]);
        assert!(reader.ok(line).stdout.contains("fs  would be wrapped"));
        assert_eq!(started(&file), ("npx".to_owned(), vec!["a-server".to_owned()]));
    }),
    ("callgate init --write", |reader, line| {
        let file = configured(reader, "npx", &["a-server"]);
        let _ = reader.ok(line);
        let (command, arguments) = started(&file);
        assert_eq!(Path::new(&command), program::callgate());
        assert_eq!(arguments, ["run", "--server", "fs", "--agent", "cursor", "--", "npx", "a-server"]);
    }),
    ("callgate init --undo BACKUP", |reader, line| {
        let file = configured(reader, "npx", &["a-server"]);
        let written = reader.ok("callgate init --write --json").json();
        let backup = written["files"][0]["backup"].as_str().unwrap().to_owned();
        let _ = reader.words.insert("BACKUP", backup);
        let _ = reader.ok(line);
        assert_eq!(started(&file), ("npx".to_owned(), vec!["a-server".to_owned()]));
    }),
    ("callgate init --client cursor --config PATH --repoint --write", |reader, line| {
        let file = configured(reader, "/an/older/callgate", &["run", "--server", "fs", "--", "npx", "a-server"]);
        let _ = reader.ok(line);
        let (command, arguments) = started(&file);
        assert_eq!(Path::new(&command), program::callgate());
        assert!(arguments.ends_with(&["--".to_owned(), "npx".to_owned(), "a-server".to_owned()]), "{arguments:?}");
    }),
    ("callgate agent add cursor PROGRAM", |reader, line| {
        assert_eq!(caller(reader), Value::Null);
        let this = std::env::current_exe().unwrap();
        let _ = reader.words.insert("PROGRAM", this.to_str().unwrap().to_owned());
        let _ = reader.ok(line);
        assert_eq!(caller(reader), "cursor");
    }),
    ("callgate agent list", |reader, line| {
        enrolled(reader);
        assert!(reader.ok(line).stdout.starts_with("cursor"));
    }),
    ("callgate agent show cursor", |reader, line| {
        enrolled(reader);
        assert!(reader.ok(line).stdout.contains(reader.words["PROGRAM"].as_str()));
    }),
    ("callgate agent remove cursor", |reader, line| {
        enrolled(reader);
        let _ = reader.ok(line);
        assert_eq!(caller(reader), Value::Null);
    }),
    ("callgate run --server fs -- COMMAND", |reader, line| {
        let _ = reader.ok("callgate policy deny echo");
        let words: Vec<&str> = line.strip_suffix("COMMAND").unwrap().split_whitespace().skip(1).collect();
        let command = relay::fixture(&reader.home.path().join("received"));
        let mut relay = Relay::of(reader.home.prepare(&words).args(command));
        assert_eq!(outcome(&mut relay, "echo", "{}"), refused("rules/deny"));
        assert_eq!(outcome(&mut relay, "other", "{}"), Ok(()));
        let _ = relay.close();
    }),
    ("callgate policy deny write_file", |reader, line| {
        let mut open = reader.session("fs", None);
        assert_eq!(outcome(&mut open, "write_file", "{}"), Ok(()));
        let _ = reader.ok(line);
        assert_eq!(outcome(&mut open, "write_file", "{}"), refused("rules/deny"));
    }),
    ("callgate policy deny 'delete_*' --agent cursor", |reader, line| {
        let _ = reader.ok(line);
        assert_eq!(explained(reader, "delete_all --agent cursor"), "deny");
        assert_eq!(explained(reader, "delete_all --agent other"), "allow");
        assert_eq!(explained(reader, "read --agent cursor"), "allow");
    }),
    ("callgate policy allow write_file --server fs", |reader, line| {
        let _ = reader.ok("callgate policy default deny");
        let _ = reader.ok(line);
        assert_eq!(reader.calls("fs", "write_file", "{}"), Ok(()));
        assert_eq!(reader.calls("other", "write_file", "{}"), refused("rules/deny"));
    }),
    ("callgate policy allow read_file --agent cursor", |reader, line| {
        let _ = reader.ok("callgate policy default deny");
        let _ = reader.ok(line);
        assert_eq!(explained(reader, "read_file --agent cursor"), "allow");
        assert_eq!(explained(reader, "read_file"), "deny");
    }),
    ("callgate policy ask delete_branch", |reader, line| {
        let _ = reader.ok(line);
        assert_eq!(reader.calls("fs", "delete_branch", "{}"), refused("ask-unavailable"));
    }),
    ("callgate policy ask deploy", |reader, line| {
        let _ = reader.ok(line);
        assert_eq!(reader.calls("fs", "deploy", "{}"), refused("ask-unavailable"));
    }),
    ("callgate policy default deny", |reader, line| {
        assert_eq!(reader.calls("fs", "echo", "{}"), Ok(()));
        let _ = reader.ok(line);
        assert_eq!(reader.calls("fs", "echo", "{}"), refused("rules/deny"));
    }),
    ("callgate policy remove write_file", |reader, line| {
        let _ = reader.ok("callgate policy deny write_file");
        let _ = reader.ok(line);
        assert_eq!(reader.calls("fs", "write_file", "{}"), Ok(()));
    }),
    ("callgate policy remove --default", |reader, line| {
        let _ = reader.ok("callgate policy default deny");
        let _ = reader.ok(line);
        assert_eq!(reader.calls("fs", "echo", "{}"), Ok(()));
    }),
    ("callgate policy list", |reader, line| {
        let _ = reader.ok("callgate policy deny write_file");
        assert!(reader.ok(line).stdout.contains("deny write_file"));
    }),
    ("callgate policy list --json", |reader, line| {
        let _ = reader.ok("callgate policy deny write_file");
        assert_eq!(reader.ok(line).json()["rules"], json!([{ "effect": "deny", "tool": "write_file" }]));
    }),
    ("callgate policy explain write_file", |reader, line| {
        let _ = reader.ok(line);
        let _ = reader.ok("callgate policy deny write_file");
        assert!(reader.types(line).exits(1).stdout.starts_with("deny: write_file (rules: deny write_file)"));
    }),
    (r#"callgate policy explain write_file --args '{"path":"/x"}' --json"#, |reader, line| {
        assert_eq!(reader.ok(line).json()["verdict"], "allow");
        let _ = reader.ok("callgate policy deny write_file");
        assert_eq!(reader.types(line).exits(1).json()["verdict"], "deny");
        assert!(reader.home.decisions().is_empty(), "a question is in the journal");
    }),
    ("callgate policy budget 20 --tool list_repos", |reader, line| {
        let _ = reader.ok(line);
        let mut session = reader.session("fs", None);
        assert_eq!(passed(&mut session, "list_repos", 25), 20);
        assert_eq!(passed(&mut session, "other", 5), 5);
    }),
    ("callgate policy budget remove --tool list_repos", |reader, line| {
        let _ = reader.ok("callgate policy budget 1 --tool list_repos");
        let mut session = reader.session("fs", None);
        assert_eq!(passed(&mut session, "list_repos", 3), 1);
        let _ = reader.ok(line);
        assert_eq!(passed(&mut session, "list_repos", 3), 3);
    }),
    ("callgate policy budget 100 --all-tools --shared-by agent", |reader, line| {
        let _ = reader.ok(line);
        assert_eq!(passed(&mut reader.session("fs", None), "a", 60), 60);
        let _ = reader.ok("callgate daemon restart");
        assert_eq!(passed(&mut reader.session("fs", None), "b", 60), 40, "a restart or another session counts anew");
    }),
    ("callgate server add github --env TOKEN -- COMMAND", |reader, line| {
        sealed(reader);
        reader.input = "a-secret";
        let _ = reader.ok(line);
        assert_eq!(registered(reader), ["github"]);
        let mut relay = Relay::of(&mut reader.home.prepare(&["run", "--server", "github"]));
        assert_eq!(outcome(&mut relay, "echo", "{}"), Ok(()));
        let environment = std::fs::read(format!("/proc/{}/environ", server(reader).pid)).unwrap();
        assert!(String::from_utf8_lossy(&environment).contains("TOKEN=a-secret"), "the server has no secret");
        let _ = relay.close();
    }),
    ("callgate server add files -- COMMAND", |reader, line| {
        let _ = reader.ok(line);
        let mut relay = Relay::of(&mut reader.home.prepare(&["run", "--server", "files"]));
        assert_eq!(outcome(&mut relay, "echo", "{}"), Ok(()));
        let _ = relay.close();
    }),
    ("callgate server list", |reader, line| {
        let _ = reader.ok("callgate server add files -- COMMAND");
        assert!(reader.ok(line).stdout.starts_with("files  "));
    }),
    ("callgate server show github", |reader, line| {
        sealed(reader);
        reader.input = "a-secret";
        let _ = reader.ok("callgate server add github --env TOKEN -- COMMAND");
        let shown = reader.ok(line).stdout;
        assert!(shown.contains("TOKEN: in the sealed file") && !shown.contains("a-secret"), "{shown}");
    }),
    ("callgate server remove github", |reader, line| {
        let _ = reader.ok("callgate server add github -- COMMAND");
        let _ = reader.ok(line);
        assert!(registered(reader).is_empty());
    }),
    ("callgate grant cursor git --tool 'git_*' --args 'repo=/home/u/**'", |reader, line| {
        knowing(reader);
        let _ = reader.ok(line);
        let mut cursor = reader.session("git", Some("cursor"));
        assert_eq!(outcome(&mut cursor, "git_log", r#"{"repo":"/home/u/a/b"}"#), Ok(()));
        assert_eq!(outcome(&mut cursor, "git_log", r#"{"repo":"/home/u/../b"}"#), refused("arguments/argument"));
        assert_eq!(outcome(&mut cursor, "git_log", r#"{"repo":null}"#), refused("arguments/argument"));
        assert_eq!(outcome(&mut cursor, "push", "{}"), refused("arguments/no-grant"));
    }),
    ("callgate grant cursor git --args 'path=/repo/**'", |reader, line| {
        knowing(reader);
        let _ = reader.ok(line);
        let mut cursor = reader.session("git", Some("cursor"));
        assert_eq!(outcome(&mut cursor, "read", r#"{"path":"/repo/x"}"#), Ok(()));
        assert_eq!(outcome(&mut cursor, "read", r#"{"path":"/etc"}"#), refused("arguments/argument"));
        assert_eq!(outcome(&mut cursor, "read", "{}"), Ok(()));
    }),
    ("callgate revoke cursor git --tool 'git_*'", |reader, line| {
        let _ = reader.ok("callgate grant cursor git --tool 'git_*'");
        let _ = reader.ok("callgate grant cursor git --tool push");
        let _ = reader.ok(line);
        let left = reader.ok("callgate grants --json").json();
        assert_eq!(left["grants"], json!([{ "agent": "cursor", "server": "git", "tool": "push" }]));
    }),
    ("callgate grants --agent cursor", |reader, line| {
        let _ = reader.ok("callgate grant cursor git");
        let _ = reader.ok("callgate grant other git");
        let listed = reader.ok(line).stdout;
        assert!(listed.contains("agent cursor") && !listed.contains("other"), "{listed}");
    }),
    ("callgate policy default deny --agent cursor", |reader, line| {
        knowing(reader);
        let _ = reader.ok(line);
        assert_eq!(outcome(&mut reader.session("git", Some("cursor")), "push", "{}"), refused("rules/deny"));
        assert_eq!(reader.calls("git", "push", "{}"), Ok(()));
    }),
    ("callgate doctor", |reader, line| {
        assert!(reader.types(line).exits(0).stdout.contains("OK    journal"));
        std::fs::write(reader.home.path().join("callgate.yaml"), "version: 9\n").unwrap();
        assert!(reader.types(line).exits(1).stdout.contains("FAIL  config"));
    }),
    ("callgate status", |reader, line| {
        let mut session = reader.session("fs", None);
        assert_eq!(outcome(&mut session, "echo", "{}"), Ok(()));
        assert!(reader.ok(line).stdout.contains("  fs: agent not known: "));
    }),
    ("callgate log -n 5", |reader, line| {
        reader.home.configure("record: full");
        for number in 0..9 {
            let _ = reader.ok(&format!("callgate policy deny tool-{number}"));
        }
        let log = reader.ok(line).stdout;
        assert_eq!(log.lines().count(), 5);
        assert!(log.lines().last().unwrap().ends_with("rule added: deny tool-8"), "{log}");
    }),
    ("callgate log --follow --json --after 3", |reader, line| follows(reader, line, r#""seq":4,"#)),
    ("callgate log -f", |reader, line| follows(reader, line, "rule added: deny tool-0")),
    ("callgate log -n 5 --server files --decision denied", |reader, line| {
        let _ = reader.ok("callgate policy deny echo");
        assert_eq!(reader.calls("files", "echo", "{}"), refused("rules/deny"));
        assert_eq!(reader.calls("files", "other", "{}"), Ok(()));
        assert_eq!(reader.calls("others", "echo", "{}"), refused("rules/deny"));
        let log = reader.ok(line).stdout;
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("denied   files/echo"), "{log}");
    }),
    ("callgate verify", |reader, line| {
        let _ = reader.ok("callgate policy deny echo");
        assert!(reader.ok(line).stdout.starts_with("the journal holds"));
    }),
    ("callgate verify --expect-head HASH", |reader, line| {
        let _ = reader.ok("callgate policy deny echo");
        let head = reader.ok("callgate verify --json").json()["head"].as_str().unwrap().to_owned();
        let _ = reader.ok("callgate policy deny another");
        let _ = reader.words.insert("HASH", head);
        let _ = reader.ok(line);
        let _ = reader.words.insert("HASH", "0".repeat(64));
        let _ = reader.types(line).exits(1);
    }),
    ("callgate daemon start", |reader, line| {
        let _ = reader.ok(line);
        assert!(reader.home.daemon_pid().is_some());
    }),
    ("callgate daemon stop", |reader, line| {
        let _ = reader.home.start_daemon();
        let _ = reader.ok(line);
        assert_eq!(reader.home.daemon_pid(), None);
    }),
    ("callgate daemon restart", |reader, line| {
        let first = reader.home.start_daemon();
        let _ = reader.ok(line);
        assert!(reader.home.daemon_pid().is_some_and(|second| second != first));
    }),
    ("callgate plugin install GUARD --name guard --yes", |reader, line| {
        let mut session = reader.session("fs", None);
        assert_eq!(outcome(&mut session, "echo", "{}"), Ok(()));
        let guard = reader.home.path().join("guard.wasm");
        std::fs::copy(component(), &guard).unwrap();
        let settings = reader.home.path().join("settings.json");
        std::fs::write(&settings, r#"{"rules":[{"effect":"deny","tool":"echo"}]}"#).unwrap();
        let guard = format!("{} --settings {}", guard.display(), settings.display());
        let _ = reader.words.insert("GUARD", guard);
        let _ = reader.ok(line);
        assert_eq!(outcome(&mut session, "echo", "{}"), refused("guard/deny"));
    }),
];

/// A component that installs: a shipped one under another name.
fn component() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist/rules.wasm")
}

/// What `explain` says of a call.
#[track_caller]
fn explained(reader: &Reader, what: &str) -> String {
    let explained = reader.types(&format!("callgate policy explain {what} --json")).json();
    explained["verdict"].as_str().unwrap().to_owned()
}

/// How many of so many calls pass.
#[track_caller]
fn passed(session: &mut Relay, tool: &str, calls: usize) -> usize {
    (0..calls).filter(|_| outcome(session, tool, "{}").is_ok()).count()
}

/// A home that knows two agents by one program, this one, so that a session is the one that it says, and nobody's if it says nothing.
fn knowing(reader: &mut Reader) {
    *reader = Reader::new(Home::knowing(&["cursor", "other"]));
}

/// Whose the newest call is.
#[track_caller]
fn caller(reader: &Reader) -> Value {
    let _ = reader.calls("fs", "echo", "{}");
    reader.home.decisions().pop().unwrap()["agent"]["name"].clone()
}

#[track_caller]
fn enrolled(reader: &mut Reader) {
    let this = std::env::current_exe().unwrap();
    let _ = reader.words.insert("PROGRAM", this.to_str().unwrap().to_owned());
    let _ = reader.ok("callgate agent add cursor PROGRAM");
}

/// The configuration of a client, which starts this; the file.
fn configured(reader: &mut Reader, command: &str, arguments: &[&str]) -> PathBuf {
    let file = reader.folder.path().join(".cursor/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let entry = json!({ "mcpServers": { "fs": { "command": command, "args": arguments } } });
    std::fs::write(&file, entry.to_string()).unwrap();
    let _ = reader.words.insert("PATH", file.to_str().unwrap().to_owned());
    file
}

/// What a configuration starts.
#[track_caller]
fn started(file: &Path) -> (String, Vec<String>) {
    let config: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let entry = &config["mcpServers"]["fs"];
    (entry["command"].as_str().unwrap().to_owned(), serde_json::from_value(entry["args"].clone()).unwrap())
}

/// A store of secrets that every machine can have.
#[track_caller]
fn sealed(reader: &mut Reader) {
    reader.input = "a passphrase for tests\n";
    let _ = reader.ok("callgate credential store init --sealed-file");
}

#[track_caller]
fn registered(reader: &Reader) -> Vec<String> {
    let listed = reader.ok("callgate server list --json").json();
    let name = |server: &Value| server["name"].as_str().unwrap().to_owned();
    listed["servers"].as_array().unwrap().iter().map(name).collect()
}

/// A server that runs.
#[track_caller]
fn server(reader: &Reader) -> callgate_tests::process::Process {
    let fixture = program::fixture().to_str().unwrap().to_owned();
    let runs = |process: &callgate_tests::process::Process| process.command.starts_with(&fixture);
    reader.home.processes().into_iter().find(runs).expect("the server runs")
}

/// Shows what is written after it began.
#[track_caller]
fn follows(reader: &Reader, line: &str, expected: &str) {
    let _ = reader.home.start_daemon();
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let mut log = reader.home.prepare(&words).stdout(Stdio::piped()).spawn().unwrap();
    for number in 0..9 {
        let _ = reader.ok(&format!("callgate policy deny tool-{number}"));
    }
    let lines = std::io::BufRead::lines(std::io::BufReader::new(log.stdout.take().unwrap()));
    let found = lines.map(Result::unwrap).any(|line| line.contains(expected));
    log.kill().unwrap();
    let _ = log.wait().unwrap();
    assert!(found, "no {expected}");
}

#[test]
fn every_command_on_the_page_does_what_it_is_there_for() {
    let known: BTreeSet<&str> = EFFECTS.iter().map(|(line, _)| *line).collect();
    assert_eq!(commands(), known, "the page and the test do not have the same commands");
    assert_eq!(known.len(), EFFECTS.len(), "a command is there twice");
    for (line, effect) in EFFECTS {
        println!("{line}");
        effect(&mut Reader::new(Home::new()), line);
    }
}
