//! A machine where address space is short. Alone in its binary, because the limit is the whole process's.

#[cfg(test)]
#[path = "suite/fixture.rs"]
#[expect(dead_code, reason = "this binary uses a part of it")]
mod fixture;

#[cfg(test)]
mod tests {
    use callgate_plugin::{Life, Limits};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use crate::fixture::{Guest, allow, call, engine};

    /// Enough for this process and its plugins, far from enough for the pool's slots of 4 GiB.
    const ADDRESS_SPACE_BYTES: u64 = 64 << 30;

    #[test]
    fn without_room_for_a_pool_plugins_decide_all_the_same() {
        let before = getrlimit(Resource::As);
        setrlimit(Resource::As, Rlimit { current: Some(ADDRESS_SPACE_BYTES), ..before }).unwrap();
        let cramped = engine(Limits::SHIPPED);
        assert!(!cramped.has_pool());
        let plugin = cramped.load(&Guest::answering(&allow()).build()).unwrap();
        for life in [Life::Kept { instances: 1 }, Life::Fresh { ready: 1 }] {
            let configured = plugin.configure("guard", "{}", life).unwrap();
            for _ in 0..10 {
                assert_eq!(configured.decide(&call("read_file")), Ok(allow()));
            }
        }

        setrlimit(Resource::As, before).unwrap();
        assert!(engine(Limits::SHIPPED).has_pool(), "there is no room for a pool on this machine at all");
    }
}
