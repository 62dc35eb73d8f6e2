//! Real clients and servers, from the folder that `tests/peers/install` fills and `CALLGATE_PEERS` names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The peers.
#[derive(Clone, Debug)]
pub struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// `None` when `CALLGATE_PEERS` is not set. Set, but without what it promises, is a failure.
    pub fn find() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("CALLGATE_PEERS")?);
        let stamp = folder.join("stamp");
        assert!(
            stamp.exists(),
            "CALLGATE_PEERS is {} and there is no {}\nhint: tests/peers/install {}",
            folder.display(),
            stamp.display(),
            folder.display()
        );
        Some(Self { folder })
    }

    /// The official TypeScript client, about to go through its scenario.
    pub fn typescript_client(&self, sdk: &str, names: &str) -> Command {
        self.node("client.mjs", &[sdk, names])
    }

    /// The official Python client, about to go through its scenario.
    pub fn python_client(&self, mode: &str, names: &str) -> Command {
        let mut command = Command::new(self.python(2));
        command.arg(source("client.py")).args([mode, names]);
        self.with_environment(command)
    }

    /// A script of this suite under Node.
    pub fn node(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("node");
        command.arg(source(script)).args(arguments);
        self.with_environment(command)
    }

    /// Gemini CLI.
    pub fn gemini(&self) -> Command {
        Command::new(self.folder.join("node_modules/.bin/gemini"))
    }

    /// The command line of the MCP Inspector.
    pub fn inspector(&self) -> Command {
        let mut command = Command::new(self.folder.join("node_modules/.bin/mcp-inspector-cli"));
        command.arg("--cli");
        command
    }

    /// The clients that are large programs of their own; `None` when they were not installed.
    pub fn clients(&self) -> Option<Clients> {
        let folder = self.folder.join("clients");
        folder.join("stamp").exists().then_some(Clients { folder })
    }

    fn with_environment(&self, mut command: Command) -> Command {
        command.env("CALLGATE_PEERS", &self.folder).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
        command
    }

    /// The Python that has the official SDK of major version 1 or 2.
    pub fn python(&self, major: u32) -> PathBuf {
        self.folder.join(format!("python-mcp-{major}/bin/python"))
    }

    /// The reference server, which speaks the handshake dialects.
    pub fn everything(&self) -> Vec<OsString> {
        let program = self.folder.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        vec!["node".into(), program.into(), "stdio".into()]
    }

    /// The reference file server over `folder`.
    pub fn filesystem(&self, folder: &Path) -> Vec<OsString> {
        let program = self.folder.join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
        vec!["node".into(), program.into(), folder.into()]
    }

    /// This suite's server on the official TypeScript SDK.
    pub fn typescript_server(&self) -> Vec<OsString> {
        vec!["node".into(), source("server.mjs").into()]
    }

    /// This suite's server on the official Python SDK.
    pub fn python_server(&self) -> Vec<OsString> {
        vec![self.python(2).into(), source("server.py").into()]
    }

    /// A published server on the Python SDK's first major version.
    pub fn sqlite_server(&self, database: &Path) -> Vec<OsString> {
        let program = self.folder.join("python-mcp-1/bin/mcp-server-sqlite");
        vec![program.into(), "--db-path".into(), database.into()]
    }
}

/// What `tests/peers/install --clients` adds.
#[derive(Clone, Debug)]
pub struct Clients {
    folder: PathBuf,
}

impl Clients {
    /// Codex.
    pub fn codex(&self) -> Command {
        Command::new(self.folder.join("node_modules/.bin/codex"))
    }

    /// opencode, as its package for this machine has it: the script that would choose among them is not run.
    pub fn opencode(&self) -> Command {
        Command::new(self.folder.join("node_modules/opencode-linux-x64/bin/opencode"))
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}
