//! What would be decided of calls that nobody makes: the question and the answer, in words.

use callgate_core::agent::Agents;
use callgate_core::call::Call;
use callgate_core::evidence::established;
use callgate_core::verdict::{Answer, Opinion};
use callgate_ipc::message::{CommandReply, Explain, PluginOpinion};

use super::request;
use crate::plugins::asked;
use crate::plugins::table::word;

/// The call that is asked about.
pub(super) fn imagined(question: Explain, agents: &Agents) -> Result<Call, CommandReply> {
    let Explain { tool, agent, server, arguments, session } = question;
    // An enrolled agent has spent what it has; one that is not could have spent nothing.
    let agent = agent.map(|name| agents.named(&name).map_or_else(|| asked::declared(name), established));
    let call = asked::call(server, tool, agent, &arguments)
        .map_err(|why| request(why, Some("--args '{\"path\":\"/x\"}'".to_owned())))?;
    Ok(match session {
        Some(session) => Call { session, ..call },
        None => call,
    })
}

/// What one plugin said, in words.
pub(super) fn shown(opinion: &Opinion) -> PluginOpinion {
    let (verdict, rule) = match &opinion.outcome {
        Ok(Answer { verdict, rule, .. }) => (word(verdict), rule.as_ref().map(|rule| rule.text.clone())),
        Err(failure) => (failure.code().as_str(), None),
    };
    PluginOpinion { plugin: opinion.plugin.clone(), verdict: verdict.to_owned(), rule }
}
