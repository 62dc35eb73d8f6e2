//! Who calls, as far as this build can tell: nobody is established. A claim is journaled and believed of nobody.

use callgate_core::identity::{Agent, AgentName};
use callgate_core::port::Identities;

/// Establishes no agent, so that every session meets the policy that names none.
pub(crate) struct Unestablished;

impl Identities for Unestablished {
    fn agent(&self, _claim: Option<&AgentName>, _relay_pid: u32) -> Option<Agent> {
        None
    }
}
