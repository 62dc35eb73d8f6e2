//! Where each client keeps its files, on each system.

use std::path::Path;

use callgate_clients::client::{Client, Folders, Platform};

fn files(platform: Platform, home: &str, folders: Folders) -> Vec<String> {
    let folders = Folders { home: Some(home.into()), ..folders };
    let places = Client::ALL.iter().flat_map(|client| client.user_files(platform, &folders));
    places.map(|place| format!("{} {}", place.client, place.path.display())).collect()
}

#[test]
fn on_linux() {
    assert_eq!(
        files(Platform::Linux, "/home/me", Folders::default()),
        [
            "claude-code /home/me/.claude.json",
            "claude-desktop /home/me/.config/Claude/claude_desktop_config.json",
            "cursor /home/me/.cursor/mcp.json",
            "vscode /home/me/.config/Code/User/mcp.json",
            "windsurf /home/me/.codeium/windsurf/mcp_config.json",
            "windsurf /home/me/.codeium/mcp_config.json",
            "zed /home/me/.config/zed/settings.json",
            "codex /home/me/.codex/config.toml",
            "gemini /home/me/.gemini/settings.json",
            "cline /home/me/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "cline /home/me/.cline/data/settings/cline_mcp_settings.json",
            "goose /home/me/.config/goose/config.yaml",
            "opencode /home/me/.config/opencode/opencode.json",
            "opencode /home/me/.config/opencode/opencode.jsonc",
            "copilot /home/me/.copilot/mcp-config.json",
        ]
    );
}

#[test]
fn on_macos() {
    let files = files(Platform::MacOs, "/Users/me", Folders::default());
    for file in [
        "claude-desktop /Users/me/Library/Application Support/Claude/claude_desktop_config.json",
        "vscode /Users/me/Library/Application Support/Code/User/mcp.json",
        "zed /Users/me/.config/zed/settings.json",
        "zed /Users/me/Library/Application Support/Zed/settings.json",
        "goose /Users/me/.config/goose/config.yaml",
        "opencode /Users/me/.config/opencode/opencode.json",
        "claude-code /Users/me/.claude.json",
    ] {
        assert!(files.iter().any(|there| there == file), "{file}: {files:#?}");
    }
}

#[test]
fn on_windows() {
    let folders = Folders { app_data: Some(r"C:\Users\me\AppData\Roaming".into()), ..Folders::default() };
    let files = files(Platform::Windows, r"C:\Users\me", folders);
    for file in [
        r"claude-code C:\Users\me\.claude.json",
        r"claude-desktop C:\Users\me\AppData\Roaming\Claude\claude_desktop_config.json",
        r"vscode C:\Users\me\AppData\Roaming\Code\User\mcp.json",
        r"zed C:\Users\me\AppData\Roaming\Zed\settings.json",
        r"goose C:\Users\me\AppData\Roaming\Block\goose\config\config.yaml",
        r"cursor C:\Users\me\.cursor\mcp.json",
        r"codex C:\Users\me\.codex\config.toml",
    ] {
        assert!(files.iter().any(|there| there == file), "{file}: {files:#?}");
    }
}

#[test]
fn where_the_environment_says_so() {
    let folders = Folders {
        xdg_config: Some("/xdg".into()),
        codex: Some("/codex".into()),
        claude: Some("/claude".into()),
        ..Folders::default()
    };
    let files = files(Platform::Linux, "/home/me", folders);
    for file in ["claude-code /claude/.claude.json", "codex /codex/config.toml", "zed /xdg/zed/settings.json"] {
        assert!(files.iter().any(|there| there == file), "{file}: {files:#?}");
    }
}

#[test]
fn of_a_project() {
    let places = Client::ALL.iter().flat_map(|client| client.project_files(Platform::Linux, Path::new("/p")));
    let files: Vec<String> =
        places.map(|place| format!("{} {} {}", place.client, place.path.display(), place.shared)).collect();
    assert_eq!(
        files,
        [
            "claude-code /p/.mcp.json true",
            "cursor /p/.cursor/mcp.json false",
            "vscode /p/.vscode/mcp.json false",
            "zed /p/.zed/settings.json false",
            "codex /p/.codex/config.toml false",
            "gemini /p/.gemini/settings.json false",
            "goose /p/.goose/config.yaml false",
            "opencode /p/opencode.json false",
            "opencode /p/opencode.jsonc false",
            "opencode /p/.opencode/opencode.json false",
            "opencode /p/.opencode/opencode.jsonc false",
            "copilot /p/.mcp.json true",
            "copilot /p/.github/mcp.json false",
        ]
    );
}
