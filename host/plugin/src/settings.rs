//! What a plugin says of its settings, checked against the bounds that `wit/` states.

use std::fmt;

use callgate_core::escape::visible;

use crate::answer::{Broken, MESSAGE_BYTES_MAX, bounded, is_pointer};
use crate::bindings::exports::callgate::policy::lifecycle;

/// How many errors or warnings one settings document can have.
const FINDINGS_MAX: usize = 64;

/// One thing that keeps settings from loading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError {
    /// RFC 6901 JSON pointer to what is wrong; empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// What a person should look at, although the settings load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsWarning {
    /// RFC 6901 JSON pointer to what it is about; empty for the whole document.
    pub path: String,
    /// What to look at.
    pub message: String,
}

/// Settings that a plugin refuses, and why: never without an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused(Vec<SettingsError>);

impl Refused {
    /// Why: at least one error.
    pub fn errors(&self) -> &[SettingsError] {
        &self.0
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, SettingsError { path, message, hint }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let place = if path.is_empty() { String::new() } else { format!("{}: ", visible(path)) };
            write!(f, "{separator}{place}{}", visible(message))?;
            if let Some(hint) = hint {
                write!(f, " (hint: {})", visible(hint))?;
            }
        }
        Ok(())
    }
}

/// Checks why settings were refused.
pub(crate) fn refused(errors: Vec<lifecycle::SettingsError>) -> Result<Refused, Broken> {
    if errors.is_empty() {
        return Err(Broken("it refuses its settings without saying why".to_owned()));
    }
    counted("errors", errors.len())?;
    let checked = |error: lifecycle::SettingsError| {
        let lifecycle::SettingsError { path, message, hint } = error;
        is_pointer(&path)?;
        bounded("an error", &message, MESSAGE_BYTES_MAX)?;
        bounded("a hint", hint.as_deref().unwrap_or_default(), MESSAGE_BYTES_MAX)?;
        Ok(SettingsError { path, message, hint })
    };
    errors.into_iter().map(checked).collect::<Result<_, _>>().map(Refused)
}

/// Checks what was said about settings that load.
pub(crate) fn warnings(warnings: Vec<lifecycle::SettingsWarning>) -> Result<Vec<SettingsWarning>, Broken> {
    counted("warnings", warnings.len())?;
    let checked = |warning: lifecycle::SettingsWarning| {
        let lifecycle::SettingsWarning { path, message } = warning;
        is_pointer(&path)?;
        bounded("a warning", &message, MESSAGE_BYTES_MAX)?;
        Ok(SettingsWarning { path, message })
    };
    warnings.into_iter().map(checked).collect()
}

fn counted(what: &str, count: usize) -> Result<(), Broken> {
    if count <= FINDINGS_MAX {
        return Ok(());
    }
    Err(Broken(format!("it has {count} {what} for its settings, more than {FINDINGS_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(path: &str, message: &str, hint: Option<&str>) -> lifecycle::SettingsError {
        let (path, message) = (path.to_owned(), message.to_owned());
        lifecycle::SettingsError { path, message, hint: hint.map(str::to_owned) }
    }

    #[test]
    fn a_refusal_reads_as_one_line() {
        let errors =
            vec![error("/rules/3", "no such effect\n", Some("allow, deny or ask")), error("", "it is not JSON", None)];
        let expected = "/rules/3: no such effect\\u{a} (hint: allow, deny or ask); it is not JSON";
        assert_eq!(refused(errors).unwrap().to_string(), expected);
    }

    #[test]
    fn every_broken_bound_is_named() {
        let warning = |path: &str, message: &str| lifecycle::SettingsWarning {
            path: path.to_owned(),
            message: message.to_owned(),
        };
        let long = "m".repeat(1025);
        let broken = [
            refused(vec![]).unwrap_err(),
            refused(vec![error("", "", None); 65]).unwrap_err(),
            refused(vec![error("x", "", None)]).unwrap_err(),
            refused(vec![error("", &long, None)]).unwrap_err(),
            refused(vec![error("", "", Some(&long))]).unwrap_err(),
            warnings(vec![warning("", ""); 65]).unwrap_err(),
            warnings(vec![warning("~", "")]).unwrap_err(),
            warnings(vec![warning("", &long)]).unwrap_err(),
        ];
        let expected = [
            "it refuses its settings without saying why",
            "it has 65 errors for its settings, more than 64",
            "the path `x` is not a JSON pointer",
            "an error takes 1025 bytes, more than 1024",
            "a hint takes 1025 bytes, more than 1024",
            "it has 65 warnings for its settings, more than 64",
            "the path `~` is not a JSON pointer",
            "a warning takes 1025 bytes, more than 1024",
        ];
        assert_eq!(broken.map(|Broken(what)| what), expected);
    }
}
