//! Files as nobody would write them, and as some are.

use std::time::{Duration, Instant};

use callgate_clients::client::Client;
use callgate_clients::plan::{PlanError, Status};
use serde_json::{Value, json};

use crate::fixture::{Asked, plan, wrapped};

/// The statuses of a file's entries.
fn statuses(client: Client, text: &str) -> Vec<(String, Status)> {
    let plan = plan(client, text, Asked::default()).unwrap();
    plan.entries.into_iter().map(|planned| (planned.entry.name, planned.status)).collect()
}

/// Why a file is not edited.
fn refusal(client: Client, text: &str) -> String {
    match plan(client, text, Asked::default()) {
        Ok(_) => panic!("{text:?} is edited"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_key_that_stands_twice_is_refused_by_name_in_every_dialect() {
    for (client, text) in [
        (Client::ClaudeCode, "{\"mcpServers\": {\"a\": {\"command\": \"x\",\n\"command\": \"y\"}}}"),
        (Client::Zed, "{\"context_servers\": {}, // c\n\"context_servers\": {},}"),
        (Client::Goose, "extensions:\n  a: {cmd: x}\n  a: {cmd: y}\n"),
        (Client::Codex, "[mcp_servers.a]\ncommand = 'x'\ncommand = 'y'\n"),
    ] {
        let refusal = refusal(client, text);
        assert!(
            refusal.contains("line ") && (refusal.contains("twice") || refusal.contains("duplicate")),
            "{client}: {refusal}"
        );
    }
}

#[test]
fn each_client_reads_its_own_dialect_and_no_other() {
    let comment = "{\"mcpServers\": {} /* c */}";
    let trailing = "{\"mcpServers\": {},}";
    assert!(refusal(Client::ClaudeCode, comment).contains("line 1"));
    assert!(refusal(Client::ClaudeDesktop, trailing).contains("line 1"));
    assert!(statuses(Client::Gemini, comment).is_empty());
    assert!(refusal(Client::Gemini, trailing).contains("line 1"));
    assert!(statuses(Client::OpenCode, trailing).is_empty());
    assert!(refusal(Client::Codex, "{}").contains("line 1"));
    assert!(refusal(Client::Goose, "a: [\n").contains("line "));
    assert!(refusal(Client::Goose, "a: 1\n---\na: 2\n").contains("more than one document"));
}

#[test]
fn what_is_no_text_or_no_table_is_refused() {
    let place = callgate_clients::client::Place { client: Client::Cursor, path: "/x".into(), shared: false };
    let wanted = callgate_clients::plan::Wanted {
        callgate: "/opt/callgate",
        repoint: false,
        exists: &|_| false,
        moving: &|_| false,
        taken: &|_| false,
    };
    let refused = callgate_clients::plan::Plan::of(&place, b"{\"a\": \"\xff\"}", &wanted);
    assert!(matches!(refused, Err(PlanError::Unreadable(callgate_clients::Unreadable::NotText))));
    assert!(refusal(Client::Cursor, "[1]").contains("something else than keys"));
    assert!(refusal(Client::Cursor, "{\"mcpServers\": [\"a\"]}").contains("mcpServers"));
    assert!(statuses(Client::Cursor, "").is_empty());
    assert!(statuses(Client::Cursor, "{\"mcpServers\": null}").is_empty());
    assert!(statuses(Client::Goose, "# nothing yet\n").is_empty());
    assert!(statuses(Client::Goose, "extensions:\n").is_empty());
}

#[test]
fn no_error_shows_what_stands_in_the_file() {
    for client in Client::ALL {
        let text = "ghp_0123456789abcdefghij: \"\n\t{ ghp_0123456789abcdefghij";
        if let Err(error) = plan(client, text, Asked::default()) {
            assert!(!error.to_string().contains("ghp_"), "{client}: {error}");
        }
    }
}

#[test]
fn every_kind_of_entry_is_told_apart() {
    let text = json!({ "mcpServers": {
        "fs": { "command": "npx" },
        "off": { "command": "npx", "disabled": true },
        "again": { "command": "/opt/callgate", "args": ["run", "--server", "again", "--", "x"] },
        "moved": { "command": "/usr/bin/callgate", "args": ["run", "--server=moved", "--", "x"] },
        "stale": { "command": "/gone/callgate", "args": ["run", "--server", "stale", "--", "x"] },
        "other": { "command": "/usr/bin/callgate", "args": ["version"] },
        "web": { "type": "http", "url": "https://x/" },
        "surf": { "serverUrl": "https://x/" },
        "auth": { "url": "https://x/", "oauth": { "clientId": "x" } },
        "a b": { "command": "npx" },
        "taken": { "command": "npx" },
        "both": { "command": "npx", "url": "https://x/" },
        "neither": {},
        "text": "npx",
        "numbers": { "command": "npx", "args": [1] },
        "empty": { "command": "" },
    }});
    let text = text.to_string();
    let named = |name: &str| {
        let found = statuses(Client::Cursor, &text);
        found.into_iter().find(|(there, _)| there == name).unwrap().1
    };
    for (name, status) in [
        ("fs", Status::Wrapped),
        ("off", Status::Wrapped),
        ("again", Status::Already),
        ("moved", Status::OtherPath),
        ("stale", Status::StalePath),
        ("other", Status::Wrapped),
        ("web", Status::Http),
        ("surf", Status::Http),
        ("auth", Status::OAuth),
        ("a b", Status::InvalidName),
        ("taken", Status::NameTaken),
        ("both", Status::Unrecognised),
        ("neither", Status::Unrecognised),
        ("text", Status::Unrecognised),
        ("numbers", Status::Unrecognised),
        ("empty", Status::Unrecognised),
    ] {
        assert_eq!(named(name), status, "{name}");
    }
    let repointed = plan(Client::Cursor, &text, Asked { repoint: true, ..Asked::default() }).unwrap();
    let back: Value = serde_json::from_str(repointed.text().unwrap()).unwrap();
    for name in ["moved", "stale"] {
        assert_eq!(back["mcpServers"][name]["command"], "/opt/callgate");
        assert_eq!(back["mcpServers"][name]["args"].as_array().unwrap().last().unwrap(), "x");
    }
}

#[test]
fn what_yaml_shares_is_left_alone() {
    let text = "base: &base {cmd: x, type: stdio}\nextensions:\n  a: *base\n  b: &b\n    cmd: y\n  c:\n    <<: *base\n    timeout: 3\n  d:\n    cmd: !tag z\n  e:\n    cmd: |\n      q\n  f:\n    cmd: ok\n";
    let found = statuses(Client::Goose, text);
    let wrapped_ones: Vec<&str> =
        found.iter().filter(|(_, status)| *status == Status::Wrapped).map(|(name, _)| name.as_str()).collect();
    assert_eq!((found.len(), wrapped_ones), (6, vec!["f"]));
}

#[test]
fn opencode_has_its_servers_in_one_of_two_places() {
    let newer = "{\"mcp\": {\"servers\": {\"a\": {\"type\": \"local\", \"command\": [\"x\"]}}}}";
    assert_eq!(statuses(Client::OpenCode, newer), [("a".to_owned(), Status::Wrapped)]);
    let named_so = "{\"mcp\": {\"servers\": {\"type\": \"local\", \"command\": [\"x\"]}}}";
    assert_eq!(statuses(Client::OpenCode, named_so), [("servers".to_owned(), Status::Wrapped)]);
}

#[test]
fn variables_stay_as_they_are_written() {
    let text = "{\"servers\": {\"a\": {\"command\": \"${workspaceFolder}/s\", \"args\": [\"${input:key}\", \"$HOME\"]}}, \"inputs\": [{\"id\": \"key\"}]}";
    assert_eq!(
        wrapped(Client::VsCode, text),
        "{\"servers\": {\"a\": {\"command\": \"/opt/callgate\", \"args\": [\"run\", \"--server\", \"a\", \"--agent\", \"vscode\", \"--\", \"${workspaceFolder}/s\", \"${input:key}\", \"$HOME\"]}}, \"inputs\": [{\"id\": \"key\"}]}"
    );
}

#[test]
fn five_megabytes_of_state_stay_but_for_the_entries() {
    let project = |number: usize| {
        let history: Vec<String> =
            (0..40).map(|line| format!("{number}-{line} {}", "word \"quoted\" ä ".repeat(6))).collect();
        let server = json!({ "command": "npx", "args": ["-y", "x"], "env": { "N": number.to_string() } });
        (format!("/home/me/project-{number}"), json!({ "history": history, "mcpServers": { "fs": server } }))
    };
    let projects: serde_json::Map<String, Value> = (0..1_000).map(project).collect();
    let state = json!({ "numStartups": 7, "mcpServers": { "top": { "command": "uvx" } }, "projects": projects });
    let text = serde_json::to_string_pretty(&state).unwrap();
    assert!(text.len() > 5_000_000, "{}", text.len());
    let began = Instant::now();
    let plan = plan(Client::ClaudeCode, &text, Asked::default()).unwrap();
    let diff = plan.diff("x");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(plan.entries.len(), 1_001);
    let back = plan.text().unwrap();
    let kept: Vec<&str> = back.lines().filter(|line| line.contains("quoted")).collect();
    assert_eq!(kept.len(), 40_000);
    let mut state: Value = serde_json::from_str(back).unwrap();
    for (_, project) in state["projects"].as_object_mut().unwrap() {
        let fs = &mut project["mcpServers"]["fs"];
        assert_eq!(fs["command"], "/opt/callgate");
        *fs = json!({ "command": "npx", "args": ["-y", "x"], "env": fs["env"] });
    }
    state["mcpServers"]["top"] = json!({ "command": "uvx" });
    assert_eq!(state, serde_json::from_str::<Value>(&text).unwrap());
    assert!(diff.contains("+          \"command\": \"/opt/callgate\""), "{}", &diff[..2_000]);
}

#[test]
fn a_diff_shows_no_secret() {
    let secrets =
        ["ghp_0123456789abcdefghij", "hunter2-and-more", "plain-value", "sk-0123456789abcdef", "Bearer abcdefghijkl"];
    let json = format!(
        "{{\"mcpServers\": {{\"a\": {{\"command\": \"x\", // {0}\n\"args\": [\"--api-key\", \"{1}\", \"--token={1}\", \"{3}\"],\n\"env\": {{\"A\": \"{2}\", \"B\": \"${{B}}\"}}}},\n\"b\": {{\"url\": \"u\", \"headers\": {{\"Authorization\": \"{4}\"}}}}}}}}",
        secrets[0], secrets[1], secrets[2], secrets[3], secrets[4]
    );
    let toml = format!(
        "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"{3}\"]\nenv = {{ A = \"{2}\", KEY = '''{1}''' }} # {0}\n[mcp_servers.b]\nurl = \"u\"\nhttp_headers = {{ X = \"{4}\" }}\n",
        secrets[0], secrets[1], secrets[2], secrets[3], secrets[4]
    );
    let yaml = format!(
        "extensions:\n  a:\n    cmd: x # {0}\n    args: [\"{3}\"]\n    envs:\n      A: {2}\n      K: |\n        {1}\n  b:\n    uri: u\n    headers: {{X: {4}}}\n",
        secrets[0], secrets[1], secrets[2], secrets[3], secrets[4]
    );
    for (client, text) in [(Client::Cursor, json), (Client::Codex, toml), (Client::Goose, yaml)] {
        let diff = plan(client, &text, Asked::default()).unwrap().diff("f");
        assert!(diff.contains("/opt/callgate") && diff.contains("***"), "{diff}");
        for secret in secrets {
            assert!(!diff.contains(secret), "{client}: {secret} in\n{diff}");
        }
    }
}
