//! What the targets share: a document of settings and calls, put to a policy.

use callgate_sdk::testing::Harness;
use callgate_sdk::{Call, Policy};

/// Settings on the first line, then calls, each a line: server, tool, agent (may be empty) and arguments, parted by tabs.
///
/// Settings are taken or refused with a message, and whatever is taken answers every call within the contract's bounds, the
/// same twice. Arguments are what a relay lets through: one JSON object that its reader accepts.
pub fn settings_and_calls<P: Policy>(document: &[u8]) {
    let Ok(document) = std::str::from_utf8(document) else { return };
    let mut lines = document.lines();
    let Some(settings) = lines.next() else { return };
    let harness = match Harness::<P>::new(settings) {
        Ok(harness) => harness,
        Err(errors) => {
            assert!(errors.iter().all(|error| !error.message.is_empty()), "{settings}");
            return;
        }
    };
    for call in lines.filter_map(call) {
        let decision = harness.decide(&call);
        assert_eq!(harness.decide(&call), decision, "{call:?}");
    }
}

fn call(line: &str) -> Option<Call> {
    let mut fields = line.splitn(4, '\t');
    let (server, tool, agent, arguments) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let frame = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"arguments\":{arguments}}}}}\n"
    );
    let Ok(callgate_core::read::ClientMessage::Call(read)) = callgate_core::read::read_client(frame.as_bytes()) else {
        return None;
    };
    let call = Call::new(server, tool).arguments(read.arguments?);
    Some(if agent.is_empty() { call } else { call.agent(agent) })
}
