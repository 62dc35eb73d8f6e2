//! Each client's own way to write down a server.

use callgate_clients::client::Client;

use crate::fixture::{Asked, plan, wrapped};

fn becomes(client: Client, before: &str, after: &str) {
    assert_eq!(wrapped(client, before), after);
    assert_eq!(wrapped(client, after), after, "a second time");
}

#[test]
fn json_keeps_its_lines_and_everything_else() {
    becomes(
        Client::Cursor,
        "{\n  // mine\n  \"mcpServers\": {\n    \"fs\": {\n      \"command\": \"npx\", // node\n      \"args\": [\n        \"-y\",\n        \"server-filesystem\"\n      ],\n      \"env\": {\"A\": \"1\"}\n    },\n    \"plain\": {\"command\": \"uvx\"}\n  }\n}\n",
        "{\n  // mine\n  \"mcpServers\": {\n    \"fs\": {\n      \"command\": \"/opt/callgate\", // node\n      \"args\": [\n        \"run\",\n        \"--server\",\n        \"fs\",\n        \"--agent\",\n        \"cursor\",\n        \"--\",\n        \"npx\",\n        \"-y\",\n        \"server-filesystem\"\n      ],\n      \"env\": {\"A\": \"1\"}\n    },\n    \"plain\": {\"command\": \"/opt/callgate\", \"args\": [\"run\", \"--server\", \"plain\", \"--agent\", \"cursor\", \"--\", \"uvx\"]}\n  }\n}\n",
    );
}

#[test]
fn toml_keeps_tables_inline_tables_and_dotted_keys() {
    becomes(
        Client::Codex,
        "model = \"x\" # which\n\n[mcp_servers.fs]\ncommand = \"npx\" # node\nargs = [\n  # yes\n  \"-y\", 'server'\n]\n[mcp_servers.fs.env]\nA = \"1\"\n\n[mcp_servers.bare]\n  command = \"uvx\" # no arguments\n  startup_timeout_sec = 20\n\n[mcp_servers]\ninline = { command = \"x\", env = { B = \"2\" } }\ndotted.command = \"y\"\ndotted.cwd = \"/z\"\n",
        "model = \"x\" # which\n\n[mcp_servers.fs]\ncommand = \"/opt/callgate\" # node\nargs = [\n  # yes\n  \"run\",\n  \"--server\",\n  \"fs\",\n  \"--agent\",\n  \"codex\",\n  \"--\",\n  \"npx\",\n  \"-y\", 'server'\n]\n[mcp_servers.fs.env]\nA = \"1\"\n\n[mcp_servers.bare]\n  command = \"/opt/callgate\" # no arguments\n  args = [\"run\", \"--server\", \"bare\", \"--agent\", \"codex\", \"--\", \"uvx\"]\n  startup_timeout_sec = 20\n\n[mcp_servers]\ninline = { command = \"/opt/callgate\", args = [\"run\", \"--server\", \"inline\", \"--agent\", \"codex\", \"--\", \"x\"], env = { B = \"2\" } }\ndotted.command = \"/opt/callgate\"\ndotted.args = [\"run\", \"--server\", \"dotted\", \"--agent\", \"codex\", \"--\", \"y\"]\ndotted.cwd = \"/z\"\n",
    );
}

#[test]
fn yaml_keeps_blocks_and_flows() {
    becomes(
        Client::Goose,
        "# mine\nextensions:\n  fs: # files\n    name: fs\n    type: stdio\n    cmd: npx # node\n    args:\n      - -y # yes\n      - server\n    envs:\n      A: '1'\n    enabled: true\n  bare:\n    cmd: \"uvx\"   # alone\n    enabled: false\n    type: stdio\n  flow: {type: stdio, cmd: x, args: [a, b], timeout: 3}\n  same:\n    args:\n    - q\n    cmd: z\n  dev:\n    type: builtin\n    enabled: true\n",
        "# mine\nextensions:\n  fs: # files\n    name: fs\n    type: stdio\n    cmd: /opt/callgate # node\n    args:\n      - run\n      - \"--server\"\n      - fs\n      - \"--agent\"\n      - goose\n      - \"--\"\n      - npx\n      - -y # yes\n      - server\n    envs:\n      A: '1'\n    enabled: true\n  bare:\n    cmd: /opt/callgate   # alone\n    args: [run, \"--server\", bare, \"--agent\", goose, \"--\", uvx]\n    enabled: false\n    type: stdio\n  flow: {type: stdio, cmd: /opt/callgate, args: [run, \"--server\", flow, \"--agent\", goose, \"--\", x, a, b], timeout: 3}\n  same:\n    args:\n    - run\n    - \"--server\"\n    - same\n    - \"--agent\"\n    - goose\n    - \"--\"\n    - z\n    - q\n    cmd: /opt/callgate\n  dev:\n    type: builtin\n    enabled: true\n",
    );
}

#[test]
fn opencode_has_the_command_in_one_list() {
    becomes(
        Client::OpenCode,
        "{\"mcp\": {\"fs\": {\"type\": \"local\", \"command\": [\"npx\", \"-y\", \"x\",], \"enabled\": true,},},}",
        "{\"mcp\": {\"fs\": {\"type\": \"local\", \"command\": [\"/opt/callgate\", \"run\", \"--server\", \"fs\", \"--agent\", \"opencode\", \"--\", \"npx\", \"-y\", \"x\",], \"enabled\": true,},},}",
    );
}

#[test]
fn secrets_go_with_their_lines() {
    let moved = |client, text| {
        plan(client, text, Asked { moving: true, ..Asked::default() }).unwrap().text().unwrap().to_owned()
    };
    assert_eq!(
        moved(
            Client::Cursor,
            "{\"mcpServers\": {\"gh\": {\n  \"command\": \"npx\",\n  \"args\": [\"-y\", \"gh\"],\n  \"env\": {\n    \"LOG\": \"debug\",\n    \"GITHUB_TOKEN\": \"ghp_0123456789abcdef\" // mine\n  }\n}}}"
        ),
        "{\"mcpServers\": {\"gh\": {\n  \"command\": \"/opt/callgate\",\n  \"args\": [\"run\", \"--server\", \"gh\", \"--agent\", \"cursor\"],\n  \"env\": {\n    \"LOG\": \"debug\"\n    // mine\n  }\n}}}"
    );
    assert_eq!(
        moved(
            Client::Codex,
            "[mcp_servers.gh]\ncommand = \"npx\"\nargs = [\"gh\"]\n[mcp_servers.gh.env]\nGITHUB_TOKEN = \"ghp_0123456789abcdef\" # mine\nLOG = \"debug\"\n"
        ),
        "[mcp_servers.gh]\ncommand = \"/opt/callgate\"\nargs = [\"run\", \"--server\", \"gh\", \"--agent\", \"codex\"]\n[mcp_servers.gh.env]\nLOG = \"debug\"\n"
    );
    assert_eq!(
        moved(
            Client::Goose,
            "extensions:\n  gh:\n    cmd: npx\n    args:\n    - gh\n    envs:\n      GITHUB_TOKEN: ghp_0123456789abcdef # mine\n    enabled: true\n"
        ),
        "extensions:\n  gh:\n    cmd: /opt/callgate\n    args:\n    - run\n    - \"--server\"\n    - gh\n    - \"--agent\"\n    - goose\n    envs:\n      {} # mine\n    enabled: true\n"
    );
}
