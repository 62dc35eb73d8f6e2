//! The MCP clients Callgate knows: where each keeps its configuration, and how it writes down a server.
//!
//! The tables say what the clients' own documentation and sources say; which files there are is for others to find out.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::syntax::Dialect;

/// A client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Codex, its command line and its extensions.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Cline, the extension of Visual Studio Code and its command line.
    Cline,
    /// Goose.
    Goose,
    /// opencode.
    OpenCode,
    /// GitHub Copilot CLI.
    Copilot,
}

/// The systems whose paths are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Platform {
    /// Linux, and what keeps to the XDG base directories.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// The system that this was built for.
    pub const HERE: Self = if cfg!(target_os = "macos") {
        Self::MacOs
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };
}

/// The folders that the clients' files are found from.
#[derive(Clone, Default, Debug)]
pub struct Folders {
    /// The user's own folder. Nothing is found without it.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`; on Linux `~/.config` without it.
    pub xdg_config: Option<PathBuf>,
    /// `APPDATA`, on Windows; `AppData\Roaming` of the user's folder without it.
    pub app_data: Option<PathBuf>,
    /// `CODEX_HOME`: where Codex keeps its files.
    pub codex: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`: where Claude Code keeps its files.
    pub claude: Option<PathBuf>,
}

/// One configuration file of a client, whether it is there or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Whose it is.
    pub client: Client,
    /// Where it is.
    pub path: PathBuf,
    /// Whether other clients read the same file, so that it cannot say which one starts a server.
    pub shared: bool,
}

/// How a file of a client is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) dialect: Dialect,
    pub(crate) section: Section,
    pub(crate) form: Form,
}

/// Where in a file the servers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    /// In the table of this name at the top.
    Key(&'static str),
    /// In `mcpServers` at the top, and in `mcpServers` of every project of `projects`.
    WithProjects,
    /// In `mcp` at the top, or in its `servers`.
    OpenCode,
}

/// What the members of an entry are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) command: &'static str,
    /// `None` where the arguments stand in one list with the command.
    pub(crate) args: Option<&'static str>,
    pub(crate) env: &'static str,
}

const COMMAND_AND_ARGS: Form = Form { command: "command", args: Some("args"), env: "env" };

impl Client {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 12] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Zed,
        Self::Codex,
        Self::Gemini,
        Self::Cline,
        Self::Goose,
        Self::OpenCode,
        Self::Copilot,
    ];

    /// The name it is chosen by, and the agent that its configuration says it is.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cline => "cline",
            Self::Goose => "goose",
            Self::OpenCode => "opencode",
            Self::Copilot => "copilot",
        }
    }

    pub(crate) const fn format(self) -> Format {
        let (dialect, section, form) = match self {
            Self::ClaudeCode => (Dialect::Json, Section::WithProjects, COMMAND_AND_ARGS),
            Self::ClaudeDesktop | Self::Windsurf | Self::Cline | Self::Copilot => {
                (Dialect::Json, Section::Key("mcpServers"), COMMAND_AND_ARGS)
            }
            Self::Cursor | Self::Gemini => (Dialect::JsonWithComments, Section::Key("mcpServers"), COMMAND_AND_ARGS),
            Self::VsCode => (Dialect::JsonWithTrailingCommas, Section::Key("servers"), COMMAND_AND_ARGS),
            Self::Zed => (Dialect::JsonWithTrailingCommas, Section::Key("context_servers"), COMMAND_AND_ARGS),
            Self::Codex => (Dialect::Toml, Section::Key("mcp_servers"), COMMAND_AND_ARGS),
            Self::Goose => {
                let form = Form { command: "cmd", args: Some("args"), env: "envs" };
                (Dialect::Yaml, Section::Key("extensions"), form)
            }
            Self::OpenCode => {
                let form = Form { command: "command", args: None, env: "environment" };
                (Dialect::JsonWithTrailingCommas, Section::OpenCode, form)
            }
        };
        Format { dialect, section, form }
    }

    /// Its files for all of a user's work.
    pub fn user_files(self, platform: Platform, folders: &Folders) -> Vec<Place> {
        let Some(roots) = Roots::of(platform, folders) else { return Vec::new() };
        let paths = match self {
            Self::ClaudeCode => {
                vec![roots.at(folders.claude.as_ref().unwrap_or(&roots.home), &[".claude.json"])]
            }
            Self::ClaudeDesktop => vec![roots.at(&roots.config, &["Claude", "claude_desktop_config.json"])],
            Self::Cursor => vec![roots.at(&roots.home, &[".cursor", "mcp.json"])],
            Self::VsCode => vec![roots.at(&roots.config, &["Code", "User", "mcp.json"])],
            Self::Windsurf => vec![
                roots.at(&roots.home, &[".codeium", "windsurf", "mcp_config.json"]),
                roots.at(&roots.home, &[".codeium", "mcp_config.json"]),
            ],
            Self::Zed => roots.zed(),
            Self::Codex => match &folders.codex {
                Some(codex) => vec![roots.at(codex, &["config.toml"])],
                None => vec![roots.at(&roots.home, &[".codex", "config.toml"])],
            },
            Self::Gemini => vec![roots.at(&roots.home, &[".gemini", "settings.json"])],
            Self::Cline => {
                let extension = ["Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings"];
                let file = "cline_mcp_settings.json";
                let extension = roots.at(&roots.config, &extension);
                vec![roots.at(&extension, &[file]), roots.at(&roots.home, &[".cline", "data", "settings", file])]
            }
            Self::Goose => match platform {
                Platform::Windows => vec![roots.at(&roots.config, &["Block", "goose", "config", "config.yaml"])],
                Platform::Linux | Platform::MacOs => vec![roots.at(&roots.xdg, &["goose", "config.yaml"])],
            },
            Self::OpenCode => {
                ["opencode.json", "opencode.jsonc"].map(|file| roots.at(&roots.xdg, &["opencode", file])).into()
            }
            Self::Copilot => vec![roots.at(&roots.home, &[".copilot", "mcp-config.json"])],
        };
        self.places(paths, false)
    }

    /// Its files for one project, whose folder this is.
    pub fn project_files(self, platform: Platform, project: &std::path::Path) -> Vec<Place> {
        let at = |parts: &[&str]| join(platform, project, parts);
        // Claude Code and Copilot read one file, that a project hands to all who work on it.
        let shared = || self.places(vec![at(&[".mcp.json"])], true);
        match self {
            Self::ClaudeCode => shared(),
            Self::Copilot => [shared(), self.places(vec![at(&[".github", "mcp.json"])], false)].concat(),
            Self::Cursor => self.places(vec![at(&[".cursor", "mcp.json"])], false),
            Self::VsCode => self.places(vec![at(&[".vscode", "mcp.json"])], false),
            Self::Zed => self.places(vec![at(&[".zed", "settings.json"])], false),
            Self::Codex => self.places(vec![at(&[".codex", "config.toml"])], false),
            Self::Gemini => self.places(vec![at(&[".gemini", "settings.json"])], false),
            Self::Goose => self.places(vec![at(&[".goose", "config.yaml"])], false),
            Self::OpenCode => {
                let names = ["opencode.json", "opencode.jsonc"];
                let paths = [names.map(|name| at(&[name])), names.map(|name| at(&[".opencode", name]))].concat();
                self.places(paths, false)
            }
            Self::ClaudeDesktop | Self::Windsurf | Self::Cline => Vec::new(),
        }
    }

    fn places(self, paths: Vec<PathBuf>, shared: bool) -> Vec<Place> {
        paths.into_iter().map(|path| Place { client: self, path, shared }).collect()
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no client's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a client that Callgate knows")]
pub struct UnknownClient(String);

impl FromStr for Client {
    type Err = UnknownClient;

    fn from_str(name: &str) -> Result<Self, UnknownClient> {
        Self::ALL.into_iter().find(|client| client.name() == name).ok_or_else(|| UnknownClient(name.to_owned()))
    }
}

/// The folders that a system's files are below.
struct Roots {
    platform: Platform,
    home: PathBuf,
    /// Where programs with windows keep what they are told.
    config: PathBuf,
    /// Where those keep it that follow XDG on every system.
    xdg: PathBuf,
}

impl Roots {
    fn of(platform: Platform, folders: &Folders) -> Option<Self> {
        let home = folders.home.clone()?;
        let dot_config = || folders.xdg_config.clone().unwrap_or_else(|| join(platform, &home, &[".config"]));
        let config = match platform {
            Platform::Linux => dot_config(),
            Platform::MacOs => join(platform, &home, &["Library", "Application Support"]),
            Platform::Windows => {
                folders.app_data.clone().unwrap_or_else(|| join(platform, &home, &["AppData", "Roaming"]))
            }
        };
        Some(Self { platform, xdg: dot_config(), config, home })
    }

    fn at(&self, folder: &std::path::Path, parts: &[&str]) -> PathBuf {
        join(self.platform, folder, parts)
    }

    fn zed(&self) -> Vec<PathBuf> {
        let file = "settings.json";
        match self.platform {
            Platform::Linux => vec![self.at(&self.xdg, &["zed", file])],
            // Zed's documentation says the one, programs that write it the other.
            Platform::MacOs => vec![self.at(&self.xdg, &["zed", file]), self.at(&self.config, &["Zed", file])],
            Platform::Windows => vec![self.at(&self.config, &["Zed", file])],
        }
    }
}

/// A path in a system's own writing, whatever system this runs on.
fn join(platform: Platform, folder: &std::path::Path, parts: &[&str]) -> PathBuf {
    let separator = match platform {
        Platform::Linux | Platform::MacOs => "/",
        Platform::Windows => "\\",
    };
    let mut path = folder.as_os_str().to_owned();
    for part in parts {
        path.push(separator);
        path.push(part);
    }
    PathBuf::from(path)
}
