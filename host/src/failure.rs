//! How a command fails: what was being done, the next step, and the exit code. The one place that maps errors to codes.

use std::fmt;
use std::process::ExitCode;

/// The exit codes; docs/reference/cli.md lists them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the answer is no.
    No,
    /// 2: wrong usage or configuration.
    Usage,
    /// 3: the environment: daemon unreachable, disk full, nothing there to verify.
    Environment,
    /// 70: a fault of Callgate's own.
    Internal,
    /// The exit code of a server that `run` stood in for.
    Server(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::No => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::Environment => Self::from(3),
            Exit::Internal => Self::from(70),
            Exit::Server(code) => Self::from(code),
        }
    }
}

/// A command that could not do what was asked.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What was being done to what, and the cause; lower-case, no full stop.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
}

impl Failure {
    /// What was asked cannot be done.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), hint: None }
    }

    /// The environment does not let it be done.
    pub fn environment(message: impl Into<String>) -> Self {
        Self { exit: Exit::Environment, message: message.into(), hint: None }
    }

    /// A fault of Callgate's own.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { exit: Exit::Internal, message: message.into(), hint: None }
    }

    /// The same with a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// What a command body gives back.
pub type Outcome = Result<Exit, Failure>;
