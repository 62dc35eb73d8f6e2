//! Somebody's own plugin: installed, in force from the next call on, refused, changed behind Callgate's back, and gone again.
//!
//! Where no toolchain is needed the plugin is the shipped `rules` under another name: to Callgate a file like any other.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use callgate_tests::command::Finished;
use callgate_tests::home::Home;
#[cfg(target_os = "linux")]
use callgate_tests::program;
use callgate_tests::session::Session;
use serde_json::{Value, json};

use crate::kill::is_sound;

mod asking;
mod failing;
mod files;
mod refused;

/// The component that the tests install.
fn component() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist/rules.wasm")).unwrap()
}

/// The same plugin as another file: a section more, of which nobody takes notice.
fn other_component() -> Vec<u8> {
    // A custom section named `x`, empty.
    [component(), vec![0, 2, 1, b'x']].concat()
}

/// A file in the home, to be named on the command line.
fn write(home: &Home, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let file = home.path().join(name);
    fs::write(&file, bytes).unwrap();
    file.to_str().unwrap().to_owned()
}

fn config(home: &Home) -> Option<String> {
    fs::read_to_string(home.path().join("callgate.yaml")).ok()
}

/// The files in the plugin folder.
fn kept(home: &Home) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(home.path().join("plugins")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn plugin_kinds(home: &Home) -> Vec<String> {
    home.entries().into_iter().map(|entry| entry.kind).filter(|kind| kind.starts_with("plugin.")).collect()
}

/// Whether a call passes, and the code and the reason of its refusal if not.
fn outcome(session: &mut Session, id: &str, tool: &str) -> Result<(), (String, String)> {
    let answer = session.call(id, tool, "{}");
    let refusal = &answer["result"]["_meta"]["dev.callgate/decision"];
    let text = |member: &str| refusal[member].as_str().unwrap_or_default().to_owned();
    if refusal.is_null() { Ok(()) } else { Err((text("code"), text("reason"))) }
}

fn code(session: &mut Session, id: &str, tool: &str) -> Option<String> {
    outcome(session, id, tool).err().map(|(code, _)| code)
}

/// Installs the component as `guard`, set to deny `tool`.
fn install(home: &Home, tool: &str) {
    let file = write(home, "guard.wasm", component());
    let settings = write(home, "settings.json", json!({"rules": [{"effect": "deny", "tool": tool}]}).to_string());
    let installed = home.ok(&["plugin", "install", &file, "--name", "guard", "--settings", &settings, "--yes"]);
    assert!(installed.stdout.starts_with("installed: guard (sha256:"), "{installed:?}");
}

/// Runs a command on a terminal of its own, where somebody types this. What is shown and what is printed both stand in `stdout`.
#[cfg(target_os = "linux")]
fn on_a_terminal(home: &Home, arguments: &[&str], typed: &str) -> Finished {
    use std::io::Write as _;
    use std::process::Stdio;

    let quoted: Vec<String> = arguments.iter().map(|argument| format!("'{argument}'")).collect();
    let line = format!("'{}' {}", program::callgate().display(), quoted.join(" "));
    let mut script = std::process::Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("CALLGATE_HOME", home.path());
    let spawned = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut script = spawned.expect("script(1) of util-linux is there");
    script.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    Finished::from(script.wait_with_output().unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn a_person_at_a_terminal_is_asked_and_only_yes_installs() {
    let home = Home::new();
    let file = write(&home, "guard.wasm", component());
    let install = ["plugin", "install", &file, "--name", "guard"];
    for no in ["n\n", "\n", "yeah\n", ""] {
        let refused = on_a_terminal(&home, &install, no).exits(1);
        assert!(refused.stdout.contains("Put it into the chain? [y/N]"), "{refused:?}");
        assert!(refused.stdout.contains("nothing was changed"), "{refused:?}");
        assert_eq!((config(&home), kept(&home)), (None, Vec::new()));
    }
    let installed = on_a_terminal(&home, &install, "y\n").exits(0);
    assert!(installed.stdout.contains("installed: guard (sha256:"), "{installed:?}");
    assert_eq!(kept(&home).len(), 1);
    let again = on_a_terminal(&home, &install, "Yes\n").exits(0);
    assert!(again.stdout.contains("Put this in its place? [y/N]"), "{again:?}");
}

#[test]
fn an_installed_plugin_denies_from_the_next_call_on_until_it_is_removed() {
    let mut session = Session::new();
    assert_eq!(code(&mut session, "1", "drop"), None);
    install(&session.home, "drop");
    assert_eq!(code(&mut session, "2", "drop").as_deref(), Some("guard/deny"));
    assert_eq!(code(&mut session, "3", "echo"), None);
    let decision = session.home.decisions().pop().unwrap();
    let asked: Vec<&Value> = decision["chain"].as_array().unwrap().iter().map(|member| &member["plugin"]).collect();
    assert_eq!(asked.last().unwrap().as_str(), Some("guard"));

    let removed = session.home.ok(&["plugin", "remove", "guard"]);
    assert!(removed.stdout.starts_with("removed: guard"), "{removed:?}");
    assert_eq!(code(&mut session, "4", "drop"), None);
    let home = session.end();
    assert_eq!(plugin_kinds(&home), ["plugin.add", "plugin.remove"]);
    is_sound(&home);
}

#[test]
fn an_installed_plugin_is_there_after_a_restart() {
    let home = Home::new();
    install(&home, "drop");
    home.stop_daemon();
    let mut session = Session::within(home);
    assert_eq!(code(&mut session, "1", "drop").as_deref(), Some("guard/deny"));
    let home = session.end();
    assert_eq!(plugin_kinds(&home), ["plugin.add"], "a restart changes nothing");
    is_sound(&home);
}

#[test]
fn its_allow_counts_only_where_it_may_grant() {
    let home = Home::configured("default: deny");
    let file = write(&home, "guard.wasm", component());
    let install = |more: &[&str]| home.ok(&[&["plugin", "install", &file, "--name", "guard", "--yes"], more].concat());
    install(&[]);
    let opinion = |explained: &Value| explained["opinions"].as_array().unwrap().last().unwrap().clone();
    let _ = home.ok(&["policy", "ask", "x"]);
    let explained = home.run(&["policy", "explain", "x", "--json"]).exits(1).json();
    assert_eq!(opinion(&explained), json!({"plugin": "guard", "verdict": "allow", "rule": null}));
    let shown = home.ok(&["plugin", "show", "guard", "--json"]).json();
    assert_eq!(shown["config"].get("may_grant"), None);
    install(&["--may-grant"]);
    assert_eq!(home.ok(&["plugin", "show", "guard", "--json"]).json()["config"]["may_grant"], true);
    // What was granted has to be granted again.
    install(&[]);
    assert_eq!(home.ok(&["plugin", "show", "guard", "--json"]).json()["config"].get("may_grant"), None);
    assert_eq!(plugin_kinds(&home), ["plugin.add", "plugin.change", "plugin.change"]);
}

#[test]
fn the_configuration_keeps_what_a_person_wrote_in_it() {
    let home = Home::new();
    let yaml =
        "# mine\nversion: 1   # the only one\n\n# why\nrecord: full # all\nrelay: { decision_deadline: 3s }  # long\n";
    fs::write(home.path().join("callgate.yaml"), yaml).unwrap();
    install(&home, "drop");
    let with = config(&home).unwrap();
    assert!(with.starts_with(yaml), "{with}");
    assert!(with.contains("plugins:\n- name: guard\n  digest: "), "{with}");
    let _ = home.ok(&["plugin", "remove", "guard"]);
    assert_eq!(config(&home).unwrap(), format!("{yaml}plugins: []\n"));
}

#[test]
fn plugins_are_listed_and_shown() {
    let home = Home::new();
    assert!(home.ok(&["plugin", "list"]).stdout.starts_with("rules (shipped)\n"));
    install(&home, "drop");
    let listed = home.ok(&["plugin", "list", "--json"]).json();
    let guard = listed["plugins"].as_array().unwrap().last().unwrap();
    assert_eq!((&listed["schema"], &guard["name"], &guard["shipped"]), (&json!(1), &json!("guard"), &json!(false)));
    assert_eq!((&guard["in_force"], &guard["problems"]), (&json!(true), &json!([])));
    assert_eq!(guard["config"]["settings"], json!({"rules": [{"effect": "deny", "tool": "drop"}]}));
    let shown = home.ok(&["plugin", "show", "guard", "--json"]).json();
    assert_eq!(shown["asks"]["id"], "rules");
    assert_eq!(shown["asks"]["hooks"], json!(["call-policy"]));
    assert_eq!(shown["asks"]["capabilities"], json!(["log"]));
    let text = home.ok(&["plugin", "show", "guard"]).stdout;
    assert!(text.contains("  may grant no\n") && text.contains("  hooks     call-policy\n"), "{text}");
    // Without a daemon too, only that nobody can say what is in force.
    home.stop_daemon();
    let listed = home.ok(&["plugin", "list", "--json"]).json();
    assert_eq!(listed["plugins"].as_array().unwrap().last().unwrap().get("in_force"), None);
    assert!(home.daemons().is_empty());
    let none = home.run(&["plugin", "show", "nobody"]).exits(2);
    assert!(none.stderr.contains("there is no plugin named nobody\nhint: callgate plugin list"), "{none:?}");
}
