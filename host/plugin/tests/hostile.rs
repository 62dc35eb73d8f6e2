//! Hostile components, a thousand calls each: every call is a typed denial, the process does not grow, and neither another
//! plugin nor another agent notices. Alone in its binary, because it measures the whole process.
#![cfg(target_os = "linux")]

#[cfg(test)]
#[path = "suite/fixture.rs"]
#[expect(dead_code, reason = "this binary uses a part of it")]
mod fixture;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use callgate_core::call::Call;
    use callgate_core::verdict::{Failure, Rule};
    use callgate_plugin::{Configured, Engine, Life, Limits};

    use crate::fixture::{DECISION, Guest, KEPT, allow, call, caller, decision, deny, engine, ready};

    /// Agents that each make a plugin fail as often as it is asked for them.
    const BOMBERS: usize = 200;
    /// How often that is.
    const FAILURES_MAX: usize = 5;
    /// Calls of the one agent that goes on after that.
    const CALLS: usize = 1_000;

    /// What the process may have grown by after all calls of one component: what allocators keep, not what bombs leave.
    const GROWTH_BYTES_MAX: usize = 48 << 20;

    /// The same for all components, their compiled code and what compiling them left included. The memory bombs took 16 GiB each.
    const ALL_GROWTH_BYTES_MAX: usize = 256 << 20;

    const MEMORY_BYTES: usize = 8 << 20;

    /// Small enough for a thousand of each to take seconds. Fuel is what stops a loop: a deadline would depend on what else the
    /// machine does.
    fn limits() -> Limits {
        Limits {
            fuel: 400_000,
            deadline_ms: 60_000,
            memory_bytes: MEMORY_BYTES,
            table_elements: 1_000,
            log_lines: 4,
            ..Limits::SHIPPED
        }
    }

    /// Where the answer of a bomb lies in a guest's memory, beyond that of its good answer.
    const BAD: usize = 8192;

    /// A guest that does this for tools whose names begin with `t`, and allows all others.
    fn bomb(body: &str) -> Guest {
        Guest::deciding(&format!(
            "(if (i32.eq (i32.load8_u (i32.load offset=60 (local.get $call))) (i32.const 116)) (then {body}))
            (i32.const {DECISION})"
        ))
    }

    /// A bomb whose answer is these bytes.
    fn answering(bytes: &[u8]) -> Guest {
        let data = bytes.iter().fold(String::new(), |mut data, byte| {
            write!(data, "\\{byte:02x}").unwrap();
            data
        });
        let fields = format!(r#"(data (i32.const {BAD}) "{data}")"#);
        Guest { fields, ..bomb(&format!("(return (i32.const {BAD}))")) }
    }

    fn fields(guest: Guest, fields: &str) -> Guest {
        Guest { fields: fields.to_owned(), ..guest }
    }

    /// A number at a place of an answer.
    fn with(mut bytes: Vec<u8>, at: usize, number: u32) -> Vec<u8> {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// An answer whose texts lie at [`BAD`].
    fn moved(answer: &callgate_core::verdict::Answer) -> Vec<u8> {
        let bytes = decision(answer);
        // The texts' pointers, where they are: those of a denial and of a rule.
        [4, 12, 28, 48].into_iter().fold(bytes, |bytes, at| {
            let pointer = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let moved = if pointer as usize >= DECISION { pointer + u32::try_from(BAD - DECISION).unwrap() } else { 0 };
            with(bytes, at, moved)
        })
    }

    /// A component: what it does, and how its failure is told.
    type Hostile = (&'static str, Guest, &'static str);

    /// Those that give no answer.
    fn silent() -> Vec<Hostile> {
        let touched = "(i32.store8 (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 1)) (i32.const 1))";
        vec![
            ("a loop", bomb("(loop (br 0))"), "it used up its 400000 units of fuel"),
            (
                "recursion",
                fields(
                    bomb("(drop (call $deeper (i32.const 0)))"),
                    "(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))",
                ),
                "it failed: its stack ran out",
            ),
            (
                "a memory bomb",
                bomb(&format!("(loop (drop (memory.grow (i32.const 1))) {touched} (br 0))")),
                "it asked for more memory than its limit of 8388608 bytes",
            ),
            (
                "a memory bomb in one go",
                bomb("(drop (memory.grow (i32.const 65000)))"),
                "it asked for more memory than its limit of 8388608 bytes",
            ),
            (
                "a table bomb",
                fields(
                    bomb("(loop (drop (table.grow $table (ref.null func) (i32.const 10))) (br 0))"),
                    "(table $table 1 funcref)",
                ),
                "it asked for more memory than its limit of 8000 bytes",
            ),
            (
                "a log flood",
                bomb(
                    "(loop
                        (call $log (i32.const 1) (i32.const 0) (i32.const 16))
                        (local.set $i (i32.add (local.get $i) (i32.const 1)))
                        (br_if 0 (i32.lt_u (local.get $i) (i32.const 2000))))
                    unreachable",
                ),
                "it failed: it stopped itself (`unreachable`) without saying why",
            ),
            (
                "a log line of 64 KiB",
                bomb("(call $log (i32.const 1) (i32.const 0) (i32.const 65536)) unreachable"),
                "it failed: it stopped itself (`unreachable`) without saying why",
            ),
            (
                "a trap after partial work",
                bomb("(i32.store (i32.const 1024) (i32.const 0)) (drop (memory.grow (i32.const 4))) unreachable"),
                "it failed: it stopped itself (`unreachable`) without saying why",
            ),
            (
                "a panic",
                fields(
                    bomb("(call $log (i32.const 3) (i32.const 8192) (i32.const 16)) unreachable"),
                    r#"(data (i32.const 8192) "panicked: no way")"#,
                ),
                "it failed: panicked: no way",
            ),
            (
                "a division by zero",
                bomb("(drop (i32.div_u (i32.const 1) (i32.const 0)))"),
                "it failed: wasm trap: integer divide by zero",
            ),
            (
                "memory outside of its own",
                bomb("(drop (i32.load (i32.const -4)))"),
                "it failed: wasm trap: out of bounds memory access",
            ),
        ]
    }

    /// Those whose answer is none.
    fn talking() -> Vec<Hostile> {
        let no_text = moved(&deny("no"));
        let end = u32::try_from(BAD + no_text.len()).unwrap();
        let no_text = with(with([no_text, vec![0xff]].concat(), 4, end), 8, 1);
        let long_rule = Rule { path: "/rules/1".to_owned(), policy: None, text: "x".repeat(513) };
        vec![
            (
                "a giant answer",
                answering(&with(with(moved(&deny("no")), 12, 0), 16, 65_536)),
                "its answer breaks the contract: the message takes 65536 bytes, more than 1024",
            ),
            (
                "an answer as long as its memory, a thousand times",
                answering(&with(with(decision(&allow()), 56, 0), 60, 16_000)),
                "its answer breaks the contract: too much data is being copied between the host and the guest: \
                 fuel allocated for hostcalls has been exhausted",
            ),
            (
                "an answer of no kind that there is",
                answering(&with(decision(&allow()), 0, 9)),
                "its answer breaks the contract: unexpected discriminant: 9",
            ),
            (
                "an answer outside of its memory",
                bomb("(return (i32.const -8))"),
                "its answer breaks the contract: pointer out of bounds of memory",
            ),
            (
                "an answer that is not aligned",
                bomb("(return (i32.const 1025))"),
                "its answer breaks the contract: return pointer not aligned",
            ),
            (
                "a text that is not UTF-8",
                answering(&no_text),
                "its answer breaks the contract: invalid utf-8 sequence of 1 bytes from index 0",
            ),
            (
                "a code that is none",
                answering(&moved(&deny("No Code"))),
                "its answer breaks the contract: the code `No Code` is not kebab-case of at most 64 bytes",
            ),
            (
                "a rule that is too long",
                answering(&moved(&callgate_core::verdict::Answer { rule: Some(long_rule), ..allow() })),
                "its answer breaks the contract: the rule's text takes 513 bytes, more than 512",
            ),
        ]
    }

    fn asked(agent: &str, tool: &str) -> Call {
        Call { caller: Arc::new(caller(Some(agent), "fs")), ..call(tool) }
    }

    fn resident_bytes() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = pages.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    /// A thousand failures, five of each agent.
    fn fail_for_everybody(plugin: &Configured, told: &str, good: impl Fn()) {
        for bomber in 0..BOMBERS {
            let call = asked(&format!("bomber-{bomber}"), "trap");
            for _ in 0..FAILURES_MAX {
                let failure = plugin.decide(&call).unwrap_err();
                assert_eq!(failure.to_string(), told);
                good();
            }
        }
    }

    /// A thousand calls of one agent: the breaker opens.
    fn fail_for_one(plugin: &Configured, told: &str, good: impl Fn()) {
        for number in 0..CALLS {
            let failure = plugin.decide(&asked("bomber", "trap")).unwrap_err();
            let (is_open, failure) = match failure {
                Failure::Breaker { last } => (true, *last),
                other => (false, other),
            };
            assert_eq!((is_open, &*failure.to_string()), (number >= FAILURES_MAX, told));
            good();
        }
    }

    fn torture(engine: &Engine, neighbour: &Configured, guest: &Guest, told: &str) {
        let component = engine.load(&guest.build()).unwrap();
        for life in [KEPT, Life::Fresh { ready: 2 }] {
            let plugin = component.configure("bomb", "{}", life).unwrap();
            let good = || {
                assert_eq!(neighbour.decide(&asked("bomber", "trap")), Ok(allow()), "a neighbour was harmed");
                assert_eq!(plugin.decide(&asked("other", "read_file")), Ok(allow()), "another agent was denied");
            };
            fail_for_one(&plugin, told, good);
            let before = resident_bytes();
            fail_for_everybody(&plugin, told, good);
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes after {} failures, {life:?}", BOMBERS * FAILURES_MAX);
            assert_eq!(plugin.open_breakers().len(), BOMBERS + 1);
            assert_eq!(plugin.reset(), BOMBERS + 1);
            assert_eq!(plugin.decide(&asked("bomber", "read_file")), Ok(allow()));
        }
    }

    #[test]
    fn a_thousand_calls_of_each_are_denials_and_nobody_else_notices() {
        let engine = engine(limits());
        let neighbour = ready(&engine, &Guest::answering(&allow()));
        let before = resident_bytes();
        for (what, guest, told) in silent().into_iter().chain(talking()) {
            println!("{what}");
            torture(&engine, &neighbour, &guest, told);
        }
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < ALL_GROWTH_BYTES_MAX, "{grown} bytes after all of them");
    }
}
