//! Calls that nobody makes, for explaining what would be decided. Nothing here is journaled or released.

use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::canonical;
use callgate_core::digest::Digest;
use callgate_core::identity::{Agent, Caller, Server, SessionId};
use callgate_core::permit::Binding;
use callgate_core::read::{ClientMessage, Unreadable, read_client};
use callgate_core::verdict::{Answer, Opinion, Verdict};
use callgate_ipc::message::{CommandReply, Explain, PluginOpinion};

use super::request;

/// A call that nobody makes, read as the relay would read it: what no relay lets through is refused here as well.
pub(super) fn imagined(question: Explain) -> Result<Call, CommandReply> {
    let Explain { tool, agent, server, arguments, session } = question;
    let frame = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":{{\"name\":{},\"arguments\":{arguments}}}}}\n",
        serde_json::Value::from(tool.as_str())
    );
    let hint = || Some("--args '{\"path\":\"/x\"}'".to_owned());
    let call = match read_client(frame.as_bytes()) {
        Ok(ClientMessage::Call(call)) => call,
        Ok(_) => return Err(request("the arguments are not one JSON object".to_owned(), hint())),
        Err(Unreadable { code, detail, .. }) => {
            let message =
                format!("a call with these arguments is refused before any policy sees it: {detail} ({code})");
            return Err(request(message, hint()));
        }
    };
    // Text that ends the object and goes on says something else than the call's arguments.
    let Some(arguments) = call.arguments.filter(|read| *read == arguments.trim()) else {
        return Err(request("the arguments are not one JSON object".to_owned(), hint()));
    };
    let agent = agent.map(|name| Agent { id: String::new(), name, evidence: "declared".to_owned() });
    let caller = Caller {
        agent,
        client: String::new(),
        server: server.map_or_else(Server::unnamed, |name| Server { id: String::new(), name }),
        attributes: Vec::new(),
    };
    Ok(Call {
        binding: Binding { connection: 0, sequence: 0, frame: Digest::of(frame.as_bytes()) },
        session: session.unwrap_or_else(|| SessionId::from_random([0; 16])),
        request_id: "0".to_owned(),
        caller: Arc::new(caller),
        tool,
        listed: None,
        arguments_digest: canonical::digest(arguments),
        arguments: arguments.into(),
    })
}

/// What one plugin said, in words.
pub(super) fn shown(opinion: &Opinion) -> PluginOpinion {
    let (verdict, rule) = match &opinion.outcome {
        Ok(Answer { verdict, rule, .. }) => {
            let word = match verdict {
                Verdict::Deny(_) => "deny",
                Verdict::Ask(_) => "ask",
                Verdict::Allow => "allow",
                Verdict::Abstain => "abstain",
            };
            (word, rule.as_ref().map(|rule| rule.text.clone()))
        }
        Err(failure) => (failure.code().as_str(), None),
    };
    PluginOpinion { plugin: opinion.plugin.clone(), verdict: verdict.to_owned(), rule }
}
