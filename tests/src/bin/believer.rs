//! A daemon that believes what a relay was told of its agent. It is the shipped one but for that, and the only way to live calls
//! of a known agent until agents can be established; the shipped binary has no such way in.
//!
//! ```text
//! CALLGATE_HOME=FOLDER believer
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use callgate::environment::Environment;
use callgate_core::identity::{Agent, AgentName};
use callgate_core::port::Identities;
use callgate_tests::home::BELIEVED;

struct Believer;

impl Identities for Believer {
    fn agent(&self, claim: Option<&AgentName>, _relay_pid: u32) -> Option<Agent> {
        claim.map(|name| Agent { id: format!("agt_{name}"), name: name.clone(), evidence: BELIEVED.to_owned() })
    }
}

fn main() -> ExitCode {
    callgate::serve(&Environment::read(), Arc::new(Believer)).into()
}
