//! `callgate agent`

use std::ffi::OsStr;

use callgate_core::agent::{AgentEntry, Agents, Program};
use callgate_core::escape::visible;
use callgate_core::evidence::Executable;
use callgate_core::identity::{AgentName, WrapperName};
use callgate_identity::program::{self, NotFound};
use callgate_ipc::agents::{AgentChanged, Enrol, Naming, Refresh};
use callgate_ipc::message::{Command, CommandReply};
use serde::Serialize;

use super::{log, policy};
use crate::cli::Json;
use crate::cli::agents::{AddAgent, Agent};
use crate::client::{Client, unexpected};
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn agent(agent: Agent, home: &Home, environment: &Environment) -> Outcome {
    let path = environment.path.as_deref();
    match agent {
        Agent::Add(add) => self::add(add, home, path),
        Agent::List(json) => list(home, path, json),
        Agent::Show { name, json } => show(home, path, &name, json),
        Agent::Refresh { name } => refresh(home, path, &name),
        Agent::Remove { name } => remove(home, &name),
    }
}

fn add(AddAgent { name, program, via, script }: AddAgent, home: &Home, path: Option<&OsStr>) -> Outcome {
    let here = std::env::current_dir()
        .map_err(|error| Failure::environment(format!("cannot tell which folder this is: {error}")))?;
    let named = program::name(&program, script.as_deref(), path, &here).map_err(|why| not_found(&why, &name))?;
    let program = program::find(&named, path).map_err(|why| not_found(&why, &name))?;
    let changed = ask(home, &Command::Enrol(Enrol { name, program, via }))?;
    told("enrolled", &changed)?;
    if !changed.same_program.is_empty() {
        let others: Vec<&str> = changed.same_program.iter().map(AgentName::as_str).collect();
        output::tell(&format!(
            "notice: this program is {} as well: a session has to say which, with callgate run --agent {}",
            others.join(", "),
            changed.agent.name
        ));
    }
    if changed.naming != Naming::default() {
        output::line(&format!("now applies to {}: {}", changed.agent.name, naming(changed.naming)))?;
    }
    Ok(Exit::Done)
}

fn refresh(home: &Home, path: Option<&OsStr>, name: &AgentName) -> Outcome {
    let agents = enrolled(home)?;
    let there = find(&agents, name)?;
    let program = program::find(&there.program.named, path).map_err(|why| not_found(&why, name))?;
    if program == there.program {
        output::line(&visible(&format!("unchanged: {there}")))?;
        return Ok(Exit::Done);
    }
    told("refreshed", &ask(home, &Command::RefreshAgent(Refresh { name: name.clone(), program }))?)?;
    Ok(Exit::Done)
}

fn remove(home: &Home, name: &AgentName) -> Outcome {
    let changed = ask(home, &Command::RemoveAgent(name.clone()))?;
    told("removed", &changed)?;
    if changed.sessions > 0 {
        output::tell(&format!(
            "notice: {} of it open, not known from the next call on",
            counted(changed.sessions, "session is", "sessions are")
        ));
    }
    if changed.naming != Naming::default() {
        let naming = naming(changed.naming);
        output::tell(&format!("warning: until an agent named {name} is enrolled, this binds nobody: {naming}"));
    }
    Ok(Exit::Done)
}

fn ask(home: &Home, command: &Command) -> Result<AgentChanged, Failure> {
    match Client::connect(home)?.ask(command)? {
        CommandReply::AgentChanged(changed) => Ok(*changed),
        _ => Err(unexpected()),
    }
}

fn told(word: &str, AgentChanged { agent, entry, .. }: &AgentChanged) -> Result<(), Failure> {
    output::line(&visible(&format!("{word}: {agent} (entry {entry})")))
}

/// `2 rules, 1 budget`
fn naming(Naming { rules, budgets, grants }: Naming) -> String {
    let counts = [(rules, "rule", "rules"), (budgets, "budget", "budgets"), (grants, "grant", "grants")];
    let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
    counts.map(|(count, one, many)| counted(count, one, many)).collect::<Vec<_>>().join(", ")
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn not_found(why: &NotFound, name: &AgentName) -> Failure {
    let hint = match why {
        NotFound::NotInPath(_) | NotFound::Unreadable { .. } | NotFound::NotAProgram(_) | NotFound::NotText(_) => {
            format!("give the path of the program itself: callgate agent add {name} /PATH/TO/PROGRAM")
        }
        NotFound::ShellScript { .. } => {
            "enrol the program that it starts: callgate log shows which one that is, in the start of one of its sessions"
                .to_owned()
        }
        NotFound::NestedScript { script, .. } | NotFound::NoInterpreter(script) => {
            format!("name the interpreter that it comes to: callgate agent add {name} /PATH/TO/INTERPRETER --script {script}")
        }
    };
    Failure::usage(why.to_string()).hint(hint)
}

/// The enrolled agents. Before the first daemon there is no database, and so nobody is enrolled.
pub(super) fn enrolled(home: &Home) -> Result<Agents, Failure> {
    if !home.database().exists() {
        return Ok(Agents::default());
    }
    log::open(home)?.agents().map_err(|error| log::unreadable(&error))
}

fn find<'a>(agents: &'a Agents, name: &AgentName) -> Result<&'a AgentEntry, Failure> {
    let missing = || Failure::usage(format!("no agent named {name} is enrolled")).hint("callgate agent list");
    agents.named(name).ok_or_else(missing)
}

#[derive(Serialize)]
struct Listed<'a> {
    agents: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    name: &'a str,
    program: &'a str,
    executable: &'a Executable,
    script: Option<&'a str>,
    via: &'a [WrapperName],
    state: State,
    problem: Option<String>,
}

/// Whether an agent's program is the one that was enrolled.
#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It is.
    Current,
    /// Another file, or another program, is there by now.
    Stale,
    /// None is.
    Gone,
}

/// Whether what is at an agent's place now is the program that was enrolled.
pub(super) fn is_current(agent: &AgentEntry, path: Option<&OsStr>) -> Result<bool, NotFound> {
    program::find(&agent.program.named, path).map(|now| now == agent.program)
}

fn shown<'a>(agent: &'a AgentEntry, path: Option<&OsStr>) -> Shown<'a> {
    let Program { named, executable, script } = &agent.program;
    let (state, problem) = match is_current(agent, path) {
        Ok(true) => (State::Current, None),
        Ok(false) => {
            let problem =
                format!("its program has changed since it was enrolled: callgate agent refresh {}", agent.name);
            (State::Stale, Some(problem))
        }
        Err(why) => (State::Gone, Some(why.to_string())),
    };
    Shown {
        id: agent.id.as_str(),
        name: agent.name.as_str(),
        program: &named.program,
        executable,
        script: script.as_deref(),
        via: &agent.via,
        state,
        problem,
    }
}

fn list(home: &Home, path: Option<&OsStr>, json: Json) -> Outcome {
    let agents = enrolled(home)?;
    if json.json {
        output::json(&Listed { agents: agents.0.iter().map(|agent| shown(agent, path)).collect() })?;
    } else if agents.0.is_empty() {
        output::line("no agents are enrolled")?;
    } else {
        for agent in &agents.0 {
            let problem = shown(agent, path).problem.map(|problem| format!(" ({problem})")).unwrap_or_default();
            output::line(&visible(&format!("{agent}{problem}")))?;
        }
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct ShownOne<'a> {
    #[serde(flatten)]
    agent: Shown<'a>,
    naming: Naming,
}

fn show(home: &Home, path: Option<&OsStr>, name: &AgentName, json: Json) -> Outcome {
    let agents = enrolled(home)?;
    let shown = shown(find(&agents, name)?, path);
    let naming = Naming::of(&policy::in_force(home)?, name);
    if json.json {
        output::json(&ShownOne { agent: shown, naming })?;
        return Ok(Exit::Done);
    }
    let mut lines = vec![format!("{} ({})", shown.name, shown.id), format!("  program: {}", shown.executable.path)];
    lines.extend(shown.script.map(|script| format!("  script: {script}")));
    lines.push(format!("  named: {}", shown.program));
    let via: Vec<&str> = shown.via.iter().map(WrapperName::as_str).collect();
    lines.extend((!via.is_empty()).then(|| format!("  via: {}", via.join(", "))));
    lines.push(format!(
        "  named by: {}",
        if naming == Naming::default() { "nothing".to_owned() } else { self::naming(naming) }
    ));
    lines.extend(shown.problem.map(|problem| format!("  problem: {problem}")));
    lines.iter().try_for_each(|line| output::line(&visible(line)))?;
    Ok(Exit::Done)
}
