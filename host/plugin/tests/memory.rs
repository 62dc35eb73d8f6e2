//! Plugins that eat memory leave none of it behind. Alone in its binary, because it measures the whole process.
#![cfg(target_os = "linux")]

#[cfg(test)]
#[path = "suite/fixture.rs"]
#[expect(dead_code, reason = "this binary uses a part of it")]
mod fixture;

#[cfg(test)]
mod tests {
    use callgate_core::verdict::Failure;
    use callgate_plugin::{Life, Limits};

    use crate::fixture::{Guest, call, engine};

    /// Touches every page up to the limit, so that it is really resident, and asks for more.
    const BOMB: &str = "(loop
        (drop (memory.grow (i32.const 1)))
        (i32.store8 (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 1)) (i32.const 1))
        (i32.store8 (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 40000)) (i32.const 1))
        (br 0))
        unreachable";

    const ROUNDS: usize = 200;
    const BOMB_BYTES: usize = 32 << 20;

    fn resident_bytes() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = pages.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    #[test]
    fn two_hundred_bombs_leave_nothing_behind() {
        let limits = Limits { memory_bytes: BOMB_BYTES, fuel: u64::MAX, deadline_ms: 10_000, ..Limits::SHIPPED };
        let engine = engine(limits);
        let plugin = engine.load(&Guest::deciding(BOMB).build()).unwrap();
        for life in [Life::Kept { instances: 1 }, Life::Fresh { ready: 2 }] {
            let bomb = plugin.configure("bomb", "{}", life).unwrap();
            let explode = || {
                let failure = bomb.decide(&call("read_file"));
                assert_eq!(failure, Err(Failure::Memory { limit_bytes: BOMB_BYTES as u64 }));
                // Or it would not be asked any more.
                bomb.reset();
            };
            (0..20).for_each(|_| explode());
            let before = resident_bytes();
            (0..ROUNDS).for_each(|_| explode());
            let grown = resident_bytes().saturating_sub(before);
            // Less than one bomb of two hundred: what is left is the allocator's, not the bombs'.
            assert!(grown < BOMB_BYTES, "{grown} bytes after {ROUNDS} bombs, {life:?}");
        }
    }
}
