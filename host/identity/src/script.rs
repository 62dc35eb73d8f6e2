//! What an interpreter was told to run, out of its arguments. Whoever starts it chooses them, so that this is weaker evidence than the
//! program's own file.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Options after which there is no script: the program's text itself follows, or a name that is looked up.
const NO_SCRIPT: &[&str] = &[
    "-c",
    "-e",
    "-E",
    "-m",
    "-p",
    "-pe",
    "--eval",
    "--print",
    "--module",
    "-cp",
    "-classpath",
    "--class-path",
    "-i",
    "-s",
];
/// Options whose value is the next argument.
const WITH_VALUE: &[&str] = &[
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-C",
    "--conditions",
    "--env-file",
    "-W",
    "-X",
    "-I",
    "-o",
    "-O",
    "--rcfile",
    "--init-file",
];
/// Options whose value is the script.
const SCRIPT_FOLLOWS: &[&str] = &["-jar", "-f", "--"];
/// Commands of an interpreter that stand in front of a script.
const COMMANDS: &[(&str, &[&str])] = &[("bun", &["run", "x"]), ("deno", &["run"])];
/// The longest title that is told of, characters.
const TITLE_CHARS_MAX: usize = 64;

/// The script of an interpreter of this file name, as it was given.
pub(crate) fn of(interpreter: &str, arguments: &[OsString]) -> Option<OsString> {
    let commands = COMMANDS.iter().find(|(name, _)| *name == interpreter).map_or(&[][..], |(_, commands)| commands);
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        if NO_SCRIPT.contains(&text) || is_text_in_one(interpreter, text) {
            return None;
        } else if SCRIPT_FOLLOWS.contains(&text) {
            return rest.next().cloned();
        } else if WITH_VALUE.contains(&text) {
            rest.next()?;
        } else if !text.starts_with(['-', '+']) && !commands.contains(&text) {
            return Some(argument.clone());
        }
    }
    None
}

/// Shells and Perl join single letters: `-lc` and `-we` take the text of a program as well.
fn is_text_in_one(interpreter: &str, option: &str) -> bool {
    let joins = callgate_core::interpreter::is_shell(interpreter) || interpreter.starts_with("perl");
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    joins && letters.is_some_and(|letters| letters.ends_with(['c', 'e', 'E', 's']))
}

/// The first word of what a process shows in the place of its arguments: one string, and not the name of its program.
pub(crate) fn title(arguments: &[OsString]) -> Option<String> {
    let [only] = arguments else { return None };
    let word = only.to_str()?.split_ascii_whitespace().next()?;
    let name = Path::new(word).file_name().and_then(OsStr::to_str)?;
    let is_program = callgate_core::interpreter::is_interpreter(name);
    (!is_program).then(|| name.chars().take(TITLE_CHARS_MAX).collect())
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
