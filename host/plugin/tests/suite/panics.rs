//! A plugin written with the SDK that panics: what it said and where arrives as the failure. Runs on the component that
//! `plugins/build --out` makes of sdk/examples/panicking; a test of the SDK's own code is worth nothing on one made by hand.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use callgate_core::verdict::{Answer, Failure, Verdict};
use callgate_plugin::{ConfigureError, Limits, Plugin};

use crate::fixture::{KEPT, call, engine};

const SOURCE: &str = include_str!("../../../../sdk/examples/panicking/main.rs");

/// `None`, and said, without `CALLGATE_PLUGINS`: only where plugins are built is there such a component.
#[expect(clippy::disallowed_methods, reason = "a test has no environment module to ask")]
fn panicking() -> Option<Plugin> {
    let Some(folder) = std::env::var_os("CALLGATE_PLUGINS") else {
        writeln!(std::io::stderr(), "skipped: panics (CALLGATE_PLUGINS is not set)").unwrap();
        return None;
    };
    let component = fs::read(PathBuf::from(folder).join("panicking.wasm")).unwrap();
    Some(engine(Limits::SHIPPED).load(&component).unwrap())
}

/// What a panic of this plugin comes to: the place of the `panic!` that begins with these words, and what it says.
fn panic(begin: &str, words: &str) -> Failure {
    let found = SOURCE.lines().enumerate().find_map(|(index, line)| {
        line.contains(&format!("panic!(\"{begin}")).then(|| (index + 1, line.find("panic!").unwrap() + 1))
    });
    let (line, column) = found.unwrap();
    // The line end after the place is the panic's own, shown escaped.
    Failure::Trap(format!("panicked at sdk/examples/panicking/main.rs:{line}:{column}:\\u{{a}}{begin}: {words}"))
}

#[test]
fn a_panic_over_the_settings_is_told_with_its_words_and_its_place() {
    let Some(plugin) = panicking() else { return };
    let failed = plugin.configure("guard", r#"{"configure":"no such planet"}"#, KEPT).unwrap_err();
    assert_eq!(failed, ConfigureError::Failed(panic("while configuring", "no such planet")));
}

#[test]
fn a_panic_over_a_call_is_told_with_its_words_and_its_place() {
    let Some(plugin) = panicking() else { return };
    let guard = plugin.configure("guard", r#"{"decide":"no such moon"}"#, KEPT).unwrap();
    // Twice: the instance that takes the panicked one's place has the hook too.
    for _ in 0..2 {
        assert_eq!(guard.decide(&call("x")), Err(panic("while deciding", "no such moon")));
    }
}

#[test]
fn the_same_plugin_decides_where_it_is_not_told_to_panic() {
    let Some(plugin) = panicking() else { return };
    let guard = plugin.configure("guard", "{}", KEPT).unwrap();
    assert!(matches!(guard.decide(&call("x")), Ok(Answer { verdict: Verdict::Allow, .. })));
}
