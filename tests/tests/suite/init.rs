//! `callgate init`: the clients' files, from the dry run to a call through a rewritten entry.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use callgate_tests::command::Finished;
use callgate_tests::home::Home;
use callgate_tests::program;
use callgate_tests::relay::Relay;
use serde_json::{Value, json};

mod moving;

/// A person's home folder, with a Callgate home of its own.
pub(crate) struct Person {
    pub(crate) home: Home,
    folder: tempfile::TempDir,
}

impl Person {
    pub(crate) fn new() -> Self {
        Self { home: Home::new(), folder: tempfile::tempdir().unwrap() }
    }

    /// A person with a sealed file for secrets.
    #[track_caller]
    pub(crate) fn with_store() -> Self {
        let person = Self::new();
        let input = person.has("passphrase", "correct horse battery");
        let mut command = person.home.prepare(&["credential", "store", "init", "--sealed-file"]);
        let _ = Finished::of(command.stdin(Stdio::from(fs::File::open(input).unwrap()))).exits(0);
        person
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Writes a file of the home folder.
    pub(crate) fn has(&self, file: &str, text: &str) -> PathBuf {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn text(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    /// `callgate init`, in a project's folder.
    fn prepare(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.prepare(&["init"]);
        self.runs(command.args(arguments).env("PATH", "/usr/bin:/bin"));
        command
    }

    /// Has a program run as this person, in a project's folder.
    pub(crate) fn runs(&self, command: &mut Command) {
        let project = self.path("project");
        fs::create_dir_all(&project).unwrap();
        command.current_dir(project).env("HOME", self.folder.path()).env("CALLGATE_HOME", self.home.path());
        for folder in ["CONFIG", "DATA", "CACHE", "STATE"] {
            command.env_remove(format!("XDG_{folder}_HOME"));
        }
        for variable in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "APPDATA"] {
            command.env_remove(variable);
        }
    }

    pub(crate) fn init(&self, arguments: &[&str]) -> Finished {
        Finished::of(&mut self.prepare(arguments))
    }

    /// The backups, without their records.
    fn backups(&self) -> Vec<PathBuf> {
        let Ok(listed) = fs::read_dir(self.home.path().join("backups")) else { return Vec::new() };
        let mut backups: Vec<PathBuf> = listed.map(|file| file.unwrap().path()).collect();
        backups.retain(|path| path.extension().is_none_or(|extension| extension != "record"));
        backups.sort();
        backups
    }
}

pub(crate) fn callgate() -> String {
    program::callgate().to_str().unwrap().to_owned()
}

/// A file with these servers, as Cursor and others write it.
pub(crate) fn cursor(servers: &Value) -> String {
    serde_json::to_string_pretty(&json!({ "mcpServers": servers })).unwrap()
}

/// What a client that reads `file` starts for its server.
fn entry(file: &str, name: &str) -> Value {
    serde_json::from_str::<Value>(file).unwrap()["mcpServers"][name].take()
}

#[test]
fn a_dry_run_shows_all_and_writes_nothing() {
    let person = Person::new();
    let claude = person.has(
        ".claude.json",
        &json!({ "mcpServers": {}, "projects": { "/p": { "mcpServers": { "fs": { "command": "npx", "args": ["-y", "x"] } } } } })
            .to_string(),
    );
    let text = cursor(
        &json!({ "gh": { "command": "npx", "env": { "GITHUB_TOKEN": "ghp_0123456789abcdef" } }, "web": { "url": "https://x/" } }),
    );
    let cursor = person.has(".cursor/mcp.json", &text);
    let project =
        person.has("project/.mcp.json", &json!({ "mcpServers": { "shared": { "command": "uvx" } } }).to_string());
    let before: Vec<_> = [&claude, &cursor, &project].map(|path| fs::read(path).unwrap()).into();

    let shown = person.init(&[]).exits(0);
    for line in [
        format!("claude-code: {}", claude.display()),
        "  fs in /p  would be wrapped".to_owned(),
        format!("cursor: {}", cursor.display()),
        "  gh   would be wrapped; looks like a secret, in plain text: GITHUB_TOKEN".to_owned(),
        "  web  http: left alone until Callgate has a gateway".to_owned(),
        format!("claude-code: {}", project.display()),
        format!("+      \"command\": \"{}\",", callgate()),
    ] {
        assert!(shown.stdout.lines().any(|there| there == line), "{line:?} is not in\n{}", shown.stdout);
    }
    assert!(!shown.stdout.contains("ghp_"), "{shown:?}");
    assert!(!shown.stdout.contains("windsurf"), "what is not there is not told of");
    assert!(shown.stderr.contains("nothing was written"), "{shown:?}");
    let after: Vec<_> = [&claude, &cursor, &project].map(|path| fs::read(path).unwrap()).into();
    assert_eq!(before, after);
    assert_eq!((person.backups().len(), person.home.daemons().len()), (0, 0));
    // A file that several clients read says of none that it is the one.
    assert!(shown.stdout.contains("[\"run\", \"--server\", \"shared\", \"--\", \"uvx\"]"), "{shown:?}");
}

#[test]
fn it_is_written_once_and_comes_back_to_the_byte() {
    let person = Person::new();
    let before = "{\n\t// mine\r\n\t\"mcpServers\": { \"fs\": {\"command\":\"npx\"} }\n}";
    let path = person.has(".cursor/mcp.json", before);
    let codex = person.has(".codex/config.toml", "[mcp_servers.fs] # c\ncommand = 'npx'\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

    let written = person.init(&["--write", "--json"]).exits(0).json();
    let states: Vec<_> =
        written["files"].as_array().unwrap().iter().map(|file| file["state"].as_str().unwrap()).collect();
    assert_eq!((&written["schema"], states), (&json!(1), vec!["written", "written"]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let after = person.text(".cursor/mcp.json");
    assert!(after.starts_with("{\n\t// mine\r\n\t\"mcpServers\": { \"fs\": {\"command\":\""), "{after}");
    assert!(person.text(".codex/config.toml").contains("\"--agent\", \"codex\", \"--\", \"npx\"]\n"));

    let again = person.init(&["--write"]).exits(0);
    assert!(again.stdout.contains("  fs  already wrapped\n"), "{again:?}");
    assert_eq!((person.text(".cursor/mcp.json"), person.backups().len()), (after, 2));

    let backup = written["files"][0]["backup"].as_str().unwrap();
    assert_eq!(fs::metadata(backup).unwrap().permissions().mode() & 0o777, 0o600);
    let undone = person.init(&["--undo", backup]).exits(0);
    assert_eq!(undone.stdout, format!("restored: {}\n", path.display()));
    assert_eq!(person.text(".cursor/mcp.json"), before);
    assert_ne!(fs::read(&codex).unwrap(), b"[mcp_servers.fs] # c\ncommand = 'npx'\n", "one file, and no other");
    let name = Path::new(backup).file_name().unwrap().to_str().unwrap();
    assert!(person.init(&["--undo", name]).exits(0).stdout.starts_with("already as it was: "));
    person.has(".cursor/mcp.json", "{}");
    let refused = person.init(&["--undo", backup]).exits(2);
    assert!(
        refused.stderr.contains("has changed since it was edited\nhint: ") && refused.stdout.is_empty(),
        "{refused:?}"
    );
    let none = person.init(&["--undo", "nothing"]).exits(2);
    assert!(none.stderr.contains("hint: the backups are in "), "{none:?}");
}

#[test]
fn print_gives_the_one_file_and_writes_nothing() {
    let person = Person::new();
    let path = person.has("any.json", &cursor(&json!({ "fs": { "command": "npx" } })));
    let arguments = ["--client", "cursor", "--config", path.to_str().unwrap(), "--print"];
    let printed = person.init(&arguments).exits(0);
    assert_eq!(
        entry(&printed.stdout, "fs"),
        json!({ "command": callgate(), "args": ["run", "--server", "fs", "--agent", "cursor", "--", "npx"] })
    );
    assert_eq!((entry(&person.text("any.json"), "fs"), printed.stderr), (json!({ "command": "npx" }), String::new()));
    let none = person.init(&["--client", "windsurf", "--print"]).exits(2);
    assert!(none.stderr.contains("--print shows one file, and there are 0\nhint: "), "{none:?}");
    let absent = person.init(&["--client", "cursor"]).exits(0);
    assert!(absent.stdout.contains("there is no such file"), "{absent:?}");
    let _ = person.init(&["--config", path.to_str().unwrap()]).exits(2);
    let _ = person.init(&["--client", "notepad"]).exits(2);
}

#[test]
fn another_callgate_is_repointed_when_asked() {
    let person = Person::new();
    let args = ["run", "--server", "fs", "--", "npx"];
    let gone = json!({ "command": "/gone/callgate", "args": args });
    person.has(".cursor/mcp.json", &cursor(&json!({ "fs": gone })));
    let stale = person.init(&["--write"]).exits(0);
    assert!(
        stale.stdout.contains("a callgate that is not there") && stale.stdout.contains("/gone/callgate"),
        "{stale:?}"
    );
    assert_eq!(entry(&person.text(".cursor/mcp.json"), "fs"), gone);
    let mended = person.init(&["--write", "--repoint"]).exits(0);
    assert!(mended.stdout.contains("  fs  repointed (it starts /gone/callgate)"), "{mended:?}");
    assert_eq!(entry(&person.text(".cursor/mcp.json"), "fs"), json!({ "command": callgate(), "args": args }));
}

#[test]
fn a_file_that_cannot_be_edited_is_told_of_and_the_others_are_written() {
    let person = Person::new();
    let broken = "{\"mcpServers\": {\"a\": 1, \"a\": 2}}";
    person.has(".claude.json", broken);
    let servers = json!({ "fs": { "command": "npx" } });
    let locked = person.has(".gemini/settings.json", &cursor(&servers));
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o444)).unwrap();
    person.has(".cursor/mcp.json", &cursor(&servers));
    let elsewhere = person.has("dotfiles/windsurf.json", &cursor(&servers));
    fs::create_dir_all(person.path(".codeium/windsurf")).unwrap();
    symlink(&elsewhere, person.path(".codeium/windsurf/mcp_config.json")).unwrap();

    let written = person.init(&["--write"]).exits(3);
    assert!(written.stderr.contains("the key \"a\" stands twice in one table"), "{written:?}");
    assert!(written.stderr.contains("settings.json: it is read-only\nhint: "), "{written:?}");
    assert_eq!(
        (person.text(".claude.json"), entry(&person.text(".gemini/settings.json"), "fs")),
        (broken.to_owned(), servers["fs"].clone())
    );
    for file in [".cursor/mcp.json", "dotfiles/windsurf.json"] {
        assert_eq!(entry(&person.text(file), "fs")["command"], callgate(), "{file}");
    }
    assert!(fs::symlink_metadata(person.path(".codeium/windsurf/mcp_config.json")).unwrap().is_symlink());
    assert_eq!(person.backups().len(), 2, "of the files that were written");
    let _ = person.init(&["--client", "claude-code"]).exits(2);
}

#[test]
fn a_client_is_started_by_the_name_in_the_path_that_leads_here() {
    let person = Person::new();
    person.has(".cursor/mcp.json", &cursor(&json!({ "fs": { "command": "npx" } })));
    let bin = person.path("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(program::callgate(), bin.join("callgate")).unwrap();
    let mut command = person.prepare(&["--write"]);
    let _ = Finished::of(command.env("PATH", format!("/usr/bin:{}", bin.display()))).exits(0);
    assert_eq!(entry(&person.text(".cursor/mcp.json"), "fs")["command"], bin.join("callgate").to_str().unwrap());
}

#[test]
fn runs_at_the_same_time_leave_one_whole_file() {
    let person = Person::new();
    let servers: Value = (0..200).map(|number| (format!("s{number}"), json!({ "command": "npx" }))).collect();
    person.has(".cursor/mcp.json", &cursor(&servers));
    let start = |_| person.prepare(&["--write"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let children: Vec<_> = (0..6).map(start).collect();
    for mut child in children {
        // Whoever came too late is told that the file changed, or finds all done.
        assert!(matches!(child.wait().unwrap().code(), Some(0 | 3)));
    }
    let text = person.text(".cursor/mcp.json");
    for number in 0..200 {
        let args = [
            "run".to_owned(),
            "--server".into(),
            format!("s{number}"),
            "--agent".into(),
            "cursor".into(),
            "--".into(),
            "npx".into(),
        ];
        assert_eq!(entry(&text, &format!("s{number}")), json!({ "command": callgate(), "args": args }));
    }
    assert_eq!(person.backups().len(), 1, "only the one that wrote keeps a backup");
}

#[test]
fn a_call_passes_through_a_rewritten_entry() {
    let person = Person::new();
    let _ = person.home.ok(&["policy", "deny", "drop"]);
    let fixture = program::fixture();
    person.has(".cursor/mcp.json", &cursor(&json!({ "fs": { "command": fixture } })));
    let _ = person.init(&["--write"]).exits(0);
    let entry = entry(&person.text(".cursor/mcp.json"), "fs");
    let words: Vec<&str> = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let mut command = person.home.prepare(&words);
    assert_eq!(command.get_program().to_str().unwrap(), entry["command"].as_str().unwrap());
    let mut relay = Relay::of(&mut command);
    assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
    assert_eq!(relay.call("2", "drop", "{}")["result"]["isError"], true);
    assert_eq!(relay.close().code(), 0);
    let decisions = person.home.decisions();
    assert_eq!((decisions.len(), &decisions[0]["server"]["name"]), (2, &json!("fs")));
    let start = person.home.entry("the session", |entry| entry.kind == "session.start");
    assert_eq!(start.body["claim"], "cursor", "{:?}", start.body);
}

#[test]
fn the_guide_shows_what_becomes_of_every_client() {
    const GUIDE: &str = include_str!("../../../docs/guide/clients.md");
    let blocks: Vec<_> = crate::guide::blocks(GUIDE).into_iter().filter(|block| block.file.is_some()).collect();
    let person = Person::new();
    let pairs: Vec<_> =
        blocks.chunks(2).map(|pair| (pair[0].file.as_deref().unwrap(), &pair[0].text, &pair[1])).collect();
    for (file, before, after) in &pairs {
        assert_eq!(after.file.as_deref(), Some("after"), "{file}");
        person.has(file, before);
    }
    let written = person.init(&["--write", "--json"]).exits(0).json();
    for (file, _, after) in &pairs {
        assert_eq!(person.text(file), after.text.replace("/usr/local/bin/callgate", &callgate()), "{file}");
    }
    let clients: BTreeSet<&str> =
        written["files"].as_array().unwrap().iter().map(|file| file["client"].as_str().unwrap()).collect();
    assert_eq!((clients.len(), pairs.len()), (12, 12), "{clients:?}");
}
