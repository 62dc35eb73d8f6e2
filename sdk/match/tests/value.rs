//! Value patterns against another glob engine where the two mean the same, and against the case table.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::collections::BTreeMap;

use callgate_match::{PatternError, ToolPattern, ValuePattern};
use globset::GlobBuilder;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

fn pattern(text: &str) -> ValuePattern {
    ValuePattern::parse(text).unwrap()
}

fn globset(text: &str) -> globset::GlobMatcher {
    GlobBuilder::new(text).literal_separator(true).backslash_escape(false).build().unwrap().compile_matcher()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Absolute, resolved already, no class and no brace: here globset means the same.
    #[test]
    fn a_path_pattern_agrees_with_globset(
        text in "(/(\\*\\*|[ab*?]{1,3})){1,4}",
        value in "(/[ab]{1,3}){1,5}",
    ) {
        // A run of stars that is not a whole segment is one star here, and a depth-crossing one there.
        prop_assume!(text.split('/').all(|segment| segment == "**" || !segment.contains("**")));
        prop_assume!(text.contains(['*', '?']));
        prop_assert_eq!(pattern(&text).matches_text(&value), globset(&text).is_match(&value));
    }

    #[test]
    fn a_class_agrees_with_globset(text in "[ab]?\\[!?(a|b|c|a-b|b-c){1,2}\\][ab*]?", value in "[abc!-]{0,4}") {
        prop_assert_eq!(pattern(&text).matches_text(&value), globset(&text).is_match(&value));
    }

    #[test]
    fn a_path_is_judged_by_where_it_leads(text in "(/[ab]|/\\*|/\\*\\*){1,3}", path in "(/[ab.]{0,2}){1,6}") {
        let mut led: Vec<&str> = Vec::new();
        for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
            if segment == ".." { led.pop(); } else { led.push(segment); }
        }
        let resolved = format!("/{}", led.join("/"));
        prop_assert_eq!(pattern(&text).matches_text(&path), pattern(&text).matches_text(&resolved));
    }

    #[test]
    fn nothing_outside_its_folder_matches(path in "[ab./]{0,12}") {
        if pattern("/a/b/**").matches_text(&path) {
            let mut led: Vec<&str> = Vec::new();
            for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
                if segment == ".." { led.pop(); } else { led.push(segment); }
            }
            prop_assert!(path.starts_with('/') && led.len() > 2 && led[..2] == ["a", "b"], "{}", path);
        }
    }

    #[test]
    fn no_pattern_or_value_makes_it_fail(text in "(re:)?[ab*?\\[\\]!^.:/\\-@#é]{0,12}", value in ".{0,12}") {
        if let Ok(pattern) = ValuePattern::parse(&text) {
            let _: bool = pattern.matches_text(&value);
            let _: bool = pattern.matches_json(&value);
        }
    }
}

#[test]
fn globs_are_exact() {
    for (text, matched, refused) in [
        ("release-*", &["release-", "release-1"][..], &["release-1/x", "releases", "release-1/../main"][..]),
        ("main", &["main"], &["./main", "main/", "Main", ""]),
        ("", &[""], &["a"]),
        ("**", &["", "a", "a/b", "/"], &[".", ".."]),
        ("a**b", &["ab", "axb"], &["a/b"]),
        ("*", &["", "a", "..."], &[".", "..", "a/b"]),
        ("[!a]*", &["b", "!x", "^"], &["a", "a1", "", "/"]),
        ("[^a]", &["^", "a"], &["b"]),
        ("[]]", &["]"], &["[", "]]"]),
        ("[a-]", &["a", "-"], &["b"]),
        ("[-a]", &["a", "-"], &["b"]),
        ("{a,b}", &["{a,b}"], &["a", "b"]),
        (r"\*", &[r"\x", r"\"], &["*"]),
        (
            "/srv/data/**",
            &["/srv/data/a", "/srv/data/a/b", "//srv//data/./a/"],
            &["/srv/data", "/srv/data/", "/srv/data/..", "srv/data/a"],
        ),
        ("/srv/**/x", &["/srv/x", "/srv/a/b/x", "/etc/../srv/x"], &["/srvx", "/srv/ax"]),
        ("**/x", &["x", "/x", "a/x", "/a/b/x"], &["/a/xx", ""]),
        ("/*", &["/", "/a", "/a/.."], &["/a/b", "a"]),
        ("./*", &["a", "./a"], &["/a", "..", "../a", "a/..", ""]),
        ("/srv/a", &["/srv/a", "/srv//a/", "/srv/b/../a"], &["/srv/a/b", "srv/a"]),
        ("/", &["/", "//", "/a/.."], &["", "/a"]),
    ] {
        for value in matched {
            assert!(pattern(text).matches_text(value), "{text} {value}");
        }
        for value in refused {
            assert!(!pattern(text).matches_text(value), "{text} {value}");
        }
    }
}

#[test]
fn a_url_cannot_be_left_by_dots_or_by_its_authority() {
    for (text, matched, refused) in [
        (
            "https://*.example.com/**",
            &["https://a.example.com/x", "https://a.b.example.com/x/y", "https://a.example.com/x?y=a/b"][..],
            &[
                "https://example.com/x",
                "https://a.example.com",
                "https://a.example.com/",
                "https://a.example.com/../x",
                "https://a.example.com/x/%2E%2e/y",
                r"https://a.example.com/x\..\y",
                "https://evil.com?.example.com/x",
                "https://evil.com#.example.com/x",
                "https://u@.example.com/x",
                r"https://evil.com\.example.com/x",
                "http://a.example.com/x",
                "HTTPS://a.example.com/x",
            ][..],
        ),
        ("https://**", &["https://a/b", "https://a"], &["https://evil?x", "https://u@a/b", "https://"]),
        ("https://u@*/x", &["https://u@a/x"], &["https://u@a@b/x", "https://a/x"]),
        ("*://a/x", &["https://a/x", "://a/x"], &["https://b/x", "a/b://a/x"]),
        ("https://a/x", &["https://a/x"], &["https://a//x", "https://a/x/", "https://a/./x"]),
    ] {
        for value in matched {
            assert!(pattern(text).matches_text(value), "{text} {value}");
        }
        for value in refused {
            assert!(!pattern(text).matches_text(value), "{text} {value}");
        }
    }
}

#[test]
fn what_is_no_string_is_never_a_path_or_a_url() {
    assert!(pattern("*").matches_json("[1]"));
    assert!(!pattern("*").matches_json(r#"["a/b"]"#));
    assert!(pattern("**/*").matches_json(r#"{"a":"/"}"#));
    assert!(pattern("100").matches_json("100"));
    assert!(!pattern("100").matches_json("100.0"));
    assert!(pattern("null").matches_json("null"));
    assert!(pattern(r#"re:^\["a""#).matches_json(r#"["a","b"]"#));
    assert!(pattern(r#"**"../x"**"#).matches_json(r#"{"a":"../x"}"#));
}

#[test]
fn a_malformed_pattern_is_an_error_that_says_where() {
    for (text, error) in [
        ("a[b", PatternError::UnclosedClass { at: 1 }),
        ("[]", PatternError::UnclosedClass { at: 0 }),
        ("[!]", PatternError::UnclosedClass { at: 0 }),
        ("a[/b", PatternError::UnclosedClass { at: 1 }),
        ("x/[a/b]", PatternError::SlashInClass { at: 2 }),
        ("[+-9]", PatternError::SlashInClass { at: 0 }),
        ("é[z-a]", PatternError::ReversedRange { from: 'z', to: 'a', at: 2 }),
        ("/srv/*/../x", PatternError::ParentSegment { at: 7 }),
        ("../*", PatternError::ParentSegment { at: 0 }),
        ("https://a/../*", PatternError::ParentSegment { at: 10 }),
        ("https://a/./*", PatternError::DotSegment { at: 10 }),
        ("https://a/../x", PatternError::DotSegment { at: 10 }),
        ("../x", PatternError::AboveStart),
        ("a/..", PatternError::Nowhere),
        ("./", PatternError::Nowhere),
    ] {
        assert_eq!(ValuePattern::parse(text), Err(error), "{text}");
    }
    assert!(matches!(ValuePattern::parse("re:("), Err(PatternError::Regex(_))));
    assert!(matches!(ValuePattern::parse(&"a".repeat(4097)), Err(PatternError::TooLong { .. })));
}

#[test]
fn a_hostile_value_takes_no_exponential_time() {
    let value = "a".repeat(20_000);
    assert!(!pattern(&format!("{}b", "*a".repeat(200))).matches_text(&value));
    let value = "/a".repeat(5_000);
    assert!(!pattern(&format!("/{}b", "**/a/".repeat(100))).matches_text(&value));
}

/// The dialect of the arguments plugin, as far as matching goes, over the whole table.
#[test]
fn every_case_of_the_arguments_table_holds() {
    let json = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/arguments.json"));
    let sets: Vec<Set> = serde_json::from_str(json).unwrap();
    let mut calls = 0;
    for (number, set) in sets.iter().enumerate() {
        for case in &set.calls {
            calls += 1;
            let (verdict, because) = set.decide(case);
            assert_eq!(verdict, case.expect, "set {number}: {case:?}");
            assert_eq!(because, case.because.as_deref(), "set {number}: {case:?}");
        }
    }
    assert_eq!(calls, 773);
}

#[derive(Deserialize)]
struct Set {
    grants: Vec<Grant>,
    calls: Vec<Case>,
}

#[derive(Deserialize)]
struct Grant {
    agent: String,
    server: String,
    tool: String,
    #[serde(default)]
    args: BTreeMap<String, String>,
}

type Object = BTreeMap<String, Box<RawValue>>;

#[derive(Deserialize, Debug)]
struct Case {
    agent: Option<String>,
    server: String,
    tool: String,
    arguments: Object,
    expect: String,
    because: Option<String>,
}

impl Set {
    fn decide(&self, case: &Case) -> (&'static str, Option<&'static str>) {
        let is_about = |grant: &&Grant| {
            Some(&grant.agent) == case.agent.as_ref()
                && grant.server == case.server
                && ToolPattern::parse(&grant.tool).unwrap().matches(&case.tool)
        };
        let about: Vec<&Grant> = self.grants.iter().filter(is_about).collect();
        let fits = |grant: &&Grant| grant.args.iter().all(|(name, text)| argument_fits(name, text, &case.arguments));
        match (about.is_empty(), about.iter().any(fits)) {
            (true, _) => ("deny", Some("tool")),
            (false, false) => ("deny", Some("argument")),
            (false, true) => ("allow", None),
        }
    }
}

fn argument_fits(name: &str, text: &str, arguments: &Object) -> bool {
    let literal = arguments.get(name).cloned();
    let mut steps = name.split('.');
    let first = steps.next().and_then(|step| arguments.get(step).cloned());
    let path = steps.fold(first, |value, step| serde_json::from_str::<Object>(value?.get()).ok()?.get(step).cloned());
    [literal, path].into_iter().flatten().all(|value| {
        let value = value.get();
        match serde_json::from_str::<String>(value) {
            Ok(string) => pattern(text).matches_text(&string),
            Err(_) => pattern(text).matches_json(&compact(value)),
        }
    })
}

/// The compact form of a JSON value that is no string: white space dropped, numbers as they are written.
fn compact(json: &str) -> String {
    let mut compact = String::new();
    let (mut in_string, mut escaped) = (false, false);
    for char in json.chars() {
        if in_string || !char.is_ascii_whitespace() {
            compact.push(char);
        }
        (in_string, escaped) = match (in_string, escaped, char) {
            (true, false, '\\') => (true, true),
            (inside, false, '"') => (!inside, false),
            (inside, _, _) => (inside, false),
        };
    }
    compact
}
