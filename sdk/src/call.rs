//! A call as a policy sees it, which notices whether its arguments are read.

use std::cell::Cell;
use std::fmt;

use crate::bindings::callgate::policy::types;
use crate::{Caller, Tool};

/// One `tools/call`. It has no session and no call id, so that no answer depends on them.
///
/// An answer for which the arguments were not read holds whatever they are, and the host may give it again for the same
/// caller and tool without asking. The call notices by itself; a policy that looks at caller and tool first, and at the
/// arguments only where it has to, is asked less often.
pub struct Call {
    /// Who asks, and which server.
    pub caller: Caller,
    /// What is called.
    pub tool: Tool,
    arguments: String,
    arguments_digest: String,
    are_read: Cell<bool>,
}

impl Call {
    /// `params.arguments` as the exact JSON text that will be forwarded; `{}` when the call has none. A JSON object without a
    /// repeated key, at most 4 MiB. [`Arguments`](crate::arguments::Arguments) reads it.
    pub fn arguments_json(&self) -> &str {
        self.are_read.set(true);
        &self.arguments
    }

    /// SHA-256 (64 lower-case hex digits) of the arguments' canonical form: the same for the same call again, however it is
    /// spelled.
    pub fn arguments_digest(&self) -> &str {
        self.are_read.set(true);
        &self.arguments_digest
    }

    /// What comes of looking at it, and whether the arguments were read for that.
    pub(crate) fn noticing<T>(&self, look: impl FnOnce(&Self) -> T) -> (T, bool) {
        self.are_read.set(false);
        (look(self), self.are_read.get())
    }
}

impl From<types::Call> for Call {
    fn from(types::Call { caller, tool, arguments, arguments_digest }: types::Call) -> Self {
        Self { caller, tool, arguments, arguments_digest, are_read: Cell::new(false) }
    }
}

/// A copy could be read where the call does not notice, so to make one is to read the arguments.
impl Clone for Call {
    fn clone(&self) -> Self {
        Self::from(types::Call {
            caller: self.caller.clone(),
            tool: self.tool.clone(),
            arguments: self.arguments_json().to_owned(),
            arguments_digest: self.arguments_digest().to_owned(),
        })
    }
}

/// Shows the arguments, and so reads them.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("caller", &self.caller)
            .field("tool", &self.tool)
            .field("arguments", &self.arguments_json())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_the_arguments_is_noticed() {
        let call = Call::new("fs", "read_file").agent("cursor").arguments(r#"{"path": "/tmp"}"#);
        let ways: [fn(&Call) -> String; 5] = [
            |call| call.arguments_json().to_owned(),
            |call| call.arguments_digest().to_owned(),
            |call| call.clone().arguments_json().to_owned(),
            |call| call.clone().tool.name,
            |call| format!("{call:?}"),
        ];
        for (number, way) in ways.into_iter().enumerate() {
            assert!(call.noticing(way).1, "way {number}");
        }
        let other = |call: &Call| (call.caller.clone(), call.tool.clone());
        assert!(!call.noticing(other).1, "what is read in an earlier look is of that look alone");
    }
}
