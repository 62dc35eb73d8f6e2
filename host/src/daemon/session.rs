//! One relay's connection: what arrives together is decided together, in one transaction, and answered in one write.

use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::canonical;
use callgate_core::decide::Verdict;
use callgate_core::entry::{AnomalyBody, Draft, Kind, SessionEndBody, SessionStartBody};
use callgate_core::identity::{Attribute, Caller, Server, SessionId};
use callgate_core::permit::Binding;
use callgate_core::refusal::Reason;
use callgate_ipc::message::{Anomaly, Close, Decide, FromRelay, Open, Refused, ToRelay};

use super::gate::Gate;
use crate::wire::{Broken, Wire};

/// How many calls are decided in one transaction at most; more than a relay may have waiting is never asked.
const BATCH_MAX: usize = 256;

/// Serves one relay until it closes the session or the connection.
pub(super) fn serve(mut wire: Wire, connection: u64, pid: u32, gate: &Gate) -> Result<(), Broken> {
    let FromRelay::Open(open) = wire.receive(None)? else {
        log::warn!("pid {pid} speaks of a session before it opens one");
        return Ok(());
    };
    let mut session = Session::new(open, connection, pid);
    if let Err(reason) = session.begin(gate) {
        return wire.send(&[ToRelay::NotOpened(reason)]);
    }
    wire.send(&[ToRelay::Opened])?;
    let _open = gate.count_session();
    let served = session.serve(&mut wire, gate);
    session.end(gate);
    served
}

struct Session {
    id: SessionId,
    connection: u64,
    server: Server,
    start: SessionStartBody,
    /// Whether its start is in the journal. While the journal refuses, it is not, and no call is decided.
    begun: bool,
    ended: Option<Close>,
    /// The caller of the newest call; calls of one session rarely differ in it.
    caller: Option<Arc<Caller>>,
}

impl Session {
    fn new(open: Open, connection: u64, pid: u32) -> Self {
        let server = Server { id: String::new(), name: open.server };
        let start = SessionStartBody {
            session: open.session.clone(),
            server: server.clone(),
            command: open.command,
            claim: open.claim.map(String::from),
            pid,
            resumed: open.resumed,
        };
        Self { id: open.session, connection, server, start, begun: false, ended: None, caller: None }
    }

    /// Journals the start. Only a session that may never be is an error; a journal that refuses now may not later.
    fn begin(&mut self, gate: &Gate) -> Result<(), Reason> {
        self.begun = gate.begin_session(&self.start)?;
        Ok(())
    }

    fn serve(&mut self, wire: &mut Wire, gate: &Gate) -> Result<(), Broken> {
        let mut calls = Vec::new();
        while self.ended.is_none() {
            let mut message = Some(wire.receive(None)?);
            while let Some(next) = message {
                match next {
                    FromRelay::Decide(decide) => calls.push(self.call(decide)),
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

    fn decide(&mut self, gate: &Gate, calls: Vec<Call>) -> Vec<ToRelay> {
        let sequences: Vec<u64> = calls.iter().map(|call| call.binding.sequence).collect();
        if !self.begun {
            match gate.begin_session(&self.start) {
                Ok(begun) => self.begun = begun,
                Err(reason) => return refuse_all(&sequences, &reason),
            }
        }
        let verdicts = gate.decide(calls);
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
            arguments_digest: canonical::digest(&decide.arguments),
            arguments: decide.arguments.into(),
        }
    }

    fn caller(&mut self, client: String, protocol_version: Option<String>) -> Arc<Caller> {
        let mut attributes = vec![Attribute { name: "transport".to_owned(), value: "stdio".to_owned() }];
        attributes.extend(protocol_version.map(|value| Attribute { name: "protocol.version".to_owned(), value }));
        let caller = Caller { agent: None, client, server: self.server.clone(), attributes };
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
            self.ended.map_or_else(|| ("connection-lost".to_owned(), 0), |close| (close.how, close.lost_events));
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

fn refuse_all(sequences: &[u64], reason: &Reason) -> Vec<ToRelay> {
    let refused = |&sequence| ToRelay::Refused(Refused { sequence, reason: reason.clone(), entry: None });
    sequences.iter().map(refused).collect()
}
