//! The environment variables that Callgate heeds, read once, here and nowhere else.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the environment says.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `CALLGATE_HOME`: one folder for everything.
    pub callgate_home: Option<PathBuf>,
    /// `CALLGATE_LOG`: how much the daemon's log says.
    pub log: Option<String>,
    /// `HOME`
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`
    pub config_home: Option<PathBuf>,
    /// `XDG_DATA_HOME`
    pub data_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`
    pub cache_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`
    pub runtime_dir: Option<PathBuf>,
    /// `PATH`: where programs are looked for, those of agents and of servers and this one.
    pub path: Option<OsString>,
    /// `CARGO`: what `plugin build` runs, when it is not the `cargo` of the path.
    pub cargo: Option<OsString>,
    /// `RUSTC`, as cargo heeds it.
    pub rustc: Option<OsString>,
    /// `CARGO_HOME`
    pub cargo_home: Option<PathBuf>,
    /// `APPDATA`: where programs on Windows keep what they are told.
    pub app_data: Option<PathBuf>,
    /// `CODEX_HOME`: where Codex keeps its files.
    pub codex_home: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`: where Claude Code keeps its files.
    pub claude_config_dir: Option<PathBuf>,
    /// `CREDENTIALS_DIRECTORY`: where systemd puts what it gives a service.
    pub credentials_directory: Option<PathBuf>,
}

impl Environment {
    /// Reads it.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn read() -> Self {
        // The XDG specification: an empty value counts as unset, a relative one is to be ignored.
        let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let tool = |name| env::var_os(name).filter(|tool| !tool.is_empty());
        Self {
            callgate_home: env::var_os("CALLGATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from),
            log: env::var("CALLGATE_LOG").ok().filter(|level| !level.is_empty()),
            home: folder("HOME"),
            config_home: folder("XDG_CONFIG_HOME"),
            data_home: folder("XDG_DATA_HOME"),
            cache_home: folder("XDG_CACHE_HOME"),
            runtime_dir: folder("XDG_RUNTIME_DIR"),
            path: env::var_os("PATH"),
            cargo: tool("CARGO"),
            rustc: tool("RUSTC"),
            cargo_home: folder("CARGO_HOME"),
            app_data: folder("APPDATA"),
            codex_home: folder("CODEX_HOME"),
            claude_config_dir: folder("CLAUDE_CONFIG_DIR"),
            credentials_directory: folder("CREDENTIALS_DIRECTORY"),
        }
    }
}
