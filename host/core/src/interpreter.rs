//! Programs that run whatever program they are given: their own file says nothing of who calls.

/// What a shell may be called. One that was given a command rather than a file stands between a program and what it starts.
const SHELLS: &[&str] = &["ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh"];
/// Other interpreters, without the digits of their versions.
const OTHERS: &[&str] = &[
    "bun",
    "deno",
    "electron",
    "java",
    "julia",
    "lua",
    "luajit",
    "node",
    "nodejs",
    "osascript",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "pypy",
    "python",
    "Rscript",
    "ruby",
    "tclsh",
    "wish",
];

/// Whether a program of this file name runs other programs' text.
pub fn is_interpreter(file_name: &str) -> bool {
    is_shell(file_name) || is_among(OTHERS, file_name)
}

/// Whether a program of this file name is a shell.
pub fn is_shell(file_name: &str) -> bool {
    is_among(SHELLS, file_name)
}

/// A program's file name without its version: `python3.11` is `python`, `node20` is `node`.
pub fn without_version(file_name: &str) -> &str {
    file_name.trim_end_matches(|end: char| end.is_ascii_digit() || matches!(end, '.' | '-'))
}

fn is_among(names: &[&str], file_name: &str) -> bool {
    names.contains(&without_version(file_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_known_by_its_name_whatever_its_version() {
        for name in ["node", "nodejs", "node20", "python3.11", "python", "perl5.36.0", "electron28", "java", "dash"] {
            assert!(is_interpreter(name), "{name}");
        }
        for name in ["cursor", "claude", "nodemon", "pythonic", "code", "bash-completion", "3.11", ""] {
            assert!(!is_interpreter(name), "{name}");
        }
        assert!(is_shell("bash5.2") && is_shell("sh") && !is_shell("node"));
    }
}
