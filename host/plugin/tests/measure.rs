//! The figures that limits and comments rest on, for a person to look at:
//! `cargo test --release -p callgate-plugin --test measure -- --ignored --nocapture`. No bar is checked here.
#![cfg(target_os = "linux")]

#[cfg(test)]
#[path = "suite/fixture.rs"]
#[expect(dead_code, reason = "this binary uses a part of it")]
mod fixture;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use callgate_core::call::Call;
    use callgate_core::evaluate::{ChainDefault, evaluate};
    use callgate_core::port::Evaluator as _;
    use callgate_core::verdict::Failure;
    use callgate_plugin::{Cache, Chain, ConfigureError, Configured, Engine, Life, Limits, Link, Origin};
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use serde_json::json;

    use crate::fixture::{Guest, Log, allow, call, engine, full_call};

    const CALLS: usize = 5_000;
    const RULE_COUNTS: [usize; 3] = [10, 1_000, 10_000];
    const KEPT: Life = Life::Kept { instances: 1 };

    fn component(name: &str) -> Vec<u8> {
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../plugins/dist/{name}.wasm"))).unwrap()
    }

    fn settings(count: usize) -> String {
        let rules: Vec<_> =
            (0..count).map(|index| json!({ "effect": "deny", "tool": format!("tool_{index}_*") })).collect();
        json!({ "rules": rules }).to_string()
    }

    /// Median and 99th percentile, in microseconds.
    fn spread(mut times: Vec<Duration>) -> String {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
        format!("p50 {:.2} µs, p99 {:.2} µs, min {:.2} µs", at(50), at(99), at(0))
    }

    fn timed<T>(job: impl FnOnce() -> T) -> (T, Duration) {
        let begin = Instant::now();
        (job(), begin.elapsed())
    }

    fn calls(plugin: &Configured, pause: Option<Duration>) -> String {
        calls_of(plugin, &full_call(), pause)
    }

    fn calls_of(plugin: &Configured, call: &Call, pause: Option<Duration>) -> String {
        let count = if pause.is_some() { CALLS / 10 } else { CALLS };
        let times = (0..count).map(|_| {
            std::thread::sleep(pause.unwrap_or_default());
            timed(|| plugin.decide(call).unwrap()).1
        });
        spread(times.collect())
    }

    fn resident_mib() -> f64 {
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: f64 = pages.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        pages * 4096.0 / f64::from(1 << 20)
    }

    /// The least of a limit with which `passes` says yes.
    fn least(passes: impl Fn(u64) -> bool) -> u64 {
        let (mut low, mut high) = (0, 10_000_000_000);
        while high - low > 1 + low / 1000 {
            let middle = u64::midpoint(low, high);
            if passes(middle) { high = middle } else { low = middle }
        }
        high
    }

    #[test]
    #[ignore = "prints figures, for a person to look at"]
    fn how_long_a_loop_takes_to_be_denied() {
        const LOOPS: usize = 100;
        for (what, limits) in
            [("out of fuel", Limits::SHIPPED), ("out of time", Limits { fuel: u64::MAX, ..Limits::SHIPPED })]
        {
            let plugin = engine(limits).load(&Guest::deciding("(loop (br 0)) unreachable").build()).unwrap();
            let guard = plugin.configure("guard", "{}", KEPT).unwrap();
            let times = (0..LOOPS).map(|_| {
                let _ = guard.reset();
                timed(|| guard.decide(&call("read_file")).unwrap_err()).1
            });
            let mut times: Vec<Duration> = times.collect();
            times.sort_unstable();
            let (median, longest) = (times[LOOPS / 2], times[LOOPS - 1]);
            println!(
                "a loop, {what}: p50 {median:?}, max {longest:?}, where the deadline is {} ms",
                limits.deadline_ms
            );
        }
    }

    #[test]
    #[ignore = "prints figures, for a person to look at"]
    fn figures() {
        println!("resident at first            {:.1} MiB", resident_mib());
        let (bare, setting_up) = timed(|| engine(Limits::SHIPPED));
        println!("engine                       {setting_up:?}, pool: {}, {:.1} MiB", bare.has_pool(), resident_mib());

        let folder = tempfile::TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let cached = || cached_with(&folder, Limits::SHIPPED);
        let bytes = component("rules");
        for expected in [Origin::Compiled, Origin::Cached, Origin::Cached] {
            let engine = cached();
            let (plugin, loading) = timed(|| engine.load(&bytes).unwrap());
            assert_eq!(*plugin.origin(), expected);
            let (configured, configuring) = timed(|| plugin.configure("rules", "{}", KEPT).unwrap());
            let (_, first) = timed(|| configured.decide(&full_call()).unwrap());
            println!(
                "{expected:?}: load {loading:?}, configure {configuring:?}, first call {first:?}, {:.1} MiB",
                resident_mib()
            );
        }

        let with_cache = cached();
        let plugin = with_cache.load(&bytes).unwrap();
        for count in RULE_COUNTS {
            let settings = settings(count);
            let (kept, configuring) = timed(|| plugin.configure("rules", &settings, KEPT).unwrap());
            println!("{count} rules: configure       {configuring:?}");
            println!("{count} rules: kept            {}", calls(&kept, None));
            let fresh = plugin.configure("rules", &settings, Life::Fresh { ready: 0 }).unwrap();
            if count < 10_000 {
                println!("{count} rules: fresh, on path  {}", calls(&fresh, None));
            }
            let ahead = plugin.configure("rules", &settings, Life::Fresh { ready: 4 }).unwrap();
            println!("{count} rules: fresh, ahead    {}", calls(&ahead, Some(Duration::from_millis(2))));
            println!("{count} rules: kept, paused    {}", calls(&kept, Some(Duration::from_millis(2))));
        }
        println!("resident                     {:.1} MiB", resident_mib());

        let trivial = bare.load(&Guest::answering(&allow()).build()).unwrap();
        println!("trivial guest: kept          {}", calls(&trivial.configure("g", "{}", KEPT).unwrap(), None));
        let fresh = trivial.configure("g", "{}", Life::Fresh { ready: 0 }).unwrap();
        println!("trivial guest: fresh         {}", calls(&fresh, None));

        let patient = engine(Limits { deadline_ms: 10_000, ..Limits::SHIPPED });
        let spin = patient.load(&Guest::deciding("(loop (br 0)) unreachable").build()).unwrap();
        let spin = spin.configure("spin", "{}", KEPT).unwrap();
        for _ in 0..3 {
            let (end, time) = timed(|| spin.decide(&call("x")).unwrap_err());
            println!("shipped fuel, empty loop     {time:?}: {end}");
        }
        for count in [10, 1_000, 10_000, 50_000] {
            let settings = settings(count);
            let configure = |fuel: u64| {
                let engine = cached_with(&folder, Limits { configure_fuel: fuel, ..Limits::SHIPPED });
                match engine.load(&bytes).map(|plugin| plugin.configure("rules", &settings, KEPT)) {
                    Ok(Ok(_)) => true,
                    Err(_) | Ok(Err(ConfigureError::Failed(Failure::Fuel { .. }))) => false,
                    Ok(Err(other)) => panic!("{other}"),
                }
            };
            let decide = |fuel: u64| {
                let engine = cached_with(&folder, Limits { fuel, ..Limits::SHIPPED });
                let plugin = engine.load(&bytes).unwrap().configure("rules", &settings, KEPT).unwrap();
                plugin.decide(&full_call()).is_ok()
            };
            println!("{count} rules: fuel            configure {}, call {}", least(configure), least(decide));
        }
    }

    const GRANTS: usize = 100;
    const BUDGETS: usize = 20;
    /// How many of the budgets fit the call.
    const FITTING: usize = 3;

    /// Grants of one agent and server, the last of which fits the call.
    fn grants() -> String {
        let grant = |index: usize| {
            let tool = if index + 1 == GRANTS { "write_*".to_owned() } else { format!("tool_{index}_*") };
            let path = if index + 1 == GRANTS { "/tmp/**".to_owned() } else { format!("/home/user/{index}/**") };
            json!({"agent": "cursor", "server": "fs", "tool": tool, "args": {"path": path}})
        };
        json!({"grants": (0..GRANTS).map(grant).collect::<Vec<_>>()}).to_string()
    }

    fn budgets() -> String {
        let fitting = [
            json!({"limit": 1_u64 << 50, "tool": "write_file"}),
            json!({"limit": 1_u64 << 50, "all_tools": true, "per": "agent", "window": {"sliding_seconds": 60}}),
            json!({"limit": 1_u64 << 50, "tool": "write_*", "per": "everyone", "window": {"calendar": "day", "zone": "UTC"}}),
        ];
        assert_eq!(fitting.len(), FITTING);
        let others = (FITTING..BUDGETS).map(|index| json!({"limit": 9, "tool": format!("tool_{index}_*")}));
        json!({"budgets": fitting.into_iter().chain(others).collect::<Vec<_>>()}).to_string()
    }

    /// The three default plugins together: what a decision takes without its commit, and what each plugin has of it.
    #[test]
    #[ignore = "prints figures, for a person to look at"]
    fn the_default_plugins() {
        let folder = tempfile::TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let engine = cached_with(&folder, Limits::SHIPPED);
        let plugins = [("rules", settings(1_000)), ("arguments", grants()), ("budget", budgets())];
        let call = full_call();
        let mut links = Vec::new();
        for (name, settings) in &plugins {
            let plugin = engine.load(&component(name)).unwrap();
            let kept = plugin.configure(name, settings, KEPT).unwrap();
            let fresh = plugin.configure(name, settings, Life::Fresh { ready: 0 }).unwrap();
            let ahead = plugin.configure(name, settings, Life::Fresh { ready: 4 }).unwrap();
            println!("{name}: kept                 {}", calls_of(&kept, &call, None));
            println!("{name}: fresh, on path       {}", calls_of(&fresh, &call, None));
            println!("{name}: fresh, ahead, paused {}", calls_of(&ahead, &call, Some(Duration::from_millis(2))));
            println!("{name}: kept, paused         {}", calls_of(&kept, &call, Some(Duration::from_millis(2))));
            let answer = kept.decide(&call).unwrap();
            println!("{name}: {:?}, {} charges", answer.verdict, answer.charges.len());
            let configures = |fuel: u64| {
                let engine = cached_with(&folder, Limits { configure_fuel: fuel, ..Limits::SHIPPED });
                engine.load(&component(name)).is_ok_and(|plugin| plugin.configure(name, settings, KEPT).is_ok())
            };
            let decides = |fuel: u64| {
                let engine = cached_with(&folder, Limits { fuel, ..Limits::SHIPPED });
                engine.load(&component(name)).unwrap().configure(name, settings, KEPT).unwrap().decide(&call).is_ok()
            };
            println!("{name}: fuel                 configure {}, call {}", least(configures), least(decides));
            links.push(Link::ready(kept, true));
        }
        let ask = |chain: &Chain| {
            let times = (0..CALLS).map(|_| timed(|| evaluate(chain.opinions(&call))).1);
            spread(times.collect())
        };
        let chain = |links: &[Link]| Chain::new(1, ChainDefault::Deny, links.to_vec());
        println!("none                        {}", ask(&chain(&[])));
        println!("rules                       {}", ask(&chain(&links[..1])));
        println!("rules, arguments, budget    {}", ask(&chain(&links)));
        let third = engine.load(&component("rules")).unwrap();
        let third = third.configure("guard", &settings(10), Life::Fresh { ready: 4 }).unwrap();
        links.push(Link::ready(third, false));
        println!("and a fresh one, no pause   {}", ask(&chain(&links)));
    }

    fn cached_with(folder: &tempfile::TempDir, limits: Limits) -> Engine {
        let folder = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        Engine::new(limits, Some(Cache::open(folder).unwrap()), Arc::new(Log::default())).unwrap()
    }
}
