//! `plugin eval`: a plugin asked without a daemon.

use std::path::Path;

use callgate_tests::home::Home;
use serde_json::{Value, json};

use super::{component, install, write};

fn cases(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_table_is_held_against_a_plugin_as_it_is() {
    let home = Home::new();
    let run = home.ok(&["plugin", "eval", "rules", "--cases", &cases("rules.json")]);
    assert!(run.stdout.ends_with(" 0 mismatches\n"), "{run:?}");
    assert!(home.daemons().is_empty() && !home.database().exists(), "neither daemon nor journal");

    let mut table: Value = serde_json::from_str(&std::fs::read_to_string(cases("rules.json")).unwrap()).unwrap();
    let expect = &mut table[1]["calls"][2]["expect"];
    *expect = if *expect == "deny" { json!("allow") } else { json!("deny") };
    let altered = write(&home, "altered.json", table.to_string());
    let run = home.run(&["plugin", "eval", "rules", "--cases", &altered]).exits(1);
    assert!(run.stdout.starts_with("set 1, call 2: expected ") && run.stdout.ends_with(" 1 mismatches\n"), "{run:?}");
    let odd = write(&home, "odd.json", r#"[{"rules": [{"effect": "never"}], "calls": []}]"#);
    let run = home.run(&["plugin", "eval", "rules", "--cases", &odd]).exits(1);
    assert!(run.stdout.starts_with("set 0: the settings do not load: "), "{run:?}");
    let none = write(&home, "none.json", "{}");
    let _ = home.run(&["plugin", "eval", "rules", "--cases", &none]).exits(2);
}

#[test]
fn calls_are_asked_one_a_line() {
    let home = Home::new();
    let file = write(&home, "guard.wasm", component());
    let settings = write(
        &home,
        "s.json",
        r#"{"rules": [{"effect": "deny", "tool": "x", "agent": "a"}, {"effect": "ask", "tool": "y"}]}"#,
    );
    let calls = write(
        &home,
        "calls.jsonl",
        "{\"server\": \"s\", \"tool\": \"x\", \"agent\": \"a\", \"arguments\": {\"n\": 1.0}}\n\n{\"tool\": \"y\"}\n{\"tool\": \"z\"}\n",
    );
    let asked = home.ok(&["plugin", "eval", &file, "--settings", &settings, "--calls", &calls, "--json"]).json_lines();
    let of = |line: &Value| (line["verdict"].clone(), line["reason"]["code"].clone(), line["rule"]["text"].clone());
    assert_eq!(of(&asked[0]), (json!("deny"), json!("deny"), json!("deny x (agent a)")));
    assert_eq!(of(&asked[1]), (json!("ask"), json!("ask"), json!("ask y")));
    assert_eq!(of(&asked[2]), (json!("allow"), Value::Null, Value::Null));
    for line in &asked {
        assert_eq!((&line["schema"], &line["plugin"]), (&json!(1), &json!("guard")));
        assert!(
            line["fuel"].as_u64().unwrap() > 0 && line["charges"] == json!([]) && line["notes"] == json!([]),
            "{line}"
        );
    }
    let again = home.ok(&["plugin", "eval", &file, "--settings", &settings, "--calls", &calls, "--json"]).json_lines();
    assert_eq!(again, asked, "the same calls take the same fuel");
    let text = home.ok(&["plugin", "eval", &file, "--settings", &settings, "--calls", &calls]).stdout;
    assert!(text.starts_with("deny by deny x (agent a): "), "{text}");
}

#[test]
fn an_installed_plugin_is_asked_with_its_own_settings() {
    let home = Home::new();
    install(&home, "drop");
    let calls = write(&home, "calls.jsonl", "{\"tool\": \"drop\"}\n");
    let asked = home.ok(&["plugin", "eval", "guard", "--calls", &calls, "--json"]).json();
    assert_eq!(asked["verdict"], "deny");
    let other = write(&home, "other.json", "{}");
    let asked = home.ok(&["plugin", "eval", "guard", "--calls", &calls, "--settings", &other, "--json"]).json();
    assert_eq!(asked["verdict"], "allow");
}

#[test]
fn what_cannot_be_asked_is_told() {
    let home = Home::new();
    let calls =
        write(&home, "calls.jsonl", "{\"tool\": \"x\"}\n{\"tool\": \"x\", \"arguments\": {\"a\": 1, \"a\": 2}}\n");
    let nobody = home.run(&["plugin", "eval", "nobody", "--calls", &calls]).exits(2);
    assert!(
        nobody.stderr.contains("nobody is neither a plugin of the chain nor a file\nhint: the plugins there are: "),
        "{nobody:?}"
    );
    let twice = home.run(&["plugin", "eval", "rules", "--calls", &calls]).exits(2);
    assert!(twice.stderr.contains("calls.jsonl, line 2: ") && twice.stderr.contains("repeated-key"), "{twice:?}");
    let _ = home.run(&["plugin", "eval", "rules"]).exits(2);
}
