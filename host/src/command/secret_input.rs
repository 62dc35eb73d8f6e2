//! Secrets as a person gives them: hidden on a terminal, or from stdin. Never from the command line, which every process can read.

use std::io::{self, IsTerminal, Read};

use callgate_core::secret::{SECRET_BYTES_MAX, Secret};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// One secret for each of these names: on a terminal each is asked for; otherwise one secret is all of stdin, and several are
/// its lines.
pub(super) fn secrets(names: &[String]) -> Result<Vec<Secret>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    if io::stdin().is_terminal() {
        return names.iter().map(|name| asked(name)).collect();
    }
    let input = all_of_stdin(names.len())?;
    if names.len() == 1 {
        return Ok(vec![Secret::copied(without_line_end(&input))]);
    }
    let lines: Vec<&[u8]> = without_line_end(&input).split(|byte| *byte == b'\n').collect();
    if lines.len() != names.len() {
        let failure =
            Failure::usage(format!("stdin has {} lines, where {} values are needed", lines.len(), names.len()));
        return Err(failure.hint(format!("give one line for each of: {}", names.join(", "))));
    }
    Ok(lines.into_iter().map(|line| Secret::copied(line.strip_suffix(b"\r").unwrap_or(line))).collect())
}

/// A new passphrase; on a terminal asked for twice.
pub(super) fn new_passphrase() -> Result<Secret, Failure> {
    let first = passphrase("passphrase for the sealed file")?;
    if io::stdin().is_terminal() && first.expose() != asked("the same again")?.expose() {
        return Err(Failure::usage("the two passphrases differ").hint("try again"));
    }
    Ok(first)
}

/// A passphrase.
pub(super) fn passphrase(name: &str) -> Result<Secret, Failure> {
    secrets(&[name.to_owned()]).map(|mut secrets| secrets.pop().unwrap_or_default())
}

fn asked(name: &str) -> Result<Secret, Failure> {
    rpassword::prompt_password(format!("{name}: "))
        .map(|text| Secret::new(text.into_bytes()))
        .map_err(|error| Failure::environment(format!("cannot ask for {name}: {error}")).hint("give it on stdin"))
}

fn all_of_stdin(secrets: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let most = secrets * (SECRET_BYTES_MAX + 2);
    // All the room at once, so that it never moves and leaves a copy behind; one byte more shows that there is more.
    let mut input = Zeroizing::new(Vec::with_capacity(most + 1));
    let read = io::stdin().lock().take(most as u64 + 1).read_to_end(&mut input);
    read.map_err(|error| Failure::environment(format!("cannot read stdin: {error}")))?;
    if input.len() > most {
        return Err(Failure::usage(format!("stdin has more than the {SECRET_BYTES_MAX} bytes a value may have")));
    }
    Ok(input)
}

fn without_line_end(input: &[u8]) -> &[u8] {
    let input = input.strip_suffix(b"\n").unwrap_or(input);
    input.strip_suffix(b"\r").unwrap_or(input)
}
