//! `callgate log`

use std::time::Duration;

use callgate_core::entry::{Outcome as CallOutcome, Record, Side};
use callgate_core::escape::visible;
use callgate_core::identity::PluginName;
use callgate_core::server::{ServerEntry, VariableName};
use callgate_core::settle::Filing;
use callgate_journal::{CallState, Content, DecisionView, Entry, Filter, PAGE_ENTRIES_MAX, Page, Reader};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::Log;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

/// How often a followed journal is looked at: a person does not notice, and an idle machine hardly does.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

pub(super) fn show(log: &Log, home: &Home) -> Outcome {
    let filter = Filter {
        kinds: None,
        server: log.server.clone(),
        tool: log.tool.clone(),
        decision: log.decision.map(Filing::from),
    };
    let reader = open(home)?;
    let mut after = first(log, &reader, &filter)?;
    // After a given entry everything is shown from the oldest, unless a number was asked for as well.
    let mut left = if log.after.is_some() && log.number.is_some() { log.count() } else { usize::MAX };
    loop {
        let Page { entries, after: reached, complete } =
            reader.page(after, &filter, left.min(PAGE_ENTRIES_MAX)).map_err(|error| unreadable(&error))?;
        left -= entries.len();
        after = reached;
        entries.iter().try_for_each(|entry| print(entry, log.json.json))?;
        if left == 0 || (complete && !log.follow) {
            return Ok(Exit::Done);
        }
        if complete {
            std::thread::sleep(FOLLOW_EVERY);
        }
    }
}

/// The number after which to begin.
fn first(log: &Log, reader: &Reader, filter: &Filter) -> Result<u64, Failure> {
    match log.after {
        Some(after) => Ok(after),
        None => reader.after_newest(log.count(), filter).map_err(|error| unreadable(&error)),
    }
}

/// The journal of this home.
pub(super) fn open(home: &Home) -> Result<Reader, Failure> {
    Reader::open(&home.database(), Some(&home.install_marker()))
        .map_err(|error| Failure::environment(error.to_string()).hint(error.hint()))
}

/// A journal that turned out not to be readable.
pub(super) fn unreadable(error: &callgate_journal::ReadError) -> Failure {
    Failure::environment(error.to_string()).hint("see `callgate daemon status`")
}

#[derive(Serialize)]
struct Shown<'a> {
    seq: u64,
    time: String,
    kind: &'a str,
    chain: String,
    body: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<String>,
}

fn print(entry: &Entry, json: bool) -> Result<(), Failure> {
    if !json {
        return output::line(&text(entry));
    }
    let stored = std::str::from_utf8(&entry.body).ok().and_then(|body| serde_json::from_str(body).ok());
    let Some(body) = stored else {
        return Err(Failure {
            exit: Exit::No,
            message: format!("entry {} is not JSON", entry.seq),
            hint: Some("callgate verify".to_owned()),
        });
    };
    let decision = match &entry.content {
        Content::Decision(decision) => Some(decision.as_ref()),
        _ => None,
    };
    output::json(&Shown {
        seq: entry.seq,
        time: time(entry.time_ms),
        kind: &entry.kind,
        chain: entry.chain.to_string(),
        body,
        state: decision.and_then(|decision| decision.call).map(state),
        arguments: decision.and_then(kept),
    })
}

/// One entry as a person reads it: one line, nothing in it that a terminal would act on.
pub(super) fn text(entry: &Entry) -> String {
    let what = match &entry.content {
        Content::Decision(decision) => decision_text(decision),
        Content::Outcome(outcome) => {
            let tool = outcome.decision.as_ref().map_or("?", |decision| &decision.tool);
            let came = match outcome.body.outcome {
                Some(CallOutcome::Ok) => "ok",
                Some(CallOutcome::Error) => "error",
                None => "unknown: the daemon died before it came",
            };
            let took = outcome.body.took_ms.map(|took_ms| format!(" after {took_ms} ms")).unwrap_or_default();
            format!("outcome of {}: {tool}: {came}{took}", outcome.body.decision)
        }
        Content::SessionStart(start) => {
            let again = if start.resumed { " (resumed)" } else { "" };
            let agent = match (&start.agent, &start.unknown) {
                (Some(agent), _) => format!("agent {} ({})", agent.name, agent.evidence),
                (None, Some(why)) => format!("agent not known: {why}"),
                (None, None) => "agent not known".to_owned(),
            };
            let command = start.command.join(" ");
            format!("session {} with {}{again}, {agent}: {command}", start.session, start.server.name)
        }
        Content::SessionEnd(end) => format!("session {} ended: {}", end.session, end.how),
        Content::Anomaly(anomaly) => {
            let side = match anomaly.from {
                Side::Client => "client's frame refused",
                Side::Server => "server's frame is odd",
            };
            format!("{side}: {} ({})", anomaly.detail, anomaly.code)
        }
        Content::PolicyAdd(change) => format!("{} added: {}", change.item.kind(), change.item),
        Content::PolicyRemove(change) => format!("{} removed: {}", change.item.kind(), change.item),
        Content::PluginAdd(change) => format!("plugin added: {}", change.plugin),
        Content::PluginChange(change) => format!("plugin changed: {}", change.plugin),
        Content::PluginRemove(change) => format!("plugin removed: {}", change.plugin),
        Content::PluginOrder(change) => {
            let order: Vec<&str> = change.order.iter().map(PluginName::as_str).collect();
            format!("plugins ordered: {}", order.join(", "))
        }
        Content::PluginReset(reset) => format!("plugin given another chance: {}", reset.plugin),
        Content::ServerAdd(body) => {
            let ServerEntry { name, command, env, .. } = &body.server;
            let env: Vec<&str> = env.iter().map(VariableName::as_str).collect();
            let env = if env.is_empty() { String::new() } else { format!(" with {}", env.join(", ")) };
            format!("server registered: {name}{env}: {}", command.join(" "))
        }
        Content::ServerRemove(body) => format!("server removed: {}", body.server.name),
        Content::CredentialSet(body) => {
            format!("credential set: {} of {}, in {}", body.variable, body.server.name, body.store)
        }
        Content::CredentialRemove(body) => format!("credential removed: {} of {}", body.variable, body.server.name),
        Content::AgentAdd(body) => format!("agent enrolled: {}", body.agent),
        Content::AgentRefresh(body) => format!("agent refreshed: {}", body.agent),
        Content::AgentRemove(body) => format!("agent removed: {}", body.agent),
        Content::DaemonStart(daemon) => format!("daemon started: pid {}, build {}", daemon.pid, daemon.build),
        Content::DaemonStop(daemon) => format!("daemon stopped: pid {}", daemon.pid),
        Content::ClockJump(_) => "the wall clock jumped".to_owned(),
        Content::Unreadable(why) => format!("{} (cannot be read: {why})", entry.kind),
    };
    visible(&format!("{:>6}  {}  {what}", entry.seq, time(entry.time_ms))).into_owned()
}

fn decision_text(decision: &DecisionView) -> String {
    let body = &decision.body;
    let filed = match body.decision {
        Filing::Allowed => "allowed",
        Filing::Denied => "denied",
        Filing::Error => "error",
    };
    let agent = body.agent.as_ref().map_or("-", |agent| agent.name.as_str());
    let why = match (&body.reason, &body.rule) {
        (Some(reason), _) => format!(": {reason}"),
        (None, Some(rule)) => format!(" by {}", rule.text),
        (None, None) => String::new(),
    };
    let state = decision.call.map(|call| format!(" [{}]", state(call))).unwrap_or_default();
    format!("{filed:<8} {}/{} agent {agent}{why}{state}", body.server.name, body.tool)
}

const fn state(state: CallState) -> &'static str {
    match state {
        CallState::Pending => "pending",
        CallState::Ok => "ok",
        CallState::Error => "error",
        CallState::Unknown => "unknown",
    }
}

/// What is kept of the arguments, as text: the exact bytes, or the summary.
fn kept(decision: &DecisionView) -> Option<String> {
    let kept = decision.arguments.as_ref()?;
    match kept.form {
        Record::Full | Record::Summary => kept.value.clone().and_then(|value| String::from_utf8(value).ok()),
        Record::Digest => None,
    }
}

fn time(time_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(time_ms).map_or_else(|_| format!("{time_ms} ms"), |time| format!("{time:.3}"))
}
