//! Whose session it is, by what the kernel shows of the processes that it comes from.

use serde::{Deserialize, Serialize};

use crate::agent::{AgentEntry, file_name};
use crate::identity::{Agent, AgentName, WrapperName};
use crate::interpreter::{is_interpreter, is_shell};

/// How many processes above a relay are looked at: a client, and the wrappers that it starts its servers through.
pub const ANCESTORS_MAX: usize = 8;

/// What some wrappers run as: `sh` is another shell on most systems, and a package runner is a mode of its package manager.
const KIN: &[(&str, &[&str])] =
    &[("sh", &["ash", "bash", "busybox", "dash", "ksh", "zsh"]), ("npx", &["npm"]), ("uvx", &["uv"])];

/// A program's file: where it is, and what tells it from another one there.
///
/// The device is not part of it: on some file systems it is another one after every start of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Executable {
    /// Its path, without symbolic links.
    pub path: String,
    /// Its inode.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was last written, milliseconds since 1970-01-01 UTC.
    pub modified_ms: i64,
}

/// A process as the kernel shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// What it runs; absent where the kernel does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<Executable>,
    /// Whether the file is no longer the one at its path: it was removed, or another one took its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// Of an interpreter, the file that it was told to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Of an interpreter that shows something else instead of its arguments, the first word of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Process {
    /// Whether it goes by this wrapper's name: of an interpreter the file name of its script, with or without an ending, or what it
    /// shows instead; of a shell that runs no script, and of every other program, its own file name.
    pub(crate) fn is_called(&self, wrapper: &WrapperName) -> bool {
        let own = file_name(self.executable.as_ref().map_or("", |executable| &executable.path));
        let name = match (&self.script, &self.title) {
            (Some(script), _) => file_name(script),
            (None, Some(title)) => title,
            (None, None) if is_interpreter(own) && !is_shell(own) => return false,
            (None, None) => own,
        };
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let names = [name, stem, stem.strip_suffix("-cli").unwrap_or(stem)];
        let kin = KIN.iter().find(|(of, _)| *of == wrapper.as_str()).map_or(&[][..], |(_, kin)| kin);
        names.iter().any(|name| *name == wrapper.as_str() || kin.contains(name))
    }
}

/// What is known of where a session comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// Whether the process at the other end of the socket runs this very program, so that it is a relay.
    pub is_relay: bool,
    /// The relay's parent, its parent, and so on.
    pub ancestors: Vec<Process>,
}

/// Why a session's agent is not known. As JSON a word, or an object of the word and the names it is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum WhyUnknown {
    /// It is not a relay that speaks.
    #[error(
        "what speaks for it is not the program that the daemon runs; if that was installed anew: callgate daemon restart"
    )]
    NotOurRelay,
    /// The program that started the relay is gone.
    #[error("the program that started it is gone")]
    ParentGone,
    /// No enrolment fits.
    #[error("no enrolled agent is the program that started it")]
    NotEnrolled,
    /// More than one fits, and nobody said which.
    #[error("it could be any of {}, and `callgate run --agent` does not say which", .0.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", "))]
    Ambiguous(Vec<AgentName>),
    /// It is said to be an agent that it is not.
    #[error("it is said to be {0}, and the program that started it is not")]
    ClaimUnfit(AgentName),
    /// The agent's program is not the one that was enrolled.
    #[error("the program of {0} has changed since it was enrolled; callgate agent refresh {0} takes it as it is now")]
    Stale(AgentName),
}

/// The agent of a session: of the enrolled ones, the one whose program started the relay. A claim only chooses between several.
pub fn identify(agents: &[AgentEntry], evidence: &Evidence, claim: Option<&AgentName>) -> Result<Agent, WhyUnknown> {
    if !evidence.is_relay {
        return Err(WhyUnknown::NotOurRelay);
    }
    let fitting: Vec<&AgentEntry> = agents.iter().filter(|agent| fits(agent, &evidence.ancestors)).collect();
    // The first process is given the children of those that are gone.
    if fitting.is_empty() && evidence.ancestors.first().is_none_or(|parent| parent.pid == 1) {
        return Err(WhyUnknown::ParentGone);
    }
    match (claim, &fitting[..]) {
        (Some(claim), fitting) => {
            let claimed = fitting.iter().find(|agent| agent.name == *claim);
            claimed.map(|agent| established(agent)).ok_or_else(|| WhyUnknown::ClaimUnfit(claim.clone()))
        }
        (None, []) => Err(WhyUnknown::NotEnrolled),
        (None, [agent]) => Ok(established(agent)),
        (None, several) => Err(WhyUnknown::Ambiguous(several.iter().map(|agent| agent.name.clone()).collect())),
    }
}

/// Whether the nearest process that is none of the agent's wrappers is the agent. Never one further up: what an agent's shell starts
/// is not the agent.
fn fits(agent: &AgentEntry, ancestors: &[Process]) -> bool {
    let nearest = ancestors.iter().find(|process| agent.is(process) || !agent.looks_through(process));
    nearest.is_some_and(|process| agent.is(process))
}

/// An enrolled agent as the caller of a call; its evidence in the words of `wit/`, `types.agent.evidence`.
pub fn established(agent: &AgentEntry) -> Agent {
    let evidence = if agent.program.script.is_some() { "executable-script" } else { "executable" };
    Agent { id: agent.id.to_string(), name: agent.name.clone(), evidence: evidence.to_owned() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::agent::{AgentId, Named, Program};

    pub(crate) fn executable(path: &str) -> Executable {
        Executable { path: path.to_owned(), inode: 1, bytes: 2, modified_ms: 3 }
    }

    pub(crate) fn agent(id: u8, name: &str, path: &str) -> AgentEntry {
        AgentEntry {
            id: AgentId::from_random([id; 16]),
            name: name.parse().unwrap(),
            program: Program {
                named: Named { program: path.to_owned(), script: None },
                executable: executable(path),
                script: None,
            },
            via: Vec::new(),
        }
    }

    fn via(agent: AgentEntry, wrappers: &[&str]) -> AgentEntry {
        AgentEntry { via: wrappers.iter().map(|name| name.parse().unwrap()).collect(), ..agent }
    }

    fn of_script(agent: AgentEntry, script: &str) -> AgentEntry {
        AgentEntry { program: Program { script: Some(script.to_owned()), ..agent.program }, ..agent }
    }

    fn running(path: &str) -> Process {
        Process { pid: 7, executable: Some(executable(path)), ..Process::default() }
    }

    fn script(path: &str, script: &str) -> Process {
        Process { script: Some(script.to_owned()), ..running(path) }
    }

    fn titled(path: &str, title: &str) -> Process {
        Process { title: Some(title.to_owned()), ..running(path) }
    }

    fn name(of: &str) -> AgentName {
        of.parse().unwrap()
    }

    /// The name of the agent that started a relay from these processes.
    fn who(agents: &[AgentEntry], ancestors: &[Process], claim: Option<&str>) -> Result<String, WhyUnknown> {
        let evidence = Evidence { is_relay: true, ancestors: ancestors.to_vec() };
        identify(agents, &evidence, claim.map(name).as_ref()).map(|agent| agent.name.to_string())
    }

    #[test]
    fn one_fitting_enrolment_is_the_agent_with_a_claim_and_without() {
        let agents = [agent(1, "cursor", "/opt/cursor"), agent(2, "zed", "/opt/zed")];
        let cursor = [running("/opt/cursor"), running("/usr/bin/bash")];
        assert_eq!(who(&agents, &cursor, None), Ok("cursor".to_owned()));
        assert_eq!(who(&agents, &cursor, Some("cursor")), Ok("cursor".to_owned()));
        assert_eq!(who(&agents, &cursor, Some("zed")), Err(WhyUnknown::ClaimUnfit(name("zed"))));
        assert_eq!(who(&agents, &cursor, Some("nobody")), Err(WhyUnknown::ClaimUnfit(name("nobody"))));
        assert_eq!(who(&agents, &[running("/opt/other")], None), Err(WhyUnknown::NotEnrolled));
    }

    #[test]
    fn a_claim_chooses_between_several_and_without_one_nobody_is_chosen() {
        let agents = [agent(1, "work", "/opt/cursor"), agent(2, "home", "/opt/cursor")];
        let cursor = [running("/opt/cursor")];
        assert_eq!(who(&agents, &cursor, Some("home")), Ok("home".to_owned()));
        assert_eq!(who(&agents, &cursor, None), Err(WhyUnknown::Ambiguous(vec![name("work"), name("home")])));
    }

    #[test]
    fn wrappers_are_looked_through_only_for_the_agent_that_lists_them() {
        let cursor = agent(1, "cursor", "/opt/cursor");
        let chain = [running("/usr/bin/dash"), titled("/usr/bin/node", "npm"), running("/opt/cursor")];
        assert_eq!(who(std::slice::from_ref(&cursor), &chain, None), Err(WhyUnknown::NotEnrolled));
        assert_eq!(who(&[via(cursor.clone(), &["sh"])], &chain, None), Err(WhyUnknown::NotEnrolled));
        assert_eq!(who(&[via(cursor.clone(), &["sh", "npx"])], &chain, None), Ok("cursor".to_owned()));
        // Another agent's list is no help.
        let agents = [cursor, via(agent(2, "zed", "/opt/zed"), &["sh", "npx"])];
        assert_eq!(who(&agents, &chain, None), Err(WhyUnknown::NotEnrolled));
    }

    #[test]
    fn never_any_ancestor() {
        let agents = [via(agent(1, "cursor", "/opt/cursor"), &["sh"])];
        let chain = [running("/opt/evil"), running("/opt/cursor")];
        assert_eq!(who(&agents, &chain, None), Err(WhyUnknown::NotEnrolled));
        let own_shell = [script("/usr/bin/bash", "/tmp/evil.sh"), running("/opt/cursor")];
        assert_eq!(who(&agents, &own_shell, None), Err(WhyUnknown::NotEnrolled), "a script is a program of its own");
    }

    #[test]
    fn an_interpreter_is_whoever_its_script_says() {
        let codex = of_script(agent(1, "codex", "/usr/bin/node"), "/opt/codex.js");
        assert_eq!(
            who(std::slice::from_ref(&codex), &[script("/usr/bin/node", "/opt/codex.js")], None),
            Ok("codex".to_owned())
        );
        for other in
            [script("/usr/bin/node", "/opt/evil.js"), running("/usr/bin/node"), titled("/usr/bin/node", "codex")]
        {
            assert_eq!(who(std::slice::from_ref(&codex), &[other], None), Err(WhyUnknown::NotEnrolled));
        }
        let evidence = Evidence { is_relay: true, ancestors: vec![script("/usr/bin/node", "/opt/codex.js")] };
        assert_eq!(identify(&[codex], &evidence, None).unwrap().evidence, "executable-script");
    }

    #[test]
    fn another_file_at_the_path_is_another_program() {
        let agents = [agent(1, "cursor", "/opt/cursor")];
        let there = executable("/opt/cursor");
        for other in [
            Executable { inode: 9, ..there.clone() },
            Executable { bytes: 9, ..there.clone() },
            Executable { modified_ms: 9, ..there },
        ] {
            let process = Process { executable: Some(other), ..Process::default() };
            assert_eq!(who(&agents, &[process], None), Err(WhyUnknown::NotEnrolled));
        }
        // The enrolled file goes on being it after an update took its place.
        let old = Process { replaced: true, ..running("/opt/cursor") };
        assert_eq!(who(&agents, &[old], None), Ok("cursor".to_owned()));
    }

    #[test]
    fn without_a_relay_or_its_parent_there_is_nobody() {
        let agents = [agent(1, "cursor", "/opt/cursor")];
        assert_eq!(who(&agents, &[], None), Err(WhyUnknown::ParentGone));
        assert_eq!(who(&agents, &[Process { pid: 1, ..running("/sbin/init") }], None), Err(WhyUnknown::ParentGone));
        assert_eq!(who(&agents, &[Process { pid: 1, ..running("/opt/cursor") }], None), Ok("cursor".to_owned()));
        assert_eq!(who(&agents, &[Process::default()], None), Err(WhyUnknown::NotEnrolled));
        let evidence = Evidence { is_relay: false, ancestors: vec![running("/opt/cursor")] };
        assert_eq!(identify(&agents, &evidence, None), Err(WhyUnknown::NotOurRelay));
    }

    #[test]
    fn wrappers_go_by_these_names() {
        let called = |process: &Process, wrapper: &str| process.is_called(&wrapper.parse().unwrap());
        let npx = script("/usr/bin/node", "/usr/lib/node_modules/npm/bin/npx-cli.js");
        assert!(called(&npx, "npx") && called(&npx, "npx-cli.js") && !called(&npx, "node"));
        assert!(called(&titled("/usr/bin/node", "npm"), "npx") && called(&titled("/usr/bin/node", "npm"), "npm"));
        assert!(called(&running("/usr/bin/dash"), "sh") && called(&running("/usr/bin/bash"), "bash"));
        assert!(!called(&running("/usr/bin/dash"), "bash"));
        assert!(called(&running("/opt/uv"), "uvx") && called(&running("/usr/bin/env"), "env"));
        assert!(!called(&running("/usr/bin/python3.11"), "python3.11"), "it would be any program");
        assert!(!called(&Process::default(), "sh"));
    }
}
