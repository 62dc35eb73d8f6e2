//! `callgate doctor`: everything that has to be right, a line a check. Starts no daemon and changes nothing.

mod agents;
mod clients;
mod installed;
mod running;
mod servers;

use callgate_core::escape::visible;
use serde::Serialize;

use self::running::Running;
use crate::cli::Json;
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

/// What came of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It is as it should be.
    Ok,
    /// It works, and somebody should look at it.
    Warn,
    /// It does not work.
    Fail,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    /// What was looked at, a word.
    check: &'static str,
    state: State,
    /// What was found.
    found: String,
    /// The next step; always there where something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, state: State::Ok, found: found.into(), remedy: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: State::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: State::Fail, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// What a command would have said in this case.
    fn failed(check: &'static str, failure: Failure) -> Self {
        Self::fail(check, failure.message, failure.hint.unwrap_or_else(|| "see the daemon's log".to_owned()))
    }

    /// These, or, where there is nothing to look at twice, that all is well.
    fn some_or_ok(wrong: Vec<Self>, check: &'static str, found: impl Into<String>) -> Vec<Self> {
        if wrong.is_empty() { vec![Self::ok(check, found)] } else { wrong }
    }

    fn text(&self) -> String {
        let remedy = self.remedy.as_ref().map(|remedy| format!(" (hint: {remedy})")).unwrap_or_default();
        visible(&format!("{:<5} {:<12} {}{remedy}", self.state.word(), self.check, self.found)).into_owned()
    }
}

#[derive(Serialize)]
struct Report {
    checks: Vec<Check>,
}

pub(super) fn doctor(json: Json, environment: &Environment) -> Outcome {
    let checks = match Home::find(environment) {
        Ok(home) => all(&home, environment),
        Err(failure) => vec![Check::failed("home", failure)],
    };
    let fails = checks.iter().any(|check| check.state == State::Fail);
    if json.json {
        output::json(&Report { checks })?;
    } else {
        checks.iter().try_for_each(|check| output::line(&check.text()))?;
    }
    Ok(if fails { Exit::No } else { Exit::Done })
}

fn all(home: &Home, environment: &Environment) -> Vec<Check> {
    let mut checks = vec![installed::program(environment), installed::folders(home), installed::config(home)];
    let running = Running::find(home);
    checks.push(running.check());
    checks.extend([installed::install(home), installed::journal(home), installed::rules(home)]);
    checks.extend(agents::agents(home, environment));
    let plugins = running.plugins(home);
    checks.extend(running.problems(&plugins));
    checks.extend(plugins);
    let registry = crate::command::servers::registry(home);
    checks.extend(servers::stores(home, environment, &running, registry.as_ref().ok()));
    checks.extend(servers::servers(environment, registry));
    checks.extend(clients::clients(environment));
    checks
}
