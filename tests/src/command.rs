//! A command run to its end.

use std::process::{Command, Output};

use serde_json::Value;

/// What a command came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said beside that.
    pub stderr: String,
}

impl Finished {
    /// Runs `command` to its end.
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}")))
    }

    /// Demands an exit code.
    #[must_use]
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// What it printed, one JSON value a line.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        self.stdout.lines().map(read).collect()
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
