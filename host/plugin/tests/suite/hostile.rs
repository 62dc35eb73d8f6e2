//! Plugins that misbehave: each is a typed failure, and its neighbours never notice.

use callgate_core::verdict::Failure;
use callgate_plugin::{ConfigureError, Level, Limits, LogLine};
use std::sync::Arc;

use crate::fixture::{Guest, KEPT, Log, allow, call, decision, engine, ready};

const SPIN: &str = "(loop (br 0)) unreachable";

/// Limits that are met soon, with the one that a test is about put in.
fn limits() -> Limits {
    Limits { fuel: 1_000_000, configure_fuel: 1_000_000, memory_bytes: 1 << 20, table_elements: 100, ..Limits::SHIPPED }
}

/// What the guest comes to, asked twice, with a good neighbour asked after each; and the failure as a sentence.
fn fate(limits: Limits, guest: &Guest) -> (Failure, String) {
    let engine = engine(limits);
    let neighbour = ready(&engine, &Guest::answering(&allow()));
    let plugin = ready(&engine, guest);
    let failures = [(); 2].map(|()| {
        let failure = plugin.decide(&call("read_file")).unwrap_err();
        assert_eq!(neighbour.decide(&call("read_file")), Ok(allow()), "a neighbour was harmed");
        failure
    });
    assert_eq!(failures[0], failures[1], "a new instance fails as the one before it did");
    let [failure, _] = failures;
    let told = failure.to_string();
    (failure, told)
}

#[test]
fn a_loop_runs_out_of_fuel() {
    let (failure, told) = fate(limits(), &Guest::deciding(SPIN));
    assert_eq!(failure, Failure::Fuel { limit: 1_000_000 });
    assert_eq!(told, "it used up its 1000000 units of fuel");
}

#[test]
fn a_loop_with_fuel_enough_runs_out_of_time() {
    let (failure, told) = fate(Limits { fuel: u64::MAX, deadline_ms: 50, ..limits() }, &Guest::deciding(SPIN));
    assert_eq!(failure, Failure::Deadline { limit_ms: 50 });
    assert_eq!(told, "it gave no answer within 50 ms");
}

#[test]
fn a_loop_of_calls_to_the_host_runs_out_of_time() {
    let body = "(loop (call $log (i32.const 0) (i32.const 1024) (i32.const 60000)) (br 0)) unreachable";
    let (failure, _) = fate(Limits { fuel: u64::MAX, deadline_ms: 50, ..limits() }, &Guest::deciding(body));
    assert_eq!(failure, Failure::Deadline { limit_ms: 50 });
}

#[test]
fn recursion_without_end_runs_out_of_stack() {
    let fields = "(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))";
    let guest = Guest { fields: fields.to_owned(), ..Guest::deciding("(call $deeper (i32.const 0))") };
    let (failure, told) = fate(Limits::SHIPPED, &guest);
    assert_eq!(failure, Failure::Trap("its stack ran out".to_owned()));
    assert_eq!(told, "it failed: its stack ran out");
}

#[test]
fn memory_without_end_is_stopped_at_the_limit() {
    let body = "(loop (drop (memory.grow (i32.const 1))) (br 0)) unreachable";
    let (failure, told) = fate(limits(), &Guest::deciding(body));
    assert_eq!(failure, Failure::Memory { limit_bytes: 1 << 20 });
    assert_eq!(told, "it asked for more memory than its limit of 1048576 bytes");
}

#[test]
fn a_table_without_end_is_stopped_at_the_limit() {
    let body = "(loop (drop (table.grow $table (ref.null func) (i32.const 1))) (br 0)) unreachable";
    let guest = Guest { fields: "(table $table 1 funcref)".to_owned(), ..Guest::deciding(body) };
    assert_eq!(fate(limits(), &guest).0, Failure::Memory { limit_bytes: 800 });
}

#[test]
fn a_trap_is_told_by_its_kind() {
    let silent = fate(limits(), &Guest::deciding("unreachable")).1;
    assert_eq!(silent, "it failed: it stopped itself (`unreachable`) without saying why");
    let outside = fate(limits(), &Guest::deciding("(i32.load (i32.const -4))")).1;
    assert_eq!(outside, "it failed: wasm trap: out of bounds memory access");
    let division = fate(limits(), &Guest::deciding("(i32.div_u (i32.const 1) (i32.const 0))")).1;
    assert_eq!(division, "it failed: wasm trap: integer divide by zero");
}

/// Logs what lies at 2048 and traps, as a panic hook does.
fn panicking(text: &str, times: usize) -> Guest {
    let body = format!(
        "(loop
          (call $log (i32.const 3) (i32.const 2048) (i32.const {}))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if 0 (i32.lt_u (local.get $i) (i32.const {times}))))
        unreachable",
        text.len()
    );
    let mut memory = decision(&allow());
    memory.resize(1024, 0);
    memory.extend_from_slice(text.as_bytes());
    Guest { decision: memory, ..Guest::deciding(&body) }
}

#[test]
fn the_words_of_a_panic_are_told_escaped_and_short() {
    let (failure, told) = fate(limits(), &panicking("panicked at src/lib.rs:61:20: b\u{1b}[2Jo\nom", 1));
    let words = "panicked at src/lib.rs:61:20: b\\u{1b}[2Jo\\u{a}om";
    assert_eq!(failure, Failure::Trap(words.to_owned()));
    assert_eq!(told, format!("it failed: {words}"));

    let Failure::Trap(words) = fate(limits(), &panicking(&"x".repeat(5000), 1)).0 else { panic!("no trap") };
    assert_eq!(words, format!("{}…", "x".repeat(400)));
}

#[test]
fn the_words_of_a_panic_are_told_after_a_flood_too() {
    let engine_limits = Limits { log_lines: 2, ..limits() };
    assert_eq!(fate(engine_limits, &panicking("boom", 50)).1, "it failed: boom");
}

#[test]
fn a_flood_of_log_lines_is_dropped_and_counted() {
    let log = Arc::new(Log::default());
    let limits = Limits { log_lines: 3, ..limits() };
    let engine = callgate_plugin::Engine::new(limits, None, log.clone()).unwrap();
    let plugin = ready(&engine, &panicking("flood", 10));
    plugin.decide(&call("read_file")).unwrap_err();
    let line = LogLine { level: Level::Error, message: "flood".to_owned() };
    assert_eq!(log.written(), [("guard".to_owned(), Some("read_file".to_owned()), vec![line; 3], 7)]);
}

#[test]
fn what_is_said_while_configuring_is_logged_without_a_call() {
    let log = Arc::new(Log::default());
    let engine = callgate_plugin::Engine::new(limits(), None, log.clone()).unwrap();
    let body = "(call $log (i32.const 1) (local.get $text) (local.get $length)) (i32.const 512)";
    engine.load(&Guest::configuring(body).build()).unwrap().configure("guard", "{}", KEPT).unwrap();
    let line = LogLine { level: Level::Info, message: "{}".to_owned() };
    assert_eq!(log.written(), [("guard".to_owned(), None, vec![line], 0)]);
}

#[test]
fn a_giant_answer_is_not_taken_over() {
    // A message as long as the memory is large.
    let mut giant = decision(&crate::fixture::deny("closed"));
    giant[12..16].copy_from_slice(&0_u32.to_le_bytes());
    giant[16..20].copy_from_slice(&131_072_u32.to_le_bytes());
    let guest = Guest { decision: giant, ..Guest::answering(&allow()) };
    let (failure, _) = fate(Limits { output_bytes: 100_000, ..limits() }, &guest);
    let why =
        "too much data is being copied between the host and the guest: fuel allocated for hostcalls has been exhausted";
    assert_eq!(failure, Failure::BadAnswer(why.to_owned()));
    // The same within the host's bound breaks the contract's.
    let (failure, _) = fate(limits(), &guest);
    assert_eq!(failure, Failure::BadAnswer("the message takes 131072 bytes, more than 1024".to_owned()));
}

#[test]
fn a_list_that_would_not_end_is_not_taken_over() {
    // Notes: a million entries that all point at one text.
    let mut giant = decision(&allow());
    giant[56..60].copy_from_slice(&0_u32.to_le_bytes());
    giant[60..64].copy_from_slice(&16_000_u32.to_le_bytes());
    let guest = Guest { decision: giant, ..Guest::answering(&allow()) };
    assert!(matches!(fate(Limits { output_bytes: 100_000, ..limits() }, &guest).0, Failure::BadAnswer(_)));
}

#[test]
fn a_plugin_that_misbehaves_on_its_settings_is_not_configured() {
    let engine = engine(Limits { configure_deadline_ms: 50, ..limits() });
    let failed = |body: &str| {
        let plugin = engine.load(&Guest::configuring(body).build()).unwrap();
        plugin.configure("guard", "{}", KEPT).unwrap_err()
    };
    assert_eq!(failed(SPIN), ConfigureError::Failed(Failure::Fuel { limit: 1_000_000 }));
    assert_eq!(failed("unreachable").to_string(), "it failed: it stopped itself (`unreachable`) without saying why");
    let bomb = failed("(loop (drop (memory.grow (i32.const 1))) (br 0)) unreachable");
    assert_eq!(bomb, ConfigureError::Failed(Failure::Memory { limit_bytes: 1 << 20 }));

    let patient = crate::fixture::engine(Limits { configure_fuel: u64::MAX, configure_deadline_ms: 50, ..limits() });
    let plugin = patient.load(&Guest::configuring(SPIN).build()).unwrap();
    let late = plugin.configure("guard", "{}", KEPT).unwrap_err();
    assert_eq!(late, ConfigureError::Failed(Failure::Deadline { limit_ms: 50 }));
}
