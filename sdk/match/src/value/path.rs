//! Paths as their readers resolve them, without looking at any file system.

use crate::error::PatternError;

/// The segments a path leads to, the empty one before a leading `/` included; the root alone is two empty ones.
pub(super) fn resolve(path: &str) -> Result<Vec<&str>, PatternError> {
    let absolute = path.starts_with('/');
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                if segments.pop().is_none() && !absolute {
                    return Err(PatternError::AboveStart);
                }
            }
            name => segments.push(name),
        }
    }
    finish(absolute, segments, "")
}

/// Puts the root before an absolute path's segments; a relative path has to have one.
pub(super) fn finish<T: Clone>(absolute: bool, mut segments: Vec<T>, empty: T) -> Result<Vec<T>, PatternError> {
    match (absolute, segments.is_empty()) {
        (true, true) => Ok(vec![empty.clone(), empty]),
        (true, false) => {
            segments.insert(0, empty);
            Ok(segments)
        }
        (false, true) => Err(PatternError::Nowhere),
        (false, false) => Ok(segments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved() {
        for (path, resolved) in [
            ("/", "/"),
            ("//", "/"),
            ("/..", "/"),
            ("/a/../../b", "/b"),
            ("/a//b/./c/", "/a/b/c"),
            ("a/b/..", "a"),
            ("./a", "a"),
            ("a/...", "a/..."),
        ] {
            assert_eq!(resolve(path).map(|segments| segments.join("/")), Ok(resolved.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_relative_path_that_leads_nowhere_or_above_its_start_is_none() {
        for path in ["", ".", "./", "a/.."] {
            assert_eq!(resolve(path), Err(PatternError::Nowhere), "{path}");
        }
        for path in ["..", "../a", "a/../..", "a/../../a"] {
            assert_eq!(resolve(path), Err(PatternError::AboveStart), "{path}");
        }
    }
}
