//! What cannot be installed, and that nothing is changed by trying.

use callgate_tests::home::Home;

use super::{component, config, install, kept, plugin_kinds, write};

/// Tries an install that has to fail so, and leave nothing behind.
#[track_caller]
fn refused(home: &Home, arguments: &[&str], expected: &str) {
    let before = (config(home), kept(home), plugin_kinds_if_any(home));
    let refused = home.run(&[&["plugin", "install"], arguments].concat()).exits(2);
    assert!(refused.stderr.contains(expected), "{expected:?} is not in {}", refused.stderr);
    assert!(refused.stdout.is_empty(), "{refused:?}");
    assert_eq!((config(home), kept(home), plugin_kinds_if_any(home)), before);
}

fn plugin_kinds_if_any(home: &Home) -> Vec<String> {
    if home.database().exists() { plugin_kinds(home) } else { Vec::new() }
}

#[test]
fn what_is_no_plugin_is_told_in_words() {
    let home = Home::new();
    let cases: [(&str, &[u8], &str); 5] = [
        ("text.wasm", b"hello", "it is not WebAssembly in binary form"),
        ("core.wasm", b"\0asm\x01\0\0\0", "it is a core WebAssembly module and not a component"),
        ("core2.wasm", b"\0asm\x01\0\0\0", "hint: callgate plugin build DIR"),
        ("empty.wasm", b"\0asm\x0d\0\x01\0", "it exports no hook"),
        ("torn.wasm", &component()[..1000], "its sections cannot be read"),
    ];
    for (name, bytes, expected) in cases {
        let file = write(&home, name, bytes);
        refused(&home, &[&file, "--name", "guard", "--yes"], expected);
    }
    refused(&home, &["/nowhere/guard.wasm", "--yes"], "cannot read /nowhere/guard.wasm");
    refused(&home, &[home.path().to_str().unwrap(), "--yes"], "it is not a regular file");
}

#[test]
fn without_a_terminal_it_has_to_be_said_that_nobody_is_asked() {
    let home = Home::new();
    let file = write(&home, "guard.wasm", component());
    refused(&home, &[&file, "--name", "guard"], "there is no terminal\nhint: look at what it asks for, then say --yes");
    refused(&home, &[&file, "--name", "guard"], "  hooks     call-policy\n");
}

#[test]
fn names_and_settings_that_cannot_be_are_refused() {
    let home = Home::new();
    let file = write(&home, "guard.wasm", component());
    // Its own id is a shipped one's.
    refused(&home, &[&file, "--yes"], "rules is the name of a plugin of Callgate's own\nhint: call it something else");
    refused(&home, &[&file, "--name", "budget", "--yes"], "a plugin of Callgate's own");
    let settings = |text: &str| write(&home, "settings.json", text);
    let odd = settings(r#"{"ruls": []}"#);
    refused(&home, &[&file, "--name", "guard", "--settings", &odd, "--yes"], "guard does not take these settings: ");
    let list = settings("[]");
    refused(&home, &[&file, "--name", "guard", "--settings", &list, "--yes"], "is not one JSON object");
    refused(&home, &[&file, "--name", "no name", "--yes"], "is not a plugin name");
}

#[test]
fn what_is_refused_leaves_the_plugin_that_is_there() {
    let home = Home::new();
    install(&home, "drop");
    let odd = write(&home, "odd.json", r#"{"ruls": []}"#);
    let file = write(&home, "guard.wasm", component());
    refused(&home, &[&file, "--name", "guard", "--settings", &odd, "--yes"], "does not take these settings");
    let _ = home.run(&["policy", "explain", "drop"]).exits(1);
    let missing = home.run(&["plugin", "remove", "nobody"]).exits(2);
    assert!(missing.stderr.contains("there is no plugin named nobody"), "{missing:?}");
    assert_eq!(plugin_kinds(&home), ["plugin.add"]);
}

#[test]
fn a_configuration_in_a_form_that_is_not_edited_stays_and_is_told_what_to_write() {
    let home = Home::new();
    let digest = callgate_core::digest::Digest::of(&component());
    write(
        &home,
        "callgate.yaml",
        format!("version: 1\nplugins: !!seq\n- &a {{name: a, digest: {digest}}}\n- {{<<: *a, name: b}}\n"),
    );
    let before = config(&home);
    let file = write(&home, "guard.wasm", component());
    let tried = home.run(&["plugin", "install", &file, "--name", "guard", "--yes"]);
    // Whether this form is read at all is the parser's affair; that it is not lost is ours.
    assert!(tried.code == Some(0) || config(&home) == before, "{tried:?}");
}
