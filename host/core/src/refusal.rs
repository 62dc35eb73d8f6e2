//! A refusal as the agent sees it: the reason, and the JSON-RPC message of its dialect.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::code::Code;
use crate::decide::EVALUATIONS_MAX;
use crate::escape;
use crate::settle::Filing;
use crate::verdict::{Retry, Rule};

/// Why a call is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reason {
    /// What kind of refusal it is.
    pub code: Code,
    /// The code a policy plugin gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_code: Option<String>,
    /// One sentence, lower-case, no full stop.
    pub message: String,
    /// Whether trying again can help.
    pub retry: Retry,
    /// The plugin instance that spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The rule that spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

impl Reason {
    /// A reason that no plugin gave.
    pub fn of(code: Code, message: impl Into<String>, retry: Retry) -> Self {
        Self { code, policy_code: None, message: message.into(), retry, plugin: None, rule: None }
    }

    /// The reason of a call that was given up on because the chain kept changing.
    pub(crate) fn unsettled() -> Self {
        let message = format!("the policies changed {EVALUATIONS_MAX} times while this call was being decided");
        Self::of(Code::ChainUnsettled, message, Retry::Later)
    }

    /// How it is filed: an error of the machinery is not a denial by policy.
    pub const fn filing(&self) -> Filing {
        self.code.filing()
    }

    /// The code that the agent, the journal and scripts see: `<plugin>/<code>` where a plugin spoke, else the enum's text.
    pub fn code_text(&self) -> String {
        match (&self.plugin, &self.policy_code) {
            (Some(plugin), Some(code)) if self.code == Code::Policy => format!("{plugin}/{code}"),
            _ => self.code.as_str().to_owned(),
        }
    }
}

/// The shape a refusal takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Every revision up to 2025-11-25.
    Legacy,
    /// 2026-07-28: results carry `resultType`.
    Modern,
    /// A task-augmented call of 2025-11-25 (`params.task`): its client expects a task or an error, never a result.
    Task,
}

/// The JSON-RPC error code of a refused task-augmented call: outside the ranges JSON-RPC and MCP reserve.
pub const TASK_REFUSED: i64 = -31_001;
/// The JSON-RPC error code of a request to a server that was not started.
pub const SERVER_NOT_STARTED: i64 = -31_002;
/// JSON-RPC's "invalid request", the code of a refused frame.
pub const INVALID_REQUEST: i64 = -32_600;

/// The message that refuses a call, one line with its line feed. `request_id` is raw JSON text and is echoed as it came;
/// everything else is made visible ([`escape::visible`]), because much of it is a plugin's or a client's own text.
pub fn refused_call(request_id: &str, dialect: Dialect, reason: &Reason, entry: Option<u64>) -> Vec<u8> {
    let text = sentence(reason);
    let meta = json!({ "dev.callgate/decision": decision_meta(reason, entry) });
    let body = match dialect {
        Dialect::Legacy => result(&text, &meta, None),
        Dialect::Modern => result(&text, &meta, Some("complete")),
        Dialect::Task => {
            let error = json!({ "code": TASK_REFUSED, "message": text, "data": { "_meta": meta } });
            format!(r#""error":{error}"#)
        }
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{request_id},{body}}}\n").into_bytes()
}

/// The message that refuses a frame, one line with its line feed.
pub fn refused_frame(request_id: &str, code: Code, message: &str) -> Vec<u8> {
    let error = json!({
        "code": INVALID_REQUEST,
        "message": escape::visible(&format!("callgate refused this message: {message}")),
        "data": { "code": code },
    });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{request_id},\"error\":{error}}}\n").into_bytes()
}

/// The message that answers any request to a server that was not started, one line with its line feed.
pub fn not_started(request_id: &str, reason: &Reason) -> Vec<u8> {
    let error = json!({
        "code": SERVER_NOT_STARTED,
        "message": escape::visible(&format!("Callgate did not start this server: {}", reason.message)),
        "data": { "code": reason.code_text(), "retry": reason.retry },
    });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{request_id},\"error\":{error}}}\n").into_bytes()
}

fn result(text: &str, meta: &Value, result_type: Option<&str>) -> String {
    let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": true, "_meta": meta });
    if let Some(kind) = result_type {
        result["resultType"] = kind.into();
    }
    format!(r#""result":{result}"#)
}

fn decision_meta(reason: &Reason, entry: Option<u64>) -> Value {
    json!({
        "code": escape::visible(&reason.code_text()),
        "reason": escape::visible(&reason.message),
        "plugin": reason.plugin.as_deref().map(escape::visible),
        "rule": reason.rule.as_ref().map(visible_rule),
        "retry": reason.retry,
        "entry": entry,
    })
}

fn visible_rule(rule: &Rule) -> Rule {
    let Rule { path, policy, text } = rule;
    let visible = |text: &String| escape::visible(text).into_owned();
    Rule { path: visible(path), policy: policy.as_ref().map(visible), text: visible(text) }
}

fn sentence(reason: &Reason) -> String {
    let who = match (reason.filing(), &reason.plugin) {
        (Filing::Error, _) => "Callgate could not decide this call and refused it".to_owned(),
        (Filing::Denied | Filing::Allowed, Some(plugin)) => format!("Callgate refused this call ({plugin})"),
        (Filing::Denied | Filing::Allowed, None) => "Callgate refused this call".to_owned(),
    };
    let advice = match reason.retry {
        Retry::Never => "Do not try it again: the same call will be refused again.",
        Retry::Changed => "Other arguments may pass.",
        Retry::Later => "The same call may pass later.",
    };
    escape::visible(&format!("{who}: {}. {advice}", reason.message)).into_owned()
}
