//! Enrolled agents as values: what the journal stores, and what evidence is held against.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::entry::{Draft, Kind};
use crate::evidence::{Executable, Process};
use crate::identity::{AgentName, BadName, WrapperName, id};
use crate::interpreter::{is_interpreter, is_shell};

/// How many agents may be enrolled: a person has a handful.
pub const AGENTS_MAX: usize = 256;
/// How many wrappers one of them may list.
pub const WRAPPERS_MAX: usize = 16;
/// The longest path, bytes: as long as the system takes one.
const PATH_BYTES_MAX: usize = 4096;

id!(
    /// An enrolled agent, for good. A name can be given again, an id never is.
    AgentId,
    "agt_",
    "agent id"
);

/// An enrolled agent: a name, and the program that has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEntry {
    /// Which it is, for good.
    pub id: AgentId,
    /// What rules name.
    pub name: AgentName,
    /// The program.
    pub program: Program,
    /// What may stand between the program and the relay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<WrapperName>,
}

/// A program, as it was named and as it was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What was named, from which it is found again when it has changed.
    pub named: Named,
    /// The file that the kernel shows of the running program.
    pub executable: Executable,
    /// Of an interpreter, the file that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// What a person named: absolute paths, symbolic links not followed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The program, or a script that says itself what runs it.
    pub program: String,
    /// The script, where it was named by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// A program that cannot be enrolled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotEnrollable {
    /// Whatever it runs would be this agent.
    #[error("{0} is an interpreter: every program that it runs would be this agent")]
    InterpreterAlone(String),
    /// A script is named for a program that runs none.
    #[error("{0} is not an interpreter that is known here, so no script tells what it runs")]
    NoInterpreter(String),
    /// The path is not one that evidence can be compared with.
    #[error(
        "{0:?} is not a path that can be compared: it has to be absolute, of at most {PATH_BYTES_MAX} bytes, and UTF-8"
    )]
    BadPath(String),
    /// Looking through it would look through every program that it runs.
    #[error("{0} runs any program, so that looking through it would make any program this agent")]
    BadWrapper(WrapperName),
    /// There are too many.
    #[error("{0} wrappers, where an agent may have {WRAPPERS_MAX}")]
    TooManyWrappers(usize),
}

impl AgentEntry {
    /// Refuses what would fit programs that nobody meant.
    pub fn check(&self) -> Result<(), NotEnrollable> {
        let Program { named, executable, script } = &self.program;
        let paths = [Some(&named.program), named.script.as_ref(), Some(&executable.path), script.as_ref()];
        if let Some(bad) = paths.into_iter().flatten().find(|path| !is_comparable(path)) {
            return Err(NotEnrollable::BadPath(bad.clone()));
        }
        match (is_interpreter(file_name(&executable.path)), script) {
            (true, None) => return Err(NotEnrollable::InterpreterAlone(executable.path.clone())),
            (false, Some(_)) => return Err(NotEnrollable::NoInterpreter(executable.path.clone())),
            (true, Some(_)) | (false, None) => {}
        }
        if self.via.len() > WRAPPERS_MAX {
            return Err(NotEnrollable::TooManyWrappers(self.via.len()));
        }
        let any_program = |wrapper: &&WrapperName| is_interpreter(wrapper.as_str()) && !is_shell(wrapper.as_str());
        match self.via.iter().find(any_program) {
            Some(wrapper) => Err(NotEnrollable::BadWrapper(wrapper.clone())),
            None => Ok(()),
        }
    }

    /// Whether a process runs this very program.
    pub(crate) fn is(&self, process: &Process) -> bool {
        let Program { executable, script, .. } = &self.program;
        process.executable.as_ref() == Some(executable) && (script.is_none() || process.script == *script)
    }

    /// Whether a process is one that is looked through for this agent.
    pub(crate) fn looks_through(&self, process: &Process) -> bool {
        self.via.iter().any(|wrapper| process.is_called(wrapper))
    }
}

/// What is not UTF-8 in a path that the kernel shows becomes U+FFFD, which two different files may have in common.
fn is_comparable(path: &str) -> bool {
    path.starts_with('/') && path.len() <= PATH_BYTES_MAX && !path.contains(char::REPLACEMENT_CHARACTER)
}

pub(crate) fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.executable.path)?;
        self.script.as_ref().map_or(Ok(()), |script| write!(f, " running {script}"))
    }
}

impl fmt::Display for AgentEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.program)?;
        let via: Vec<&str> = self.via.iter().map(WrapperName::as_str).collect();
        if via.is_empty() { Ok(()) } else { write!(f, " via {}", via.join(", ")) }
    }
}

/// The body of a [`Kind::AgentAdd`], a [`Kind::AgentRefresh`] and a [`Kind::AgentRemove`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentBody {
    /// The agent: as it is from here on, or as it was when it was removed.
    pub agent: AgentEntry,
}

/// One change of the enrolments: an entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentStep {
    /// An agent is enrolled.
    Add(AgentEntry),
    /// Another program, or another file of it, is the same agent from here on.
    Refresh(AgentEntry),
    /// An agent is enrolled no more.
    Remove(AgentEntry),
}

impl AgentStep {
    /// The step as an entry of the journal.
    pub fn draft(&self) -> Draft {
        let (kind, agent) = match self {
            Self::Add(agent) => (Kind::AgentAdd, agent),
            Self::Refresh(agent) => (Kind::AgentRefresh, agent),
            Self::Remove(agent) => (Kind::AgentRemove, agent),
        };
        Draft::of(kind, &AgentBody { agent: agent.clone() })
    }
}

/// The enrolments do not admit a step.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// The name is taken.
    #[error("there is an agent named {0} already")]
    NameTaken(AgentName),
    /// The id is taken, which no daemon ever asks for.
    #[error("there is an agent with the id {0} already")]
    IdTaken(AgentId),
    /// There are as many as there may be.
    #[error("{AGENTS_MAX} agents are enrolled, the most there may be")]
    Full,
    /// There is no such agent.
    #[error("no agent named {0} is enrolled")]
    NoAgent(AgentName),
    /// The program cannot be one.
    #[error(transparent)]
    NotEnrollable(#[from] NotEnrollable),
}

/// The enrolled agents, in the order in which they were added.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agents(pub Vec<AgentEntry>);

impl Agents {
    /// The agent of this name.
    pub fn named(&self, name: &AgentName) -> Option<&AgentEntry> {
        self.0.iter().find(|agent| agent.name == *name)
    }

    /// The agent of this id, as a session has it.
    pub fn with_id(&self, id: &str) -> Option<&AgentEntry> {
        self.0.iter().find(|agent| agent.id.as_str() == id)
    }

    /// Takes a step, or refuses it and stays as it is.
    pub fn apply(&mut self, step: &AgentStep) -> Result<(), NotAdmitted> {
        match step {
            AgentStep::Add(agent) => self.add(agent),
            AgentStep::Refresh(agent) => {
                agent.check()?;
                let same = |there: &&mut AgentEntry| there.id == agent.id && there.name == agent.name;
                let there = self.0.iter_mut().find(same).ok_or_else(|| NotAdmitted::NoAgent(agent.name.clone()))?;
                there.clone_from(agent);
                Ok(())
            }
            AgentStep::Remove(agent) => {
                let place = self.0.iter().position(|there| there == agent);
                self.0.remove(place.ok_or_else(|| NotAdmitted::NoAgent(agent.name.clone()))?);
                Ok(())
            }
        }
    }

    fn add(&mut self, agent: &AgentEntry) -> Result<(), NotAdmitted> {
        agent.check()?;
        if self.named(&agent.name).is_some() {
            return Err(NotAdmitted::NameTaken(agent.name.clone()));
        }
        if self.0.iter().any(|there| there.id == agent.id) {
            return Err(NotAdmitted::IdTaken(agent.id.clone()));
        }
        if self.0.len() >= AGENTS_MAX {
            return Err(NotAdmitted::Full);
        }
        self.0.push(agent.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::tests::{agent, executable};

    #[test]
    fn a_name_is_free_again_and_an_id_is_another() {
        let (first, second) = (agent(1, "a", "/opt/a"), agent(2, "a", "/opt/a"));
        let mut agents = Agents::default();
        agents.apply(&AgentStep::Add(first.clone())).unwrap();
        let taken = agents.apply(&AgentStep::Add(second.clone()));
        assert_eq!(taken, Err(NotAdmitted::NameTaken("a".parse().unwrap())));
        agents.apply(&AgentStep::Remove(first.clone())).unwrap();
        assert_eq!(agents.apply(&AgentStep::Remove(first)), Err(NotAdmitted::NoAgent("a".parse().unwrap())));
        agents.apply(&AgentStep::Add(second.clone())).unwrap();
        assert_eq!(agents.named(&second.name), Some(&second));
    }

    #[test]
    fn a_refreshed_agent_is_the_same_one_of_another_file() {
        let there = agent(1, "a", "/opt/a");
        let mut agents = Agents(vec![there.clone()]);
        let mut other = there;
        other.program.executable.inode = 77;
        agents.apply(&AgentStep::Refresh(other.clone())).unwrap();
        assert_eq!(agents.0, [other.clone()]);
        other.id = AgentId::from_random([9; 16]);
        assert!(matches!(agents.apply(&AgentStep::Refresh(other)), Err(NotAdmitted::NoAgent(_))));
    }

    #[test]
    fn an_interpreter_is_enrolled_only_with_its_script() {
        let mut node = agent(1, "a", "/usr/bin/node");
        assert_eq!(node.check(), Err(NotEnrollable::InterpreterAlone("/usr/bin/node".to_owned())));
        node.program.script = Some("/opt/a.js".to_owned());
        assert_eq!(node.check(), Ok(()));
        let mut cursor = agent(1, "a", "/opt/cursor");
        assert_eq!(cursor.check(), Ok(()));
        cursor.program.script = Some("/opt/a.js".to_owned());
        assert!(matches!(cursor.check(), Err(NotEnrollable::NoInterpreter(_))));
    }

    #[test]
    fn what_would_fit_any_program_is_no_wrapper_and_no_path() {
        let with = |wrapper: &str| AgentEntry { via: vec![wrapper.parse().unwrap()], ..agent(1, "a", "/opt/a") };
        assert_eq!(with("sh").check(), Ok(()));
        assert_eq!(with("npx").check(), Ok(()));
        assert!(matches!(with("python3").check(), Err(NotEnrollable::BadWrapper(_))));
        for path in ["opt/a", "/opt/\u{fffd}", ""] {
            let mut bad = agent(1, "a", "/opt/a");
            bad.program.executable = executable(path);
            assert!(matches!(bad.check(), Err(NotEnrollable::BadPath(_))), "{path:?}");
        }
    }
}
