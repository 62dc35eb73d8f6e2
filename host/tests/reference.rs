//! The generated pages of docs/reference are what the code says. `CALLGATE_UPDATE_REFERENCE=1 cargo test -p callgate`
//! writes them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;

use callgate::cli::Cli;
use callgate_core::code::Code;
use callgate_core::settle::Filing;

#[expect(clippy::disallowed_methods, reason = "a test has no environment module to ask")]
fn check(page: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference").join(page);
    if std::env::var_os("CALLGATE_UPDATE_REFERENCE").is_some() {
        fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/reference/{page} is stale: CALLGATE_UPDATE_REFERENCE=1 cargo test -p callgate");
}

#[test]
fn the_codes_page_is_the_enum() {
    let mut page = String::from(
        "# Codes\n\n<!-- generated from host/core/src/code.rs: CALLGATE_UPDATE_REFERENCE=1 cargo test -p callgate -->\n\n\
         Every refusal carries one of these in `_meta[\"dev.callgate/decision\"].code`, and so does its journal entry. A \
         `denied` is policy's no; an `error` means that no decision could be had, or that the frame was not one that can \
         be decided. The text of a code never changes its meaning.\n\n| code | filed as | meaning |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        let filing = match code.filing() {
            Filing::Allowed => "allowed",
            Filing::Denied => "denied",
            Filing::Error => "error",
        };
        let shown = if *code == Code::Policy { "<plugin>/<code>" } else { code.as_str() };
        writeln!(page, "| `{shown}` | {filing} | {} |", code.meaning().trim()).unwrap();
    }
    check("codes.md", &page);
}

#[test]
fn the_command_line_page_is_what_help_says() {
    let mut page = String::from(
        "# Command line\n\n<!-- generated from host/src/cli.rs: CALLGATE_UPDATE_REFERENCE=1 cargo test -p callgate -->\n\n\
         Data goes to stdout, everything else to stderr. `--json` prints one object with `\"schema\": 1`; the shapes are in \
         [json.md](json.md).\n\n| exit code | meaning |\n|---|---|\n\
         | 0 | done |\n\
         | 1 | the answer is no: `explain` would refuse, `verify` found a break, `status` has a problem, `doctor` found what fails, `demo` found something off, a plugin was not wanted or has a problem, a case came out otherwise |\n\
         | 2 | wrong usage or configuration |\n\
         | 3 | the environment: daemon unreachable or not running, disk full, nothing there to verify, a secret store that cannot be used, a server that is not started |\n\
         | 70 | a fault of Callgate's own |\n\
         | the server's | `run` ends with its server's exit status, 128 and the signal's number if a signal ended it, 126 or 127 if it could not be started |\n\n\
         | environment variable | meaning |\n|---|---|\n\
         | `CALLGATE_HOME` | one folder for everything; without it the XDG base directories |\n\
         | `CALLGATE_LOG` | how much the daemon's log says: `off`, `error`, `warn`, `info` (default), `debug`, `trace` |\n\
         | `PATH` | where programs are looked for: an agent's that is enrolled by its name, a server's, and by `init` and `doctor` this one |\n\
         | `CODEX_HOME`, `CLAUDE_CONFIG_DIR`, `XDG_CONFIG_HOME` | where `init` looks for clients' files, as the clients themselves heed them |\n\
         | `CARGO`, `RUSTC`, `CARGO_HOME` | what `plugin build` builds with, as cargo itself heeds them |\n\
         | `CREDENTIALS_DIRECTORY` | where systemd puts a service's credentials; `callgate-key` in it is the sealed file's key |\n",
    );
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&mut page, "", &mut command);
    check("cli.md", &page);
}

fn describe(page: &mut String, above: &str, command: &mut clap::Command) {
    let name = format!("{above}{}", command.get_name());
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
    for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
        describe(page, &format!("{name} "), sub);
    }
}

#[test]
fn the_contract_page_is_the_wit_folder() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../wit/0.1.0");
    let files = ["types", "lifecycle", "call-policy", "catalog-policy", "settings-check", "log", "world"];
    assert_eq!(fs::read_dir(&folder).unwrap().count(), files.len(), "a file of wit/0.1.0 is not on the page");
    let mut page = String::from(
        "# The plugin contract\n\n<!-- generated from wit/0.1.0: CALLGATE_UPDATE_REFERENCE=1 cargo test -p callgate -->\n\n\
         What the files of [wit/0.1.0](../../wit/0.1.0) say; what a later version may change is in \
         [VERSIONING.md](../../wit/VERSIONING.md).\n",
    );
    for file in files {
        Contract::default().read(&mut page, &fs::read_to_string(folder.join(format!("{file}.wit"))).unwrap());
    }
    check("wit.md", &page);
}

/// Reads a WIT file line by line. Knows the forms that the contract is written in, one item a line, and fails on any other:
/// a page that leaves something out is worse than none.
#[derive(Default)]
struct Contract {
    /// The comment above the next item.
    comment: Vec<String>,
    /// The headings that the line is under: an interface or a world, and in it a type.
    depth: usize,
    /// Whether the last line was a row, so that the next one needs no head.
    in_table: bool,
}

impl Contract {
    fn read(mut self, page: &mut String, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(comment) = line.strip_prefix("///") {
                self.comment.push(comment.strip_prefix(' ').unwrap_or(comment).to_owned());
            } else if line == "}" {
                self.depth -= 1;
                self.in_table = false;
            } else if let Some(opening) = line.strip_suffix(" {") {
                self.depth += 1;
                self.heading(page, self.depth + 1, opening);
            } else if let Some(item) = line.strip_suffix([',', ';']) {
                self.item(page, item);
            } else {
                panic!("the contract's page does not know how to show {line:?}");
            }
        }
        assert_eq!(self.depth, 0);
    }

    fn item(&mut self, page: &mut String, item: &str) {
        let word = item.split([' ', ':']).next().unwrap_or_default();
        match (self.depth, word) {
            (0, "package") => self.heading(page, 2, item),
            // What it brings in is named with its own interface.
            (1, "use") => assert!(self.comment.is_empty(), "{item}"),
            (1, "import" | "export" | "include") | (2, _) => self.row(page, item),
            (1, _) => self.heading(page, 3, item),
            _ => panic!("the contract's page does not know how to show {item:?}"),
        }
    }

    fn heading(&mut self, page: &mut String, level: usize, text: &str) {
        let comment = std::mem::take(&mut self.comment).join("\n");
        assert!(!comment.is_empty(), "{text} says nothing of itself");
        write!(page, "\n{} `{text}`\n\n{comment}\n", "#".repeat(level)).unwrap();
        self.in_table = false;
    }

    fn row(&mut self, page: &mut String, text: &str) {
        let comment = std::mem::take(&mut self.comment).join(" ");
        if !std::mem::replace(&mut self.in_table, true) {
            page.push_str("\n| | |\n|---|---|\n");
        }
        writeln!(page, "| `{text}` | {comment} |").unwrap();
    }
}
