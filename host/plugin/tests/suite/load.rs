//! What is a plugin and what is not, and what a person is told.

use std::collections::BTreeSet;

use callgate_core::digest::Digest;
use callgate_core::verdict::{Answer, Failure, Verdict};
use callgate_plugin::{COMPONENT_BYTES_MAX, Hook, Limits, LoadError, Origin};

use crate::fixture::{Guest, KEPT, allow, call, engine, ready};

fn refusal(component: &[u8]) -> LoadError {
    engine(Limits::SHIPPED).load(component).unwrap_err()
}

fn guest() -> Guest {
    Guest::answering(&allow())
}

#[test]
fn a_component_tells_what_it_is_before_it_runs() {
    let manifest = manifest(r#""hooks":["call-policy"],"settings":{"type":"object"},"to be known later":0"#);
    let component = Guest { manifest: Some(manifest), ..guest() }.build();
    let plugin = engine(Limits::SHIPPED).load(&component).unwrap();
    assert_eq!(plugin.digest(), Digest::of(&component));
    assert_eq!(plugin.hooks(), &BTreeSet::from([Hook::CallPolicy]));
    assert_eq!(plugin.manifest().map(|manifest| manifest.id.as_str()), Some("guard"));
    assert_eq!(plugin.origin(), &Origin::CompiledOnly(None));
}

#[test]
fn a_plugin_without_the_call_hook_has_nothing_to_say_about_calls() {
    let exports = r#"(export "callgate:policy/catalog-policy@0.1.0" (instance $catalog-policy))"#;
    let guest = Guest { exports: exports.to_owned(), ..guest() };
    let plugin = engine(Limits::SHIPPED).load(&guest.build()).unwrap();
    assert_eq!(plugin.hooks(), &BTreeSet::from([Hook::CatalogPolicy]));
    let answer = plugin.configure("hider", "{}", KEPT).unwrap().decide(&call("read_file"));
    assert_eq!(answer, Ok(Answer { verdict: Verdict::Abstain, rule: None, notes: Vec::new(), charges: Vec::new() }));
}

#[test]
fn other_exports_are_ignored() {
    let mut guest = guest();
    guest.exports += r#"(export "extra" (func $decide)) (export "example:other/thing@1.0.0" (instance $call-policy))"#;
    assert!(engine(Limits::SHIPPED).load(&guest.build()).is_ok());
}

#[test]
fn what_is_no_component_is_named_for_what_it_is() {
    let not_binary = "it is not WebAssembly in binary form";
    assert_eq!(refusal(b"").to_string(), not_binary);
    assert_eq!(refusal(b"garbage").to_string(), not_binary);
    assert_eq!(refusal(b"(component)").to_string(), not_binary);

    let module = wat::parse_str("(module)").unwrap();
    let expected = "it is a core WebAssembly module and not a component; link it with wasm-component-ld";
    assert_eq!(refusal(&module).to_string(), expected);

    let mut component = guest().build();
    component.truncate(component.len() / 2);
    assert!(matches!(refusal(&component), LoadError::Malformed(_)));
}

#[test]
fn a_component_cannot_fill_the_host_with_names() {
    let exports = (0..1001).map(|index| format!("(export \"e{index}\" (instance $i))")).collect::<Vec<_>>().concat();
    let component = wat::parse_str(format!("(component (instance $i) {exports})")).unwrap();
    let expected = "its sections cannot be read: there are more than 1000 imports or exports";
    assert_eq!(refusal(&component).to_string(), expected);
}

#[test]
fn native_code_is_never_taken() {
    let compiled = wasmtime::Engine::default().precompile_component(&guest().build()).unwrap();
    let expected = "it is precompiled native code; give the WebAssembly component it was made from";
    assert_eq!(refusal(&compiled).to_string(), expected);
}

#[test]
fn a_component_over_the_bound_is_not_even_read() {
    let expected = "it takes 67108865 bytes, more than the 67108864 that a component may";
    assert_eq!(refusal(&vec![0; COMPONENT_BYTES_MAX + 1]).to_string(), expected);
}

#[test]
fn a_newer_version_of_the_contract_is_refused_by_name() {
    let newer = Guest { alter: |text| text.replace("@0.1.0", "@0.2.0"), ..guest() };
    let expected = "it needs callgate:policy/types@0.2.0, this Callgate provides 0.1.0";
    assert_eq!(refusal(&newer.build()).to_string(), expected);
}

#[test]
fn a_hook_of_a_newer_version_is_refused_by_name() {
    let component = wat::parse_str(
        r#"(component
            (instance $hook)
            (export "callgate:policy/lifecycle@0.1.0" (instance $hook))
            (export "callgate:policy/call-policy@0.2.0" (instance $hook)))"#,
    );
    let expected = "it needs callgate:policy/call-policy@0.2.0, this Callgate provides 0.1.0";
    assert_eq!(refusal(&component.unwrap()).to_string(), expected);
}

#[test]
fn an_interface_of_the_contract_that_this_build_does_not_know_is_refused_by_name() {
    let component = wat::parse_str(
        r#"(component
            (instance $hook)
            (export "callgate:policy/lifecycle@0.1.0" (instance $hook))
            (export "callgate:policy/response-policy@0.1.0" (instance $hook)))"#,
    );
    let expected = "it needs callgate:policy/response-policy@0.1.0, which this Callgate does not know; a newer one may";
    assert_eq!(refusal(&component.unwrap()).to_string(), expected);
}

#[test]
fn a_power_that_is_not_given_is_refused_by_name() {
    let importing = |name: &str| {
        let import = format!(r#"(import "{name}" (instance (export "now" (func (result u32)))))"#);
        refusal(&Guest { exports: guest().exports + &import, ..guest() }.build()).to_string()
    };
    let unknown = "it needs callgate:policy/clock@0.1.0, which this Callgate does not know; a newer one may";
    assert_eq!(importing("callgate:policy/clock@0.1.0"), unknown);
    for name in ["wasi:cli/environment@0.2.0", "example:other/thing", "callgate:policy/call-policy@0.1.0"] {
        assert_eq!(importing(name), format!("it imports {name}, which Callgate does not provide to plugins"));
    }
}

#[test]
fn a_component_without_a_hook_or_without_lifecycle_is_no_plugin() {
    let no_hook =
        "it exports no hook: neither callgate:policy/call-policy@0.1.0 nor callgate:policy/catalog-policy@0.1.0";
    assert_eq!(refusal(&wat::parse_str("(component)").unwrap()).to_string(), no_hook);

    let only_checks = wat::parse_str(
        r#"(component
            (instance $hook)
            (export "callgate:policy/lifecycle@0.1.0" (instance $hook))
            (export "callgate:policy/settings-check@0.1.0" (instance $hook)))"#,
    );
    assert_eq!(refusal(&only_checks.unwrap()).to_string(), no_hook);

    let no_lifecycle =
        wat::parse_str(r#"(component (instance $hook) (export "callgate:policy/call-policy@0.1.0" (instance $hook)))"#);
    let expected = "it does not export callgate:policy/lifecycle@0.1.0, which every plugin must";
    assert_eq!(refusal(&no_lifecycle.unwrap()).to_string(), expected);
}

#[test]
fn an_interface_with_other_types_is_refused_by_name() {
    let missing = wat::parse_str(
        r#"(component
            (instance $hook)
            (export "callgate:policy/lifecycle@0.1.0" (instance $hook))
            (export "callgate:policy/call-policy@0.1.0" (instance $hook)))"#,
    );
    let expected = "its callgate:policy/lifecycle@0.1.0 is not the one that this Callgate knows: \
        instance export `callgate:policy/lifecycle@0.1.0` does not have export `configure`";
    assert_eq!(refusal(&missing.unwrap()).to_string(), expected);

    // A field more in a record: names and lowered types are the same, and only binding an instance finds out.
    let begin = "its callgate:policy/call-policy@0.1.0 is not the one that this Callgate knows: ";
    let extra_field = Guest {
        alter: |text| {
            text.replace(r#"(field "retry" $retry)"#, r#"(field "retry" $retry) (field "severity" (option u8))"#)
        },
        ..guest()
    };
    let told = refusal(&extra_field.build()).to_string();
    assert!(told.starts_with(begin) && told.contains("expected record of 3 fields, found 4 fields"), "{told}");

    let extra_case =
        Guest { alter: |text| text.replace(r#"(case "abstain")"#, r#"(case "abstain") (case "audit")"#), ..guest() };
    let told = refusal(&extra_case.build()).to_string();
    assert!(told.starts_with(begin) && told.contains("expected variant of 4 cases, found 5 cases"), "{told}");

    let other_import = Guest {
        alter: |text| {
            text.replace(r#"(param "level" $level) (param "message" string)"#, r#"(param "message" string)"#)
                .replace("(param $level i32)", "")
        },
        ..guest()
    };
    let told = refusal(&other_import.build()).to_string();
    assert!(told.starts_with("its callgate:policy/log@0.1.0 is not the one that this Callgate knows: "), "{told}");
}

fn manifest(rest: &str) -> String {
    format!(r#"{{"manifest":1,"id":"guard","version":"1.2.3",{rest}}}"#)
}

#[test]
fn a_manifest_must_be_readable_and_about_this_component() {
    let with = |manifest: String| refusal(&Guest { manifest: Some(manifest), ..guest() }.build()).to_string();
    let cases = [
        (
            manifest(r#""hooks":["catalog-policy","call-policy"]"#),
            "its manifest names call-policy, catalog-policy, but it exports call-policy",
        ),
        (manifest(r#""hooks":[]"#), "its manifest names no hook, but it exports call-policy"),
        (
            manifest(r#""hooks":["call-policy"],"requests":["network","files"]"#),
            "its manifest asks for network, files, which Callgate does not give to plugins",
        ),
        (
            manifest(r#""hooks":["call-policy"],"limits":{"cpus":1}"#),
            "its manifest cannot be read: unknown field `cpus`, expected one of `fuel`, `deadline_ms`, `configure_fuel`, \
             `configure_deadline_ms`, `memory_bytes` at line 1 column 85",
        ),
        (
            r#"{"manifest":2,"id":"guard","version":"1","hooks":["call-policy"]}"#.to_owned(),
            "its manifest cannot be read: it is of form 2, this Callgate reads form 1",
        ),
        (
            r#"{"manifest":1,"id":"gu\u001bard","version":"1","hooks":["call-policy"]}"#.to_owned(),
            r"its manifest cannot be read: the id `gu\u{1b}ard` is not a name to show",
        ),
        (
            r#"{"manifest":1,"id":"guard"}"#.to_owned(),
            "its manifest cannot be read: missing field `version` at line 1 column 27",
        ),
    ];
    for (manifest, told) in cases {
        assert_eq!(with(manifest), told);
    }
    let twice = Guest {
        manifest: Some("{}".to_owned()),
        fields: r#"(@custom "callgate:manifest" "{}")"#.to_owned(),
        ..guest()
    };
    assert_eq!(refusal(&twice.build()).to_string(), "its manifest cannot be read: there are two");
}

#[test]
fn a_plugin_can_lower_its_limits_and_not_raise_them() {
    let fuel = |own: u64| {
        let manifest = manifest(&format!(r#""hooks":["call-policy"],"limits":{{"fuel":{own}}}"#));
        let spin = Guest { manifest: Some(manifest), ..Guest::deciding("(loop (br 0)) unreachable") };
        ready(&engine(Limits { fuel: 1_000_000, ..Limits::SHIPPED }), &spin).decide(&call("read_file"))
    };
    assert_eq!(fuel(1_000), Err(Failure::Fuel { limit: 1_000 }));
    assert_eq!(fuel(2_000_000), Err(Failure::Fuel { limit: 1_000_000 }));
}

#[test]
fn memory_that_threads_share_is_not_compiled() {
    let refusal = refusal(&Guest { fields: "(memory 1 1 shared)".to_owned(), ..guest() }.build()).to_string();
    assert!(refusal.starts_with("it cannot be compiled: ") && refusal.contains("threads"), "{refusal}");
}

#[test]
fn code_that_runs_while_instantiating_is_bound_too() {
    let limits = Limits { configure_fuel: 10_000_000, ..Limits::SHIPPED };
    let engine = engine(limits);
    let stillborn = |fields: &str| {
        let guest = Guest { fields: fields.to_owned(), ..guest() };
        engine.load(&guest.build()).unwrap_err()
    };
    let spins = stillborn("(func $start (loop (br 0))) (start $start)");
    assert_eq!(spins, LoadError::Stillborn(Failure::Fuel { limit: 10_000_000 }));
    let told = "it cannot be instantiated: it used up its 10000000 units of fuel";
    assert_eq!(spins.to_string(), told);

    let traps = stillborn("(func $start unreachable) (start $start)");
    let told = "it cannot be instantiated: it failed: it stopped itself (`unreachable`) without saying why";
    assert_eq!(traps.to_string(), told);
}

#[test]
fn a_component_that_is_too_large_at_birth_is_refused() {
    let limits = Limits { memory_bytes: 1 << 20, table_elements: 1000, ..Limits::SHIPPED };
    let engine = engine(limits);
    // How much is the host's word; what is too much the engine's.
    let refused = |guest: Guest, why: &str| {
        let refusal = engine.load(&guest.build()).unwrap_err().to_string();
        assert!(refusal.starts_with("it cannot be compiled: ") && refusal.contains(why), "{refusal}");
    };
    let memory = Guest {
        alter: |text| text.replace(r#"(memory (export "memory") 2)"#, r#"(memory (export "memory") 17)"#),
        ..guest()
    };
    refused(memory, "memory has a minimum byte size of 1114112 which exceeds the limit");
    let table = Guest { fields: "(table 1001 funcref)".to_owned(), ..guest() };
    refused(table, "1001");
}
