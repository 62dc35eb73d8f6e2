//! The guides do what they say: their files are written and their commands run, in order, as a reader would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use callgate_tests::command::Finished;
use callgate_tests::home::Home;
use callgate_tests::program;
use callgate_tests::relay::{self, Relay};
use serde_json::{Value, json};

use crate::kill::is_sound;
use crate::servers::stores::Keyring;

const GUIDE: &str = include_str!("../../../docs/guide/first-plugin.md");
const AGENTS: &str = include_str!("../../../docs/guide/agents.md");
const GETTING_STARTED: &str = include_str!("../../../docs/guide/getting-started.md");
const CREDENTIALS: &str = include_str!("../../../docs/guide/credentials.md");

/// One block of a guide: the file it is, if it is one, and its text. What is in `sh` is run.
pub(crate) struct Block {
    language: String,
    pub(crate) file: Option<String>,
    pub(crate) text: String,
}

pub(crate) fn blocks(guide: &str) -> Vec<Block> {
    let fenced = guide.split("\n```").skip(1).step_by(2);
    let block = |text: &str| {
        let (info, text) = text.split_once('\n').unwrap();
        let mut info = info.split(' ').map(str::to_owned);
        Block { language: info.next().unwrap_or_default(), file: info.next(), text: format!("{text}\n") }
    };
    fenced.map(block).collect()
}

/// What a reader types: every block in its order. What is only to be looked at is not typed.
fn script(blocks: &[Block]) -> String {
    let step = |block: &Block| match (&block.file, block.language.as_str()) {
        (Some(file), _) => format!("cat >{file} <<'END OF FILE'\n{}END OF FILE\n", block.text),
        (None, "sh") => format!("echo '$ next block'\n{}", block.text),
        (None, "json" | "text") => String::new(),
        (None, other) => panic!("nobody knows what to do with a block of {other:?}"),
    };
    blocks.iter().map(step).collect::<Vec<_>>().concat()
}

/// A reader's terminal, in which all of it is typed until something fails.
fn terminal(home: &Home, folder: &Path, script: &str) -> Command {
    let path = std::env::var("PATH").unwrap();
    let callgate = home.prepare(&[]);
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(folder);
    bash.envs(callgate.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bash.env("PATH", format!("{}:{path}", program::callgate().parent().unwrap().display()));
    bash.stdin(Stdio::null());
    bash
}

/// What names a compiler that can build plugins; `None`, and said, where nobody prepared one.
fn toolchain() -> Option<String> {
    if std::env::var_os("CALLGATE_PLUGINS").is_none() {
        crate::skipped("guide", "CALLGATE_PLUGINS is not set");
        return None;
    }
    let found = Finished::of(Command::new(root().join("plugins/toolchain")).current_dir(root())).exits(0);
    // As it is for a shell, and nothing where the compiler that is here can do it.
    Some(found.stdout.lines().filter_map(|line| line.strip_prefix("export ")).collect::<Vec<_>>().join(" "))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn the_first_plugin_is_built_installed_and_refuses_a_call() {
    let Some(toolchain) = toolchain() else { return };
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new();
    let sdk = root().join("sdk");
    let guide = GUIDE.replace("../callgate/sdk", sdk.to_str().unwrap());
    // Someone else's lock file would be made by asking the registry; the versions that are here already do as well.
    let lock = format!("cp {} Cargo.lock\n", root().join("Cargo.lock").display());
    let built = format!("{toolchain} callgate plugin build\n");
    let script = script(&blocks(&guide)).replacen("cargo test\n", &format!("{lock}cargo test\n"), 1);
    // Only what is built for plugins: its own test is run by whatever compiler is here.
    let script = script.replacen("callgate plugin build\n", &built, 1);
    assert!(script.contains(&lock) && script.contains(&built));

    let mut bash = terminal(&home, folder.path(), &script);
    // Kept between runs, so that only the first one compiles the SDK.
    bash.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide")).env("CARGO_NET_OFFLINE", "true");
    let read = Finished::of(&mut bash).exits(0);

    for said in [
        "test tests::a_private_folder_is_denied_in_any_argument ... ok",
        "built: ./private.wasm",
        "deny: /home/me/diary is private (private)",
        "abstain",
        "installed: private (sha256:",
        r#""code":"private/private""#,
        "plugin added: private (sha256:",
    ] {
        assert!(read.stdout.contains(said), "{said:?} is not in\n{}\n{}", read.stdout, read.stderr);
    }
    let decisions = home.decisions();
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(decisions[0]["code"], "private/private");
    is_sound(&home);
    // Where it was built is not in it.
    let component = fs::read(folder.path().join("private/private.wasm")).unwrap();
    let text = String::from_utf8_lossy(&component);
    for machine in [folder.path().to_str().unwrap(), root().to_str().unwrap()] {
        assert!(!text.contains(machine), "{machine} is in the component");
    }
}

#[test]
fn the_guide_to_agents_enrols_refreshes_and_removes_one() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new();
    fs::copy("/bin/sh", folder.path().join("cursor")).unwrap();
    let read = Finished::of(&mut terminal(&home, folder.path(), &script(&blocks(AGENTS)))).exits(0);
    for said in [
        "enrolled: cursor: ",
        "deny: delete_file (rules: deny delete_file (agent cursor))",
        "unchanged: cursor: ",
        "removed: cursor: ",
    ] {
        assert!(read.stdout.contains(said), "{said:?} is not in\n{}\n{}", read.stdout, read.stderr);
    }
    assert!(read.stderr.contains("this binds nobody: 2 rules"), "{}", read.stderr);
    is_sound(&home);
}

#[test]
fn a_client_is_pointed_at_callgate_and_a_first_call_is_refused() {
    let home = Home::new();
    let reader = tempfile::tempdir().unwrap();
    let config = reader.path().join(".cursor/mcp.json");
    fs::create_dir(config.parent().unwrap()).unwrap();
    let [program, record @ ..] = &relay::fixture(&home.path().join("received"))[..] else { panic!("no fixture") };
    fs::write(&config, json!({ "mcpServers": { "fs": { "command": text(program), "args": record.iter().map(text).collect::<Vec<_>>() } } }).to_string()).unwrap();
    let mut bash = terminal(&home, reader.path(), &script(&blocks(GETTING_STARTED)));
    bash.env("HOME", reader.path()).env_remove("XDG_CONFIG_HOME");
    let read = Finished::of(&mut bash).exits(0);
    for said in ["fs  would be wrapped", "OK    journal", "added: deny write_file", "the journal holds: "] {
        assert!(read.stdout.contains(said), "{said:?} is not in\n{}\n{}", read.stdout, read.stderr);
    }
    // What the client starts from now on.
    let config: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    let entry = &config["mcpServers"]["fs"];
    let arguments = entry["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let mut client = Command::new(entry["command"].as_str().unwrap());
    client.args(arguments).env("CALLGATE_HOME", home.path());
    let mut relay = Relay::of(&mut client);
    let passes = |relay: &mut Relay, tool: &str| relay.call("1", tool, "{}")["result"]["_meta"].is_null();
    assert!(passes(&mut relay, "read_file") && !passes(&mut relay, "write_file"));
    let _ = relay.close();
    is_sound(&home);
}

fn text(word: &std::ffi::OsString) -> &str {
    word.to_str().unwrap()
}

#[test]
fn a_token_is_taken_out_of_a_configuration() {
    let Some(keyring) = Keyring::new() else { return };
    let home = Home::new();
    let reader = tempfile::tempdir().unwrap();
    // What a reader types where a passphrase is asked for.
    let asked = "callgate() {
        case \"$1 $2 $3\" in
          'credential store init' | 'credential store unlock') echo 'a passphrase for tests' | command callgate \"$@\" ;;
          *) command callgate \"$@\" ;;
        esac
    }\n";
    let script = format!("{asked}{}", script(&blocks(CREDENTIALS)));
    let mut bash = terminal(&home, reader.path(), &script);
    bash.env("DBUS_SESSION_BUS_ADDRESS", keyring.address()).env("GITHUB_TOKEN", "a-token-for-tests");
    let read = Finished::of(&mut bash).exits(0);
    for said in ["registered: github, its secrets in the system's secret store", "made and open: the sealed file"] {
        assert!(read.stdout.contains(said), "{said:?} is not in\n{}\n{}", read.stdout, read.stderr);
    }
    let listed = home.ok(&["credential", "list", "--json"]).json();
    assert_eq!(listed["credentials"], json!([{ "server": "github", "variable": "GITHUB_TOKEN", "store": "system" }]));
}

#[test]
fn what_cannot_be_built_is_told_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new();
    let here = folder.path().to_str().unwrap();
    let refused = home.run(&["plugin", "build", here]).exits(2);
    assert!(refused.stderr.contains("there is no Cargo.toml in ") && refused.stderr.contains("hint: "), "{refused:?}");
    fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"x\"\n").unwrap();
    let no_tool = Finished::of(home.prepare(&["plugin", "build", here]).env("RUSTC", "/nowhere/rustc")).exits(3);
    assert!(no_tool.stderr.contains("cannot run /nowhere/rustc: "), "{no_tool:?}");
    assert!(no_tool.stderr.contains("hint: install Rust with rustup"), "{no_tool:?}");
    // A compiler that knows no such target: it prints nothing and fails.
    let no_target = Finished::of(home.prepare(&["plugin", "build", here]).env("RUSTC", "false")).exits(3);
    assert!(no_target.stderr.contains("hint: rustup target add wasm32-unknown-unknown"), "{no_target:?}");
}
