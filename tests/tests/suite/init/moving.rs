//! Secrets out of the clients' files and into the store.

use super::*;

const CANARY: &str = "ghp_canary5d1e8c7b6a";

/// A person with a sealed file, and one server with a secret that dumps its surroundings.
#[track_caller]
fn person() -> Person {
    let person = Person::with_store();
    person.has(".cursor/mcp.json", &cursor(&json!({ "gh": server(&person, CANARY) })));
    person
}

fn server(person: &Person, token: &str) -> Value {
    json!({ "command": program::fixture(), "args": ["--dump", person.path("dump")], "env": { "LOG": "1", "GITHUB_TOKEN": token } })
}

#[test]
fn a_secret_goes_from_the_file_into_the_store_and_still_reaches_its_server() {
    let person = person();
    let shown = person.init(&["--move-secrets"]).exits(0);
    assert!(
        shown.stdout.contains("secrets would be moved out: GITHUB_TOKEN") && !shown.stdout.contains(CANARY),
        "{shown:?}"
    );
    assert_eq!(person.home.ok(&["server", "list"]).stdout, "no servers are registered\n");

    let moved = person.init(&["--write", "--move-secrets"]).exits(0);
    assert!(moved.stdout.contains("secrets moved out: GITHUB_TOKEN"), "{moved:?}");
    assert!(moved.stderr.contains("registered: gh, its secrets in the sealed file"), "{moved:?}");
    assert!(moved.stderr.contains("the backup holds the secrets"), "{moved:?}");
    assert!(!format!("{moved:?}").contains(CANARY), "{moved:?}");
    let text = person.text(".cursor/mcp.json");
    let args = json!(["run", "--server", "gh", "--agent", "cursor"]);
    assert_eq!(entry(&text, "gh"), json!({ "command": callgate(), "args": args, "env": { "LOG": "1" } }));

    let mut relay = Relay::of(&mut person.home.prepare(&["run", "--server", "gh", "--agent", "cursor"]));
    assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
    let _ = relay.close();
    let dumped = String::from_utf8_lossy(&fs::read(person.path("dump")).unwrap()).into_owned();
    assert!(dumped.contains(&format!("GITHUB_TOKEN={CANARY}")), "{dumped:?}");

    let again = person.init(&["--write", "--move-secrets"]).exits(0);
    assert!(again.stdout.contains("already wrapped\n"), "{again:?}");
    let _ = person.init(&["--undo", person.backups()[0].to_str().unwrap()]).exits(0);
    assert_eq!(entry(&person.text(".cursor/mcp.json"), "gh")["env"]["GITHUB_TOKEN"], CANARY);
}

#[test]
fn a_server_that_is_wrapped_already_gives_its_secrets_up_too() {
    let person = person();
    let _ = person.init(&["--write"]).exits(0);
    assert_eq!(entry(&person.text(".cursor/mcp.json"), "gh")["env"]["GITHUB_TOKEN"], CANARY);
    let _ = person.init(&["--write", "--move-secrets"]).exits(0);
    let registered = person.home.ok(&["server", "show", "gh", "--json"]).json();
    assert_eq!(registered["command"], json!([program::fixture(), "--dump", person.path("dump")]));
    assert!(!person.text(".cursor/mcp.json").contains(CANARY));
}

#[test]
fn the_same_server_of_two_clients_is_registered_once_and_another_one_keeps_its_secrets() {
    let person = person();
    person.has(".gemini/settings.json", &cursor(&json!({ "gh": server(&person, CANARY) })));
    let other = "ghp_canary0000000000";
    person.has(".copilot/mcp-config.json", &cursor(&json!({ "gh": server(&person, other) })));
    let moved = person.init(&["--write", "--move-secrets"]).exits(2);
    assert!(
        moved.stderr.contains("another entry of that name has another command or other secrets\nhint: "),
        "{moved:?}"
    );
    for file in [".cursor/mcp.json", ".gemini/settings.json"] {
        assert!(!person.text(file).contains(CANARY), "{file}");
    }
    // Wrapped, it would start the registered one, with the other's token.
    assert_eq!(entry(&person.text(".copilot/mcp-config.json"), "gh"), server(&person, other));
    let again = person.init(&["--write", "--move-secrets"]).exits(2);
    assert!(again.stderr.contains("error: the secrets of gh stay in "), "{again:?}");
    assert_eq!(entry(&person.text(".copilot/mcp-config.json"), "gh"), server(&person, other));
    assert_eq!(person.home.ok(&["server", "list", "--json"]).json()["servers"].as_array().unwrap().len(), 1);
}

#[test]
fn without_a_store_the_secret_stays_where_it_is() {
    let person = Person::new();
    person.has(".cursor/mcp.json", &cursor(&json!({ "gh": server(&person, CANARY) })));
    let mut start = person.home.prepare(&["daemon", "start"]);
    let nobody = format!("unix:path={}", person.path("nobody").display());
    let _ = Finished::of(start.env("DBUS_SESSION_BUS_ADDRESS", nobody)).exits(0);
    let kept = person.init(&["--write", "--move-secrets"]).exits(3);
    assert!(kept.stderr.contains("error: the secrets of gh stay in ") && kept.stderr.contains("hint: "), "{kept:?}");
    let gh = entry(&person.text(".cursor/mcp.json"), "gh");
    assert_eq!(
        (&gh["command"], &gh["env"]["GITHUB_TOKEN"]),
        (&json!(callgate()), &json!(CANARY)),
        "wrapped all the same"
    );
}

#[test]
fn a_file_that_cannot_be_written_registers_nothing() {
    let person = person();
    fs::set_permissions(person.path(".cursor/mcp.json"), fs::Permissions::from_mode(0o400)).unwrap();
    let _ = person.init(&["--write", "--move-secrets"]).exits(3);
    assert_eq!(person.home.ok(&["server", "list"]).stdout, "no servers are registered\n");
}
