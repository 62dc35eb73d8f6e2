//! Calls that nobody makes, read as the relay would read them: what no relay lets through is refused here as well. Nothing
//! here is journaled or released.

use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::digest::Digest;
use callgate_core::identity::{Agent, AgentName, Caller, Server, ServerName, SessionId};
use callgate_core::permit::Binding;
use callgate_core::read::{ClientMessage, Unreadable, read_client};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What is said of a call that nobody makes.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// The server; without one, a server that no rule names.
    pub(crate) server: Option<ServerName>,
    /// The tool.
    pub(crate) tool: String,
    /// The agent.
    pub(crate) agent: Option<AgentName>,
    /// The arguments as they would stand in the frame.
    pub(crate) arguments: Option<Box<RawValue>>,
}

impl Asked {
    /// The call, or why there can be none.
    pub(crate) fn call(self) -> Result<Call, String> {
        let Self { server, tool, agent, arguments } = self;
        call(server, tool, agent.map(declared), arguments.as_ref().map_or("{}", |arguments| arguments.get()))
    }
}

/// A call with these arguments, JSON text; or why there can be none.
pub(crate) fn call(
    server: Option<ServerName>,
    tool: String,
    agent: Option<Agent>,
    arguments: &str,
) -> Result<Call, String> {
    let frame = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":{{\"name\":{},\"arguments\":{arguments}}}}}\n",
        serde_json::Value::from(tool.as_str())
    );
    let read = match read_client(frame.as_bytes()) {
        Ok(ClientMessage::Call(call)) => call,
        Ok(_) => return Err("the arguments are not one JSON object".to_owned()),
        Err(Unreadable { code, detail, .. }) => {
            return Err(format!("a call with these arguments is refused before any policy sees it: {detail} ({code})"));
        }
    };
    // Text that ends the object and goes on says something else than the call's arguments.
    let Some(arguments) = read.arguments.filter(|read| *read == arguments.trim()) else {
        return Err("the arguments are not one JSON object".to_owned());
    };
    Ok(unread(server, tool, agent, arguments))
}

/// An agent that is only said to be one.
pub(crate) fn declared(name: AgentName) -> Agent {
    Agent { id: String::new(), name, evidence: "declared".to_owned() }
}

/// A call that is made without a frame, and so of a tool that no frame may name as well. `arguments` is one JSON object.
pub(crate) fn unread(server: Option<ServerName>, tool: String, agent: Option<Agent>, arguments: &str) -> Call {
    let caller = Caller {
        agent,
        client: String::new(),
        server: server.map_or_else(Server::unnamed, |name| Server { id: String::new(), name }),
        attributes: Vec::new(),
    };
    Call {
        // Nothing is released for it.
        binding: Binding { connection: 0, sequence: 0, frame: Digest::of(b"") },
        session: SessionId::from_random([0; 16]),
        request_id: "0".to_owned(),
        caller: Arc::new(caller),
        tool,
        listed: None,
        arguments: arguments.into(),
    }
}
