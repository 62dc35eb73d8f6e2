//! Keys that some parsers take for a reserved one although they are spelled otherwise.
//!
//! Go's `encoding/json` matches keys without regard to case and folds U+017F and U+212A; others were seen to stop at a
//! NUL, to trim, or to normalise (CVE-2026-27896, GHSA-q382-vc8q-7jhj, GHSA-4gph-2hhr-5mwg).

use unicode_normalization::UnicodeNormalization as _;

use crate::escape::is_unseen;

/// Reserved at the top of a message.
pub(super) const AT_TOP: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Reserved in `params`: what names the thing asked for, and what the reader itself goes by.
pub(super) const IN_PARAMS: [&str; 12] = [
    "name",
    "arguments",
    "_meta",
    "task",
    "taskId",
    "inputResponses",
    "requestState",
    "cursor",
    "uri",
    "requestId",
    "protocolVersion",
    "clientInfo",
];

/// Reserved in `params._meta`.
pub(super) const IN_META: [&str; 4] = [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, "progressToken"];

/// The key of a request's revision under the 2026-07-28 dialect.
pub(super) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of a request's client under the 2026-07-28 dialect.
pub(super) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The reserved key that `key` is not but may be taken for.
pub(super) fn resembled(key: &str, reserved: &[&'static str]) -> Option<&'static str> {
    if reserved.contains(&key) {
        return None;
    }
    if key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return reserved.iter().copied().find(|name| name.eq_ignore_ascii_case(key));
    }
    // One character more than the longest reserved key tells a longer key from all of them.
    let longest = reserved.iter().map(|name| name.len()).max().unwrap_or_default();
    let folded: String = folded(key).take(longest + 1).collect();
    reserved.iter().copied().find(|name| name.eq_ignore_ascii_case(&folded))
}

/// Compatibility forms composed, case folded, unseen characters, white space and lone surrogates (U+FFFD) left out. Upper case and then lower folds
/// more than Unicode's case folding does (ı to i), which errs on the side of refusing.
fn folded(key: &str) -> impl Iterator<Item = char> {
    let dropped = |character: &char| {
        is_unseen(*character) || character.is_whitespace() || *character == char::REPLACEMENT_CHARACTER
    };
    let kept = key.chars().filter(move |character| !dropped(character));
    kept.nfkc().flat_map(char::to_uppercase).flat_map(char::to_lowercase).filter(move |character| !dropped(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_finds_what_parsers_confuse() {
        let odd = [
            ("Method", "method"),
            ("METHOD", "method"),
            ("method\0", "method"),
            ("\u{feff}method", "method"),
            (" method", "method"),
            ("method\t", "method"),
            ("met\u{200b}hod", "method"),
            ("param\u{17f}", "params"),
            ("ｍｅｔｈｏｄ", "method"),
            ("\u{2170}d", "id"),
            ("\u{131}d", "id"),
            ("\u{1d5c2}\u{1d5bd}", "id"),
            ("i\u{ad}d", "id"),
            ("id\u{fffd}", "id"),
        ];
        for (key, name) in odd {
            assert_eq!(resembled(key, &AT_TOP), Some(name), "{key:?}");
        }
        assert_eq!(resembled("ta\u{17f}\u{212a}", &IN_PARAMS), Some("task"));
        assert_eq!(resembled("_META", &IN_PARAMS), Some("_meta"));
        assert_eq!(resembled("io.modelcontextprotocol/protocolversion", &IN_META), Some(PROTOCOL_VERSION));
    }

    #[test]
    fn other_keys_are_left_alone() {
        for key in
            ["", "method", "methods", "metho", "idx", "ïd", "\u{456}d", "name", "x-id", "日本", "ididididididididid"]
        {
            assert_eq!(resembled(key, &AT_TOP), None, "{key:?}");
        }
        assert_eq!(resembled("Method", &IN_PARAMS), None);
    }
}
