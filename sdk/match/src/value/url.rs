//! URLs as their readers see them: enough of it that a pattern's prefix cannot be left again by dots.

use super::SCHEME_END;

/// From a scheme's last segment over the empty one to the authority.
const SEGMENTS_TO_AUTHORITY: usize = 2;

/// Which `/`-separated segment is the authority.
pub(super) fn authority_segment(value: &str) -> Option<usize> {
    let (scheme, _) = value.split_once(SCHEME_END)?;
    Some(scheme.matches('/').count() + SEGMENTS_TO_AUTHORITY)
}

/// Whether a segment is `.` or `..`, as written or as a URL parser (WHATWG URL, 4.4) would find it before a query.
pub(super) fn has_dot_segment(value: &str) -> bool {
    if value.split('/').any(is_dots) {
        return true;
    }
    if !value.contains(['%', '\\', '\t', '\n', '\r', '?', '#']) {
        return false;
    }
    let parsed: String = value.chars().filter(|char| !matches!(char, '\t' | '\n' | '\r')).collect();
    let path = parsed.split(['?', '#']).next().unwrap_or_default();
    path.split(['/', '\\']).any(|segment| is_dots(&segment.replace("%2e", ".").replace("%2E", ".")))
}

/// The byte at which the first segment written as dots begins; 0 when it is only parsed as such.
pub(super) fn dot_segment_at(value: &str) -> usize {
    let mut at = 0;
    for segment in value.split('/') {
        if is_dots(segment) {
            return at;
        }
        at += segment.len() + 1;
    }
    0
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_found_as_written_and_as_parsed() {
        for url in [
            "https://a/../b",
            "https://a/.",
            "https://a/b/..?x",
            "https://a/%2e%2E/b",
            "https://a/.%2e/b",
            r"https://a/b\..\c",
            "https://a/.\t./b",
            "https://a/..#f",
        ] {
            assert!(has_dot_segment(url), "{url}");
        }
        for url in
            ["https://a.b/c", "https://a/...", "https://a/x?y=%2e%2e", "https://a/b?c/..d", "https://a/.well-known"]
        {
            assert!(!has_dot_segment(url), "{url}");
        }
    }

    #[test]
    fn the_authority_comes_after_the_scheme() {
        assert_eq!(authority_segment("https://a/b"), Some(2));
        assert_eq!(authority_segment("x/https://a"), Some(3));
        assert_eq!(authority_segment("a/b"), None);
    }
}
