//! The enrolled agents: what is changed of them, and which of them a session is.

use std::sync::Arc;

use callgate_core::agent::{AgentEntry, AgentId, AgentStep, Agents, NotAdmitted, NotEnrollable};
use callgate_core::evidence::{Evidence, WhyUnknown, identify};
use callgate_core::identity::{Agent, AgentName};
use callgate_core::policy::PolicyItem;
use callgate_core::port::LedgerFailure;
use callgate_identity::program;
use callgate_ipc::agents::{AgentChanged, Enrol, Naming, Refresh};
use callgate_ipc::message::CommandReply;
use callgate_journal::AgentsError;

use super::{Gate, Open, lock, random_bits, request};

impl Gate {
    /// The agent of a session, or why it is not known.
    pub(in crate::daemon) fn identify(
        &self,
        evidence: &Evidence,
        claim: Option<&AgentName>,
    ) -> Result<Result<Agent, WhyUnknown>, LedgerFailure> {
        let agents = self.serving()?.agents();
        let found = identify(&agents.0, evidence, claim);
        Ok(found.map_err(|why| self.why_unknown(&agents, evidence, claim, why)))
    }

    /// That the program has changed since it was enrolled says more than that nobody is enrolled with it.
    fn why_unknown(
        &self,
        agents: &Agents,
        evidence: &Evidence,
        claim: Option<&AgentName>,
        why: WhyUnknown,
    ) -> WhyUnknown {
        let refreshed = |agent: &AgentEntry| {
            let program = program::find(&agent.program.named, self.path.as_deref()).ok()?;
            Some(AgentEntry { program, ..agent.clone() })
        };
        match why {
            WhyUnknown::NotEnrolled | WhyUnknown::ClaimUnfit(_) => {
                let refreshed: Vec<AgentEntry> = agents.0.iter().filter_map(refreshed).collect();
                identify(&refreshed, evidence, claim).map_or(why, |agent| WhyUnknown::Stale(agent.name))
            }
            WhyUnknown::NotOurRelay | WhyUnknown::ParentGone | WhyUnknown::Ambiguous(_) | WhyUnknown::Stale(_) => why,
        }
    }

    /// Whether an agent that was established is enrolled still.
    pub(in crate::daemon) fn is_enrolled(&self, agent: &Agent) -> bool {
        self.serving().is_ok_and(|open| open.agents().with_id(&agent.id).is_some())
    }

    /// Enrols an agent.
    pub(in crate::daemon) fn enrol(&self, enrol: Enrol) -> CommandReply {
        let Enrol { name, program, via } = enrol;
        let id = match random_bits() {
            Ok(bits) => AgentId::from_random(bits),
            Err(reply) => return reply,
        };
        self.change_agents(|_| Ok(AgentStep::Add(AgentEntry { id, name, program, via })))
    }

    /// Takes an agent's program as it is now.
    pub(in crate::daemon) fn refresh_agent(&self, refresh: Refresh) -> CommandReply {
        let Refresh { name, program } = refresh;
        self.change_agents(|agents| {
            let there = agents.named(&name).cloned().ok_or(NotAdmitted::NoAgent(name))?;
            Ok(AgentStep::Refresh(AgentEntry { program, ..there }))
        })
    }

    /// Enrols an agent no more. Its sessions are not known from their next call on.
    pub(in crate::daemon) fn remove_agent(&self, name: &AgentName) -> CommandReply {
        self.change_agents(|agents| {
            let there = agents.named(name).cloned().ok_or_else(|| NotAdmitted::NoAgent(name.clone()))?;
            Ok(AgentStep::Remove(there))
        })
    }

    fn change_agents(&self, step: impl FnOnce(&Agents) -> Result<AgentStep, NotAdmitted>) -> CommandReply {
        let open = match self.serving() {
            Ok(open) => open,
            Err(failure) => return self.shut(&failure),
        };
        let _one_at_a_time = lock(&open.changing);
        let made = step(&open.agents()).map_err(AgentsError::from).and_then(|step| {
            let changed = open.journal.change_agents(step.clone());
            // A change whose answer was lost may have been made all the same.
            *lock(&open.agents) = Arc::new(open.journal.agents()?);
            changed.map(|entry| (entry, step))
        });
        match made {
            Ok((entry, step)) => match open.journal.policy() {
                Ok(policy) => CommandReply::AgentChanged(Box::new(self.told(&open, entry, step, &policy.items))),
                Err(failure) => self.unwritten(&failure),
            },
            Err(error) => self.not_enrolled(&error),
        }
    }

    fn told(&self, open: &Open, entry: u64, step: AgentStep, policy: &[PolicyItem]) -> AgentChanged {
        let (AgentStep::Add(agent) | AgentStep::Refresh(agent) | AgentStep::Remove(agent)) = step;
        let is_same = |other: &&AgentEntry| other.id != agent.id && other.program == agent.program;
        AgentChanged {
            naming: Naming::of(policy, &agent.name),
            same_program: open.agents().0.iter().filter(is_same).map(|other| other.name.clone()).collect(),
            sessions: self.sessions_of(&agent.id),
            agent,
            entry,
        }
    }

    fn not_enrolled(&self, error: &AgentsError) -> CommandReply {
        let hint = match error {
            AgentsError::Unwritten(failure) => return self.unwritten(failure),
            AgentsError::NotAdmitted(NotAdmitted::NameTaken(name)) => format!(
                "to take its program as it is now: callgate agent refresh {name}; to enrol another: callgate agent remove {name} first"
            ),
            AgentsError::NotAdmitted(NotAdmitted::NoAgent(_) | NotAdmitted::Full | NotAdmitted::IdTaken(_)) => {
                "callgate agent list".to_owned()
            }
            AgentsError::NotAdmitted(NotAdmitted::NotEnrollable(why)) => hint(why),
        };
        request(error.to_string(), Some(hint))
    }
}

fn hint(why: &NotEnrollable) -> String {
    match why {
        NotEnrollable::InterpreterAlone(path) => {
            format!("say what it runs: callgate agent add NAME {path} --script PATH")
        }
        NotEnrollable::NoInterpreter(path) => format!("without the script: callgate agent add NAME {path}"),
        NotEnrollable::BadPath(_) => "callgate agent add NAME PROGRAM".to_owned(),
        NotEnrollable::BadWrapper(_) => {
            "name the script that it runs by its file name, for example --via npx".to_owned()
        }
        NotEnrollable::TooManyWrappers(_) => "list those that really stand in between: callgate log".to_owned(),
    }
}
