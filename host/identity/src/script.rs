//! What an interpreter was told to run, out of its arguments. Whoever starts it chooses them, so that this is weaker evidence than the
//! program's own file.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use callgate_core::interpreter::{is_interpreter, is_shell, without_version};

/// How some interpreters take their arguments.
struct Manners {
    of: &'static [&'static str],
    /// Options after which there is no script: the program's text itself follows, or a name that is looked up.
    no_script: &'static [&'static str],
    /// Options whose value is the next argument.
    with_value: &'static [&'static str],
    /// Words in front of the script.
    commands: &'static [&'static str],
}

const MANNERS: &[Manners] = &[
    Manners {
        of: &["node", "nodejs", "electron"],
        no_script: &["-e", "--eval", "-p", "--print", "-pe", "-i", "--interactive", "-c", "--check", "--test"],
        with_value: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-C",
            "--conditions",
            "--env-file",
        ],
        commands: &[],
    },
    Manners {
        of: &["bun"],
        no_script: &["-e", "--eval", "-p", "--print"],
        with_value: &["-r", "--preload"],
        commands: &["run"],
    },
    Manners { of: &["deno"], no_script: &["eval", "repl"], with_value: &["-c", "--config"], commands: &["run"] },
    Manners { of: &["python", "pypy"], no_script: &["-c", "-m"], with_value: &["-W", "-X"], commands: &[] },
    Manners { of: &["ruby", "lua", "luajit"], no_script: &["-e"], with_value: &["-r", "-I", "-l"], commands: &[] },
    Manners { of: &["perl"], no_script: &[], with_value: &["-I"], commands: &[] },
    Manners { of: &["php"], no_script: &["-r", "-a", "-S"], with_value: &["-c", "-d"], commands: &["-f"] },
    // What it is given otherwise is a class, which lies anywhere.
    Manners { of: &["java"], no_script: &[], with_value: &[], commands: &[] },
];
const SHELL: Manners =
    Manners { of: &[], no_script: &[], with_value: &["+o", "+O", "--rcfile", "--init-file"], commands: &[] };
/// Options whose value is the script.
const SCRIPT_FOLLOWS: &[&str] = &["-jar", "--"];
/// The longest title that is told of, characters.
const TITLE_CHARS_MAX: usize = 64;

/// The script of an interpreter of this file name, as it was given. `None` as well for one whose manners are not known.
pub(crate) fn of(interpreter: &str, arguments: &[OsString]) -> Option<OsString> {
    let name = without_version(interpreter);
    let manners = if is_shell(name) { &SHELL } else { MANNERS.iter().find(|manners| manners.of.contains(&name))? };
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        if manners.no_script.contains(&text) || is_text_in_one(name, text) {
            return None;
        } else if SCRIPT_FOLLOWS.contains(&text) {
            return rest.next().cloned();
        } else if manners.with_value.contains(&text) || (is_shell(name) && letters(text).ends_with(['o', 'O'])) {
            rest.next()?;
        } else if !text.starts_with(['-', '+']) && !manners.commands.contains(&text) {
            return (name != "java").then(|| argument.clone());
        }
    }
    None
}

/// Shells and Perl join single letters: `-lc` and `-we` take the text of a program as well, and a shell's `-s` takes it from stdin.
fn is_text_in_one(name: &str, option: &str) -> bool {
    match name {
        "perl" => letters(option).ends_with(['e', 'E']),
        shell if is_shell(shell) => letters(option).contains(['c', 's']),
        _ => false,
    }
}

/// The letters behind a single dash.
fn letters(option: &str) -> &str {
    option.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default()
}

/// The first word of what a process shows in the place of its arguments: one string, and not the name of its program.
pub(crate) fn title(arguments: &[OsString]) -> Option<String> {
    let [only] = arguments else { return None };
    let word = only.to_str()?.split_ascii_whitespace().next()?;
    let name = Path::new(word).file_name().and_then(OsStr::to_str)?;
    (!is_interpreter(name)).then(|| name.chars().take(TITLE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(command: &str) -> Option<String> {
        let arguments: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        of(command.split(' ').next().unwrap(), &arguments).map(|script| script.into_string().unwrap())
    }

    #[test]
    fn the_first_argument_that_is_no_option_is_the_script() {
        for (command, expected) in [
            ("node a.js b.js", "a.js"),
            ("node --max-old-space-size=4096 a.js", "a.js"),
            ("node -r x.js --import y.js a.js", "a.js"),
            ("python3.11 -u -W ignore a.py -c", "a.py"),
            ("bash -x a.sh", "a.sh"),
            ("sh -e a.sh", "a.sh"),
            ("bash -o pipefail a.sh", "a.sh"),
            ("bash -- -a.sh", "-a.sh"),
            ("java -jar a.jar", "a.jar"),
            ("deno run --allow-net a.ts", "a.ts"),
            ("bun run a.ts", "a.ts"),
        ] {
            assert_eq!(script(command).as_deref(), Some(expected), "{command}");
        }
    }

    #[test]
    fn a_text_a_module_and_a_prompt_are_no_script() {
        for command in [
            "node -e code a.js",
            "python3 -m http.server",
            "python3 -c code",
            "sh -c code",
            "bash -lc code",
            "bash -i",
            "perl -we code",
            "java -cp x Main",
            "bash -euo pipefail -c code",
            "deno eval code",
            "php -r code",
            "julia a.jl",
            "node",
            "node -r",
        ] {
            assert_eq!(script(command), None, "{command}");
        }
    }

    #[test]
    fn a_title_is_its_first_word() {
        let of = |arguments: &[&str]| title(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(&["npm exec server"]).as_deref(), Some("npm"));
        assert_eq!(of(&["claude"]).as_deref(), Some("claude"));
        assert_eq!(of(&["/opt/x/claude --y"]).as_deref(), Some("claude"));
        assert_eq!(of(&["node", "a.js"]), None);
        assert_eq!(of(&["node"]), None);
        assert_eq!(of(&[""]), None);
    }
}
