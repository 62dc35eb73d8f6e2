//! One relay's connection: what arrives together is decided together, in one transaction, and answered in one write.

use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::code::Code;
use callgate_core::decide::{self, Verdict};
use callgate_core::entry::{AnomalyBody, CONNECTION_LOST, Draft, Kind, SessionEndBody, SessionStartBody};
use callgate_core::evidence::Evidence;
use callgate_core::identity::{Agent, AgentName, Attribute, Caller, Server, ServerName, SessionId};
use callgate_core::permit::Binding;
use callgate_core::port::LedgerFailure;
use callgate_core::refusal::Reason;
use callgate_core::server::ServerId;
use callgate_core::verdict::Retry;
use callgate_ipc::message::{Anomaly, Close, Decide, FromRelay, Open, Refused, SessionState, ToRelay};
use callgate_journal::SessionError;

use super::gate::Gate;
use super::identity;
use crate::wire::{Broken, Wire};

/// How many calls are decided in one transaction at most; more than a relay may have waiting is never asked.
const BATCH_MAX: usize = 256;

/// Serves one relay until it closes the session or the connection.
pub(super) fn serve(mut wire: Wire, connection: u64, caller: &identity::Caller, gate: &Gate) -> Result<(), Broken> {
    let FromRelay::Open(open) = wire.receive(None)? else {
        log::warn!("pid {} speaks of a session before it opens one", caller.pid());
        return Ok(());
    };
    let mut session = Session::new(open, caller.evidence(), connection, caller.pid());
    match session.begin(gate) {
        Ok(()) => {}
        Err(NotBegun::For(why)) => return wire.send(&[ToRelay::NotOpened(why)]),
        // A journal that refuses now may not later; until then every call is refused.
        Err(NotBegun::Unwritten(failure)) => {
            log::warn!("session {} is not in the journal yet: {failure}", session.id);
        }
    }
    // From here on a session that began also ends, even one whose relay is gone before it hears so.
    let served = session.serve(&mut wire, gate);
    session.end(gate);
    served
}

struct Session {
    id: SessionId,
    connection: u64,
    server: Server,
    /// The registration that the relay started its server from.
    registered: Option<ServerId>,
    evidence: Evidence,
    claim: Option<AgentName>,
    agent: Option<Agent>,
    start: SessionStartBody,
    /// Whether its start is in the journal. While the journal refuses, it is not, and no call is decided.
    begun: bool,
    ended: Option<Close>,
    /// The caller of the newest call; calls of one session rarely differ in it.
    caller: Option<Arc<Caller>>,
}

impl Session {
    fn new(open: Open, evidence: Evidence, connection: u64, pid: u32) -> Self {
        let server = Server { id: String::new(), name: open.server };
        let start = SessionStartBody {
            session: open.session.clone(),
            server: server.clone(),
            command: open.command,
            claim: open.claim.as_ref().map(ToString::to_string),
            agent: None,
            unknown: None,
            ancestry: evidence.ancestors.clone(),
            pid,
            resumed: open.resumed,
        };
        Self {
            id: open.session,
            connection,
            server,
            registered: open.registered,
            evidence,
            claim: open.claim,
            agent: None,
            start,
            begun: false,
            ended: None,
            caller: None,
        }
    }

    /// Journals the start, unless it is there.
    fn begin(&mut self, gate: &Gate) -> Result<(), NotBegun> {
        if self.begun {
            return Ok(());
        }
        // What is registered can be read only where the journal can, and is what the journal says of the server.
        self.server = self.registration(gate)?;
        self.start.server.clone_from(&self.server);
        (self.agent, self.start.unknown) = match gate.identify(&self.evidence, self.claim.as_ref())? {
            Ok(agent) => (Some(agent), None),
            Err(why) => (None, Some(why)),
        };
        self.start.agent.clone_from(&self.agent);
        gate.begin_session(&self.start)?;
        self.begun = true;
        Ok(())
    }

    /// The server as it is registered. A session that runs another command than the registered one is not it, whatever its name.
    fn registration(&self, gate: &Gate) -> Result<Server, NotBegun> {
        let name = &self.server.name;
        match (gate.registered(name)?, &self.registered) {
            (Some(server), Some(ours)) if server.id == *ours => Ok(server.as_server()),
            (Some(_), _) => Err(NotBegun::For(server_changed(name))),
            // It was removed while it ran, or never registered.
            (None, _) => Ok(Server { id: String::new(), name: name.clone() }),
        }
    }

    fn serve(&mut self, wire: &mut Wire, gate: &Gate) -> Result<(), Broken> {
        wire.send(&[ToRelay::Opened])?;
        let _open = gate.count_session(self.state());
        let mut calls = Vec::new();
        while self.ended.is_none() {
            let mut message = Some(wire.receive(None)?);
            while let Some(next) = message {
                match next {
                    FromRelay::Decide(decide) => calls.push(decide),
                    FromRelay::Outcome(outcome) => gate.note_outcome(&self.id, &outcome),
                    FromRelay::Anomaly(anomaly) => gate.note(self.anomaly(anomaly)),
                    FromRelay::Close(close) => self.ended = Some(close),
                    FromRelay::Open(_) => log::warn!("session {} was opened twice", self.id),
                }
                message = if calls.len() < BATCH_MAX && self.ended.is_none() { wire.arrived()? } else { None };
            }
            if !calls.is_empty() {
                let replies = self.decide(gate, std::mem::take(&mut calls));
                wire.send(&replies)?;
            }
        }
        Ok(())
    }

    fn state(&self) -> SessionState {
        SessionState {
            session: self.id.clone(),
            server: self.server.name.clone(),
            agent: self.agent.clone(),
            unknown: self.start.unknown.clone(),
            pid: self.start.pid,
            age_ms: 0,
        }
    }

    fn decide(&mut self, gate: &Gate, asked: Vec<Decide>) -> Vec<ToRelay> {
        let sequences: Vec<u64> = asked.iter().map(|decide| decide.sequence).collect();
        let verdicts = match self.begin(gate) {
            Ok(()) => {
                // Who was removed has nothing that its name has.
                self.agent = self.agent.take().filter(|agent| gate.is_enrolled(agent));
                gate.decide(asked.into_iter().map(|decide| self.call(decide)).collect())
            }
            Err(NotBegun::For(reason)) => {
                asked.iter().map(|_| Verdict::Refused { reason: reason.clone(), entry: None }).collect()
            }
            Err(NotBegun::Unwritten(failure)) => asked.iter().map(|_| decide::unwritten(&failure)).collect(),
        };
        sequences.into_iter().zip(verdicts).map(|(sequence, verdict)| reply(sequence, verdict)).collect()
    }

    fn call(&mut self, decide: Decide) -> Call {
        let caller = self.caller(decide.client, decide.protocol_version);
        Call {
            binding: Binding { connection: self.connection, sequence: decide.sequence, frame: decide.frame },
            session: self.id.clone(),
            request_id: decide.request_id,
            caller,
            tool: decide.tool,
            listed: decide.listed.map(Arc::new),
            arguments: decide.arguments.into(),
        }
    }

    fn caller(&mut self, client: String, protocol_version: Option<String>) -> Arc<Caller> {
        let mut attributes = vec![Attribute { name: "transport".to_owned(), value: "stdio".to_owned() }];
        attributes.extend(protocol_version.map(|value| Attribute { name: "protocol.version".to_owned(), value }));
        let caller = Caller { agent: self.agent.clone(), client, server: self.server.clone(), attributes };
        match &self.caller {
            Some(known) if **known == caller => Arc::clone(known),
            Some(_) | None => Arc::clone(self.caller.insert(Arc::new(caller))),
        }
    }

    fn anomaly(&self, anomaly: Anomaly) -> Draft {
        let Anomaly { from, code, detail, frame, bytes } = anomaly;
        Draft::of(Kind::Anomaly, &AnomalyBody { session: self.id.clone(), from, code, detail, frame, bytes })
    }

    fn end(self, gate: &Gate) {
        let (how, lost_events) =
            self.ended.map_or_else(|| (CONNECTION_LOST.to_owned(), 0), |close| (close.how, close.lost_events));
        if self.begun {
            gate.note(Draft::of(Kind::SessionEnd, &SessionEndBody { session: self.id, how, lost_events }));
        }
    }
}

fn reply(sequence: u64, verdict: Verdict) -> ToRelay {
    match verdict {
        Verdict::Permitted(permit) => ToRelay::Permitted(permit),
        Verdict::Refused { reason, entry } => ToRelay::Refused(Refused { sequence, reason, entry }),
    }
}

/// Why a session is not in the journal.
#[derive(Debug)]
enum NotBegun {
    /// It cannot be, for this reason, and no call of it is ever decided.
    For(Reason),
    /// It could not be written.
    Unwritten(LedgerFailure),
}

impl From<SessionError> for NotBegun {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Used(_) => Self::For(Reason::of(Code::SessionUsed, error.to_string(), Retry::Never)),
            SessionError::Unwritten(failure) => Self::Unwritten(failure),
        }
    }
}

impl From<LedgerFailure> for NotBegun {
    fn from(failure: LedgerFailure) -> Self {
        Self::Unwritten(failure)
    }
}

fn server_changed(name: &ServerName) -> Reason {
    let message = format!(
        "the server {name} is registered with a command that this session was not started with; a restart of this server in the client mends it"
    );
    Reason::of(Code::ServerChanged, message, Retry::Never)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use callgate_core::digest::Digest;
    use callgate_identity::{Peer, SystemPeer};
    use callgate_journal::BODY_BYTES_MAX;

    use super::*;
    use crate::daemon::gate::tests::Opened;
    use crate::daemon::identity::Caller;

    fn open(command: &str) -> Open {
        Open {
            session: SessionId::from_random([7; 16]),
            server: "fs".parse().unwrap(),
            command: vec![command.to_owned()],
            claim: None,
            resumed: false,
            registered: None,
        }
    }

    fn session(command: &str) -> Session {
        Session::new(open(command), Evidence::default(), 1, 1)
    }

    fn decide_one(session: &mut Session, opened: &Opened) -> Vec<ToRelay> {
        let asked = Decide {
            sequence: 1,
            frame: Digest::of(b"frame"),
            request_id: "1".to_owned(),
            tool: "echo".to_owned(),
            client: String::new(),
            protocol_version: None,
            listed: None,
            arguments: "{}".to_owned(),
        };
        session.decide(&opened.gate, vec![asked])
    }

    #[test]
    fn no_call_is_decided_in_a_session_whose_start_could_not_be_written() {
        let opened = Opened::new();
        // The journal takes any call, and not this session's start: as if it failed for that one moment.
        let refused = decide_one(&mut session(&"x".repeat(BODY_BYTES_MAX)), &opened);
        let [ToRelay::Refused(Refused { sequence: 1, reason, entry: None })] = &refused[..] else {
            panic!("{refused:?}");
        };
        assert_eq!(reason.code, Code::JournalWrite);
        assert_eq!(opened.kinds(), ["daemon.start"]);

        let permitted = decide_one(&mut session("true"), &opened);
        assert!(matches!(&permitted[..], [ToRelay::Permitted(_)]), "{permitted:?}");
        assert_eq!(opened.kinds(), ["daemon.start", "session.start", "call.decision"]);
    }

    #[test]
    fn a_session_whose_relay_is_gone_before_it_is_told_of_its_start_has_an_end() {
        let opened = Opened::new();
        let (daemon, relay) = UnixStream::pair().unwrap();
        Wire::new(relay).send(&[FromRelay::Open(open("true"))]).unwrap();
        let caller = Caller::looked_at(Arc::new(SystemPeer::of(&daemon).unwrap()));
        let served = serve(Wire::new(daemon), 1, &caller, &opened.gate);
        assert!(matches!(served, Err(Broken::Socket(_))), "{served:?}");
        assert_eq!(opened.kinds(), ["daemon.start", "session.start", "session.end"]);
    }

    #[test]
    fn no_call_is_decided_in_a_session_whose_id_was_used() {
        let opened = Opened::new();
        session("true").begin(&opened.gate).unwrap();
        let refused = decide_one(&mut session("true"), &opened);
        assert!(matches!(&refused[..], [ToRelay::Refused(refused)] if refused.reason.code == Code::SessionUsed));
    }
}
