//! Tool patterns and their index against slower, simpler readings of the same rules.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_match::{ToolIndex, ToolPattern};
use proptest::collection::vec;
use proptest::prelude::*;

/// A pattern's meaning word for word: try everything. Exponential, so for short texts only.
fn means(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|taken| means(rest, &name[taken..])),
        ['?', rest @ ..] => !name.is_empty() && means(rest, &name[1..]),
        [literal, rest @ ..] => name.first() == Some(literal) && means(rest, &name[1..]),
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn pattern(text: &str) -> ToolPattern {
    ToolPattern::parse(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_pattern_means_what_it_says(text in "[ab/é*?]{1,8}", name in "[ab/é*?\n]{0,8}") {
        prop_assert_eq!(pattern(&text).matches(&name), means(&chars(&text), &chars(&name)));
    }

    /// All names that tell such short patterns apart: `c` stands for every character that neither names.
    #[test]
    fn two_patterns_are_compared_by_the_names_they_match(one in "[ab*?]{1,3}", other in "[ab*?]{1,3}") {
        let mut names = vec![String::new()];
        let mut start = 0;
        for _ in 0..6 {
            let end = names.len();
            for name in start..end {
                for char in ['a', 'b', 'c'] {
                    names.push(format!("{}{char}", names[name]));
                }
            }
            start = end;
        }
        let (one, other) = (pattern(&one), pattern(&other));
        prop_assert_eq!(one.overlaps(&other), names.iter().any(|name| one.matches(name) && other.matches(name)));
        if one.covers(&other) {
            prop_assert!(names.iter().all(|name| one.matches(name) || !other.matches(name)));
        }
    }

    #[test]
    fn an_index_finds_what_a_scan_finds(texts in vec("[abé*?]{1,7}", 0..40), name in "[abé*?]{0,8}") {
        let patterns: Vec<ToolPattern> = texts.iter().map(|text| pattern(text)).collect();
        let mut found = ToolIndex::new(&patterns).matching(&name);
        found.sort_unstable();
        let scanned: Vec<usize> = (0..patterns.len()).filter(|index| patterns[*index].matches(&name)).collect();
        prop_assert_eq!(found, scanned);
    }

    #[test]
    fn an_index_over_realistic_names_finds_what_a_scan_finds(
        texts in vec("(\\*|read_|write_|list_)(\\*|\\?|file|repo)?(_[0-3])?(\\*)?", 0..60),
        name in "(read|write|list)_(file|repo)(_[0-3])?(_x)?",
    ) {
        let patterns: Vec<ToolPattern> = texts.iter().map(|text| pattern(text)).collect();
        let mut found = ToolIndex::new(&patterns).matching(&name);
        found.sort_unstable();
        let scanned: Vec<usize> = (0..patterns.len()).filter(|index| patterns[*index].matches(&name)).collect();
        prop_assert_eq!(found, scanned);
    }
}

#[test]
fn patterns_nested_to_the_limit_are_indexed() {
    let texts: Vec<String> = (1..=1024).map(|length| "a".repeat(length)).collect();
    let patterns: Vec<ToolPattern> = texts.iter().map(|text| pattern(text)).collect();
    let index = ToolIndex::new(&patterns);
    assert_eq!(index.matching(&"a".repeat(700)), [699]);
    assert_eq!(index.matching(&"a".repeat(1025)), [0; 0]);
}

#[test]
fn a_hostile_name_takes_no_exponential_time() {
    let text = format!("{}b", "*a".repeat(500));
    let name = "a".repeat(20_000);
    assert!(!pattern(&text).matches(&name));
    assert_eq!(ToolIndex::new([&pattern(&text)]).matching(&name), [0; 0]);
}

#[test]
fn a_pattern_covers_what_it_says_more_generally() {
    for (one, other) in [("*", "a?*"), ("a*", "a"), ("a*", "a*b"), ("?", "a"), ("a?", "a?"), ("*a*", "*ba"), ("a", "a")]
    {
        assert!(pattern(one).covers(&pattern(other)), "{one} {other}");
    }
    for (one, other) in [("?", "*"), ("a", "a*"), ("a*b", "a*"), ("?", "ab"), ("b*", "a*")] {
        assert!(!pattern(one).covers(&pattern(other)), "{one} {other}");
    }
}
