//! Plugins that fail, and disks that do: what is in force stays, and says so.

use std::fs;
use std::os::unix::fs::symlink;

use callgate_tests::home::Home;
use callgate_tests::mount::SmallDisk;
use callgate_tests::session::Session;
use serde_json::json;

use self::fixture::Guest;
use super::{code, component, install, kept, plugin_kinds, write};
use crate::kill::is_sound;

#[path = "../../../../host/plugin/tests/suite/fixture.rs"]
#[expect(dead_code, reason = "the plugin crate's own tests use the rest")]
mod fixture;

#[test]
fn a_plugin_that_keeps_failing_is_not_asked_until_it_is_reset() {
    let mut session = Session::new();
    let file = write(&session.home, "bomb.wasm", Guest::deciding("unreachable").build());
    let _ = session.home.ok(&["plugin", "install", &file, "--yes"]);
    let mut codes = (0..20).map(|id| code(&mut session, &id.to_string(), "echo"));
    assert!(codes.any(|code| code.as_deref() == Some("plugin-breaker")), "no breaker opened");
    let status = session.home.run(&["daemon", "status"]).exits(1);
    assert!(status.stdout.contains("problem: the plugin bomb is not asked about calls of agents"), "{status:?}");
    assert!(status.stdout.contains("(hint: callgate plugin reset bomb)"), "{status:?}");
    let listed = session.home.run(&["plugin", "list", "--json"]).exits(1).json();
    assert_eq!(listed["plugins"].as_array().unwrap().last().unwrap()["problems"].as_array().unwrap().len(), 1);

    let reset = session.home.ok(&["plugin", "reset", "bomb"]);
    assert!(reset.stdout.starts_with("reset: bomb, 1 breaker closed (entry "), "{reset:?}");
    assert_eq!(code(&mut session, "\"again\"", "echo").as_deref(), Some("plugin-trap"), "it is asked again");
    let nothing = session.home.ok(&["plugin", "reset", "bomb"]);
    assert_eq!(nothing.stdout, "bomb had no open breaker\n");
    let nobody = session.home.run(&["plugin", "reset", "nobody"]).exits(2);
    assert!(nobody.stderr.contains("there is no plugin named nobody"), "{nobody:?}");
    let home = session.end();
    assert_eq!(plugin_kinds(&home), ["plugin.add", "plugin.reset"]);
    is_sound(&home);
}

#[test]
fn a_plugin_that_is_asked_about_one_server_says_nothing_of_others() {
    let home = Home::new();
    let file = write(&home, "bomb.wasm", Guest::deciding("unreachable").build());
    let _ = home.ok(&["plugin", "install", &file, "--servers", "other,x-*", "--yes"]);
    let mut session = Session::within(home);
    assert_eq!(code(&mut session, "1", "echo"), None);
    let _ = session.home.ok(&["plugin", "install", &file, "--servers", "f*", "--yes"]);
    assert_eq!(code(&mut session, "2", "echo").as_deref(), Some("plugin-trap"));
    // Nobody's agent is established, so one that is asked about an agent is asked about none of these calls.
    let _ = session.home.ok(&["plugin", "install", &file, "--servers", "*", "--agents", "cursor", "--yes"]);
    assert_eq!(code(&mut session, "3", "echo"), None);
    let home = session.end();
    assert_eq!(plugin_kinds(&home), ["plugin.add", "plugin.change", "plugin.change"]);
}

#[test]
fn mounts_a_journal_that_is_full_leaves_the_old_configuration_and_the_old_chain() {
    /// Room for the database, its WAL, the plugins and what is compiled of them.
    const DISK_BYTES: u64 = 32 * 1024 * 1024;
    let Some(disk) = SmallDisk::new(DISK_BYTES) else {
        return crate::skipped("mounts", "only root may mount a small file system");
    };
    // The configuration lies elsewhere, as one that is kept with other dotfiles does.
    let elsewhere = tempfile::tempdir().unwrap();
    let (config, file) = (elsewhere.path().join("mine.yaml"), elsewhere.path().join("guard.wasm"));
    fs::write(&config, "version: 1 # mine\n").unwrap();
    fs::write(&file, component()).unwrap();
    let home = Home::at(disk.path());
    symlink(&config, home.path().join("callgate.yaml")).unwrap();
    install(&home, "drop");
    let before = fs::read_to_string(&config).unwrap();
    assert!(before.starts_with("version: 1 # mine\nplugins:\n"), "{before}");

    let mut session = Session::within(home);
    let filling = disk.fill();
    let mut number = 0;
    while session.home.run(&["policy", "deny", &format!("tool-{number}")]).code == Some(0) {
        number += 1;
        assert!(number < 100_000, "a full disk takes every rule");
    }
    let settings = elsewhere.path().join("settings.json");
    fs::write(&settings, json!({"rules": [{"effect": "deny", "tool": "echo"}]}).to_string()).unwrap();
    let again = ["plugin", "install", file.to_str().unwrap(), "--name", "guard", "--yes", "--settings"];
    let again = [&again[..], &[settings.to_str().unwrap()]].concat();
    let refused = session.home.run(&again).exits(3);
    assert!(refused.stderr.contains("hint: free some space"), "{refused:?}");
    assert_eq!(fs::read_to_string(&config).unwrap(), before);
    assert_eq!(kept(&session.home).len(), 1);

    drop(filling);
    let _ = session.home.ok(&["policy", "deny", "unrelated"]);
    assert_eq!(code(&mut session, "1", "drop").as_deref(), Some("guard/deny"), "the old chain is in force");
    let _ = session.home.ok(&again);
    assert_eq!(code(&mut session, "2", "echo").as_deref(), Some("guard/deny"));
    assert!(fs::symlink_metadata(session.home.path().join("callgate.yaml")).unwrap().is_symlink());
    let home = session.end();
    assert_eq!(plugin_kinds(&home), ["plugin.add", "plugin.change"]);
    is_sound(&home);
}
