//! Files and configurations that somebody changed while Callgate did not look.

use std::fs;

use callgate_core::digest::Digest;
use callgate_tests::home::Home;
use callgate_tests::session::Session;

use super::{code, component, config, install, kept, other_component, outcome, plugin_kinds, write};
use crate::kill::is_sound;

#[test]
fn a_file_that_changed_denies_until_it_is_accepted_with_the_difference_shown() {
    let home = Home::new();
    install(&home, "drop");
    let [file] = &kept(&home)[..] else { panic!("{:?}", kept(&home)) };
    fs::write(file, other_component()).unwrap();
    let listed = home.run(&["plugin", "list"]).exits(1);
    assert!(listed.stdout.contains("changed: it has the digest"), "{listed:?}");
    home.stop_daemon();

    let mut session = Session::within(home);
    let (code_, reason) = outcome(&mut session, "1", "echo").unwrap_err();
    assert_eq!(code_, "plugin-not-ready", "{reason}");
    assert!(reason.contains("guard") && reason.contains("was accepted"), "{reason}");
    let status = session.home.run(&["daemon", "status"]).exits(1);
    assert!(status.stdout.contains("the plugin guard is not ready: "), "{status:?}");

    let changed = write(&session.home, "changed.wasm", other_component());
    let accepted = session.home.ok(&["plugin", "install", &changed, "--name", "guard", "--yes"]);
    let (old, new) = (Digest::of(&component()), Digest::of(&other_component()));
    for line in [&*format!("- digest    {old} ("), &*format!("\n+ digest    {new}\n"), "\n  may grant no"] {
        assert!(accepted.stderr.contains(line), "{line:?} is not in {}", accepted.stderr);
    }
    assert_eq!(code(&mut session, "2", "echo"), None);
    assert_eq!(code(&mut session, "3", "drop").as_deref(), Some("guard/deny"), "it keeps its settings");
    let home = session.end();
    assert_eq!(plugin_kinds(&home), ["plugin.add", "plugin.change"]);
    is_sound(&home);
}

#[test]
fn a_file_that_is_missing_denies_until_it_is_installed_again() {
    let home = Home::new();
    install(&home, "drop");
    home.stop_daemon();
    fs::remove_file(&kept(&home)[0]).unwrap();
    let mut session = Session::within(home);
    let (code_, reason) = outcome(&mut session, "1", "echo").unwrap_err();
    assert!(code_ == "plugin-not-ready" && reason.contains("is missing"), "{code_}: {reason}");
    let again = write(&session.home, "again.wasm", component());
    let _ = session.home.ok(&["plugin", "install", &again, "--name", "guard", "--yes"]);
    assert_eq!(code(&mut session, "2", "echo"), None);
    assert_eq!(code(&mut session, "3", "drop").as_deref(), Some("guard/deny"));
    let home = session.end();
    assert_eq!(
        plugin_kinds(&home),
        ["plugin.add", "plugin.change"],
        "accepted anew is an entry, although nothing differs"
    );
}

#[test]
fn a_plugin_written_by_hand_is_in_force_after_a_restart_and_journaled() {
    let home = Home::new();
    let digest = Digest::of(&component());
    write(&home, "mine.wasm", component());
    let entry = |tool: &str| {
        format!(
            "plugins:\n  - name: mine\n    digest: {digest}\n    file: ./mine.wasm\n    settings: {{rules: [{{effect: deny, tool: {tool}}}]}}"
        )
    };
    home.configure(&entry("drop"));
    let mut session = Session::within(home);
    assert_eq!(code(&mut session, "1", "drop").as_deref(), Some("mine/deny"));

    // A running daemon does not notice, and is not told of it by the way.
    session.home.configure(&entry("echo"));
    assert_eq!(code(&mut session, "2", "echo"), None);
    let file = write(&session.home, "guard.wasm", component());
    let before = config(&session.home);
    let refused = session.home.run(&["plugin", "install", &file, "--name", "guard", "--yes"]).exits(2);
    assert!(
        refused.stderr.contains("changed by hand and are not in force\nhint: callgate daemon restart"),
        "{refused:?}"
    );
    assert_eq!(config(&session.home), before);
    assert!(kept(&session.home).is_empty(), "what was not installed is not kept");
    let listed = session.home.run(&["plugin", "list"]).exits(1);
    assert!(listed.stdout.contains("not in force as callgate.yaml has it"), "{listed:?}");

    let _ = session.home.ok(&["daemon", "restart"]);
    assert_eq!(code(&mut session, "3", "echo").as_deref(), Some("mine/deny"));
    let home = session.end();
    assert_eq!(plugin_kinds(&home), ["plugin.add", "plugin.change"]);
    is_sound(&home);
}

#[test]
fn a_list_that_cannot_be_read_keeps_the_daemon_from_starting() {
    let digest = Digest::of(b"");
    let home = Home::configured(&format!("plugins: [{{name: g, digest: {digest}, settngs: {{}}}}]"));
    let refused = home.run(&["daemon", "start"]).exits(2);
    assert!(
        refused.stderr.contains("unknown key \"settngs\"") && refused.stderr.contains("did you mean settings?"),
        "{refused:?}"
    );
    home.configure(&format!("plugins: [{{name: rules, digest: {digest}}}]"));
    let refused = home.run(&["plugin", "list"]).exits(2);
    assert!(refused.stderr.contains("hint: give it another name"), "{refused:?}");
}
