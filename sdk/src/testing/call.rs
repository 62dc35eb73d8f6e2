//! Calls to test with.

use super::canonical;
use crate::bindings::callgate::policy::types;
use crate::{Agent, Annotations, Attribute, Call, Caller, Server, Tool};

/// Building calls; only natively, for tests.
impl Call {
    /// A call of a tool on a server, without arguments, from a caller whose agent is not established.
    pub fn new(server: &str, tool: &str) -> Self {
        let server = Server { id: format!("srv_{server}"), name: server.to_owned() };
        let caller = Caller { agent: None, client: String::new(), server, attributes: Vec::new() };
        let tool = Tool { name: tool.to_owned(), annotations: None, definition_digest: None };
        Self::with(caller, tool, "{}", canonical::digest("{}"))
    }

    /// The same call from an agent.
    #[must_use]
    pub fn agent(mut self, name: &str) -> Self {
        self.caller.agent =
            Some(Agent { id: format!("agt_{name}"), name: name.to_owned(), evidence: "declared".to_owned() });
        self
    }

    /// The same call with arguments: JSON text, given to the policy as it is, with the digest that the host would give.
    ///
    /// # Panics
    /// When the text is not a JSON object.
    #[must_use]
    pub fn arguments(self, json: &str) -> Self {
        Self::with(self.caller, self.tool, json, canonical::digest(json))
    }

    /// The same call with a text for arguments that may be no JSON at all, and without a digest. No host shows such a call;
    /// it is for showing that nothing makes a policy fail.
    #[must_use]
    pub fn arguments_unread(self, text: &str) -> Self {
        Self::with(self.caller, self.tool, text, String::new())
    }

    fn with(caller: Caller, tool: Tool, arguments: &str, arguments_digest: String) -> Self {
        Self::from(types::Call { caller, tool, arguments: arguments.to_owned(), arguments_digest })
    }

    /// The same call of a tool that its server describes so.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.tool.annotations = Some(annotations);
        self
    }

    /// The same call with one more fact about the caller.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.caller.attributes.push(Attribute { name: name.to_owned(), value: value.to_owned() });
        self
    }
}
