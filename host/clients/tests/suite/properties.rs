//! What holds for every file, in each client's own dialect.

use std::fmt::Write;

use callgate_clients::backup::{Backups, Restored};
use callgate_clients::client::Client;
use callgate_clients::file::Snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::{CALLGATE, wrapped};

/// One client for each dialect and form.
const CLIENTS: [Client; 6] =
    [Client::ClaudeDesktop, Client::Gemini, Client::VsCode, Client::Codex, Client::Goose, Client::OpenCode];

/// How a person's editor writes.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
struct Style {
    crlf: bool,
    tabs: bool,
    comments: bool,
    trailing_commas: bool,
    bom: bool,
    final_line_end: bool,
    list_in_lines: bool,
}

#[derive(Clone, Debug)]
struct Server {
    command: String,
    args: Option<Vec<String>>,
    env: String,
    is_http: bool,
}

/// A file as pieces: those with `true` have to stay as they are.
type Pieces = Vec<(String, bool)>;

fn style() -> impl Strategy<Value = Style> {
    any::<[bool; 7]>().prop_map(|[crlf, tabs, comments, trailing_commas, bom, final_line_end, list_in_lines]| Style {
        crlf,
        tabs,
        comments,
        trailing_commas,
        bom,
        final_line_end,
        list_in_lines,
    })
}

fn server() -> impl Strategy<Value = Server> {
    let text = "[ -~äß✓\\t\\n]{1,12}";
    (text, proptest::option::of(proptest::collection::vec(text, 0..4)), "[ -~✓]{0,12}", any::<bool>())
        .prop_map(|(command, args, env, is_http)| Server { command, args, env, is_http })
}

fn quoted(text: &str) -> String {
    json!(text).to_string()
}

fn list(items: &[String], style: &Style, indent: &str) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    if style.list_in_lines && !items.is_empty() {
        let deep = format!("{indent}  ");
        return format!("[\n{deep}{}\n{indent}]", items.join(&format!(",\n{deep}")));
    }
    format!("[{}]", items.join(", "))
}

/// The command of a server, as its client writes it.
fn command(client: Client, server: &Server, style: &Style, indent: &str) -> String {
    let key = |key: &str| if client == Client::Codex { format!("{key} = ") } else { format!("{}: ", quoted(key)) };
    let args = server.args.as_ref();
    match client {
        Client::Goose => {
            let mut text = format!("cmd: {}", quoted(&server.command));
            match args {
                Some(args) if args.is_empty() || !style.list_in_lines => {
                    let args: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
                    write!(text, "\n{indent}args: [{}]", args.join(", ")).unwrap();
                }
                Some(args) => {
                    write!(text, "\n{indent}args:").unwrap();
                    for arg in args {
                        write!(text, "\n{indent}- {}", quoted(arg)).unwrap();
                    }
                }
                None => {}
            }
            text
        }
        Client::OpenCode => {
            let words: Vec<String> =
                std::iter::once(&server.command).chain(args.into_iter().flatten()).cloned().collect();
            format!("{}{}", key("command"), list(&words, style, indent))
        }
        _ => {
            let between = if client == Client::Codex { "\n" } else { ",\n" };
            let args = args.map(|args| format!("{between}{indent}{}{}", key("args"), list(args, style, indent)));
            format!("{}{}{}", key("command"), quoted(&server.command), args.unwrap_or_default())
        }
    }
}

fn json_file(client: Client, servers: &[Server], style: &Style) -> Pieces {
    let (section, env) = match client {
        Client::VsCode => ("servers", "env"),
        Client::OpenCode => ("mcp", "environment"),
        _ => ("mcpServers", "env"),
    };
    let indent = if style.tabs { "\t\t\t" } else { "      " };
    let comments = style.comments && client != Client::ClaudeDesktop;
    let trailing = if style.trailing_commas && matches!(client, Client::VsCode | Client::OpenCode) { "," } else { "" };
    let note = |text: &str| if comments { format!(" // {text}, \"x\": {{") } else { String::new() };
    let mut pieces: Pieces =
        vec![(format!("{{{}\n \"other\": [1, 2.50, null],\n \"{section}\": {{", note("top")), true)];
    for (at, server) in servers.iter().enumerate() {
        let comma = if at + 1 < servers.len() { "," } else { trailing };
        let block = if comments { "/* before */ " } else { "" };
        if server.is_http {
            let entry =
                format!("\n  {block}\"s{at}\": {{\"url\" : \"https://x/\",  \"headers\":{{}}}}{comma}{}", note("http"));
            pieces.push((entry, true));
            continue;
        }
        pieces.push((format!("\n  \"s{at}\": {{{}\n{indent}{block}", note("entry")), true));
        pieces.push((command(client, server, style, indent), false));
        let env =
            format!(",\n{indent}\"{env}\": {{\"A\": {}}}{trailing}{}\n  }}{comma}", quoted(&server.env), note("env"));
        pieces.push((env, true));
    }
    pieces.push((format!("\n }}{trailing}\n}}{}", note("end")), true));
    pieces
}

fn toml_file(servers: &[Server], style: &Style) -> Pieces {
    let indent = if style.tabs { "\t" } else { "" };
    let note = |text: &str| if style.comments { format!(" # {text} [x]") } else { String::new() };
    let mut pieces: Pieces = vec![(format!("model = 'x'{}\n", note("top")), true)];
    for (at, server) in servers.iter().enumerate() {
        pieces.push((format!("\n[mcp_servers.s{at}]{}\n{indent}", note("entry")), true));
        if server.is_http {
            pieces.push((format!("url   = \"https://x/\"{}\n", note("http")), true));
            continue;
        }
        pieces.push((command(Client::Codex, server, style, indent), false));
        let env = quoted(&server.env.replace('\\', ""));
        pieces.push((format!("\n{indent}cwd = '/x' {}\n[mcp_servers.s{at}.env]\nA={env}", note("env")), true));
    }
    pieces.push(("\n[tail]\nx = 1".to_owned(), true));
    pieces
}

fn yaml_file(servers: &[Server], style: &Style) -> Pieces {
    let note = |text: &str| if style.comments { format!("  # {text}: [x]") } else { String::new() };
    let mut pieces: Pieces = vec![(format!("GOOSE_MODE: auto{}\nextensions:", note("top")), true)];
    if servers.is_empty() {
        pieces.push((" {}".to_owned(), true));
    }
    for (at, server) in servers.iter().enumerate() {
        pieces.push((format!("\n  s{at}:{}\n    enabled: true\n    ", note("entry")), true));
        if server.is_http {
            pieces.push((format!("uri:   https://x/{}", note("http")), true));
            continue;
        }
        pieces.push((command(Client::Goose, server, style, "    "), false));
        pieces.push((format!("\n    envs:{}\n      A: {}\n    timeout: 300", note("env"), quoted(&server.env)), true));
    }
    pieces.push((format!("\nlast: 1{}", note("end")), true));
    pieces
}

fn pieces(client: Client, servers: &[Server], style: &Style) -> Pieces {
    let mut pieces = match client {
        Client::Codex => toml_file(servers, style),
        Client::Goose => yaml_file(servers, style),
        _ => json_file(client, servers, style),
    };
    if style.bom {
        pieces.insert(0, ("\u{feff}".to_owned(), true));
    }
    if style.final_line_end {
        pieces.push(("\n".to_owned(), true));
    }
    if style.crlf {
        for (text, _) in &mut pieces {
            *text = text.replace('\n', "\r\n");
        }
    }
    pieces
}

/// What the file says of its servers, as a parser reads it that has no part in the edit.
fn meaning(client: Client, text: &str) -> Option<Value> {
    let text = text.trim_start_matches('\u{feff}');
    match client {
        Client::ClaudeDesktop => Some(serde_json::from_str::<Value>(text).unwrap()["mcpServers"].take()),
        Client::Goose => Some(serde_saphyr::from_str::<Value>(text).unwrap()["extensions"].take()),
        _ => None,
    }
}

fn expected(client: Client, server: &Server, at: usize) -> Value {
    let front = ["run", "--server", &format!("s{at}"), "--agent", client.name(), "--", &server.command];
    let args = front.into_iter().map(str::to_owned).chain(server.args.clone().into_iter().flatten());
    json!(args.collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rewritten_file_says_the_same_and_one_more_time_changes_nothing(
        style in style(),
        servers in proptest::collection::vec(server(), 0..4),
    ) {
        for client in CLIENTS {
            let pieces = pieces(client, &servers, &style);
            let text: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
            let once = wrapped(client, &text);
            prop_assert_eq!(&wrapped(client, &once), &once, "{} a second time", client);

            let mut place = 0;
            for (piece, _) in pieces.iter().filter(|(_, stays)| *stays) {
                let found = once[place..].find(piece.as_str());
                prop_assert!(found.is_some(), "{}: {:?} is not in its place in\n{}", client, piece, once);
                place += found.unwrap() + piece.len();
            }
            if servers.iter().all(|server| server.is_http) {
                prop_assert_eq!(&once, &text);
            }

            let Some(meaning) = meaning(client, &once) else { continue };
            for (at, server) in servers.iter().enumerate().filter(|(_, server)| !server.is_http) {
                let entry = &meaning[format!("s{at}")];
                let command = if client == Client::Goose { "cmd" } else { "command" };
                prop_assert_eq!(&entry[command], CALLGATE);
                prop_assert_eq!(&entry["args"], &expected(client, server, at));
            }
        }
    }
}

proptest! {
    // Every file of every case is written to the disk and made sure to be there, three times.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rewritten_file_comes_back_to_the_byte(
        style in style(),
        servers in proptest::collection::vec(server(), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let backups = Backups::new(folder.path().join("backups"));
        for client in CLIENTS {
            let text: String = pieces(client, &servers, &style).into_iter().map(|(text, _)| text).collect();
            let path = folder.path().join(client.name());
            std::fs::write(&path, &text).unwrap();
            let file = Snapshot::read(&path).unwrap().unwrap();
            let rewritten = wrapped(client, &text);
            let backup = backups.keep(client.name(), &file, rewritten.as_bytes()).unwrap();
            file.replace(rewritten.as_bytes()).unwrap();
            prop_assert_eq!(std::fs::read_to_string(&path).unwrap(), &*rewritten);
            let restored = backups.restore(&backup).unwrap();
            let there = path.canonicalize().unwrap();
            prop_assert_eq!(restored, if rewritten == text { Restored::Already(there) } else { Restored::Done(there) });
            prop_assert_eq!(std::fs::read_to_string(&path).unwrap(), &*text);
        }
    }
}
