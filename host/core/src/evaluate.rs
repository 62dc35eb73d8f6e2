//! Evaluate: the first of a decision's two steps. Pure, in parallel, touches nothing that is shared.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::verdict::{Denial, Failure, Opinion, Question, Rule, Verdict, strictest};

/// What the chain answers when every plugin abstains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainDefault {
    /// As shipped.
    #[default]
    Deny,
    /// A person decides.
    Ask,
    /// Let it through.
    Allow,
}

/// One member of the chain, as it was when it answered: enough to ask it again later.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// The instance's name.
    pub plugin: String,
    /// The digest of its component.
    pub component: Digest,
    /// The digest of its settings document.
    pub settings: Digest,
}

/// Everything the chain said of one call.
#[derive(Clone, Debug)]
pub struct Opinions {
    /// The chain's generation: counts up with every change of rules, settings or members.
    pub generation: u64,
    /// Who was asked, in order.
    pub members: Arc<[Member]>,
    /// What counts when all abstain.
    pub default: ChainDefault,
    /// One opinion a member.
    pub opinions: Vec<Opinion>,
}

/// A call's evaluation.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// The generation it holds for.
    pub generation: u64,
    /// Who was asked.
    pub members: Arc<[Member]>,
    /// What each member said.
    pub opinions: Vec<Opinion>,
    /// What the chain says as a whole.
    pub ruling: Ruling,
    /// Every note of every plugin, `plugin: note`.
    pub notes: Vec<String>,
}

/// What the chain as a whole says of a call, and who spoke. Has no case for "nobody said anything": that is the default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ruling {
    /// A plugin refuses.
    Deny {
        /// The instance that spoke.
        plugin: String,
        /// What it said.
        denial: Denial,
        /// Its rule.
        rule: Option<Rule>,
    },
    /// A plugin gave no answer, which is a denial.
    Failed {
        /// The instance that failed.
        plugin: String,
        /// How.
        failure: Failure,
    },
    /// A plugin wants a person to decide.
    Ask {
        /// The instance that spoke.
        plugin: String,
        /// What it said.
        question: Question,
        /// Its rule.
        rule: Option<Rule>,
    },
    /// A plugin that may grant allows.
    Allow {
        /// The instance that spoke.
        plugin: String,
        /// Its rule.
        rule: Option<Rule>,
    },
    /// Every plugin abstained.
    Default(ChainDefault),
    /// The chain changed under every evaluation, so that none of them holds; no plugin's word counts.
    Unsettled,
}

/// Combines what the chain said: the strictest opinion, or the chain's default when all abstain. The order in which the
/// opinions came in makes no difference.
pub fn evaluate(opinions: Opinions) -> Evaluated {
    let Opinions { generation, members, default, mut opinions } = opinions;
    opinions.sort_by_key(|opinion| opinion.position);
    let notes = opinions
        .iter()
        .filter_map(|opinion| opinion.outcome.as_ref().ok().map(|answer| (&opinion.plugin, &answer.notes)))
        .flat_map(|(plugin, notes)| notes.iter().map(move |note| format!("{plugin}: {note}")))
        .collect();
    let ruling = strictest(&opinions).and_then(ruling).unwrap_or(Ruling::Default(default));
    Evaluated { generation, members, opinions, ruling, notes }
}

fn ruling(opinion: &Opinion) -> Option<Ruling> {
    let plugin = opinion.plugin.clone();
    let answer = match &opinion.outcome {
        Ok(answer) => answer,
        Err(failure) => return Some(Ruling::Failed { plugin, failure: failure.clone() }),
    };
    let rule = answer.rule.clone();
    match &answer.verdict {
        Verdict::Deny(denial) => Some(Ruling::Deny { plugin, denial: denial.clone(), rule }),
        Verdict::Ask(question) => Some(Ruling::Ask { plugin, question: question.clone(), rule }),
        Verdict::Allow if opinion.may_grant => Some(Ruling::Allow { plugin, rule }),
        Verdict::Allow | Verdict::Abstain => None,
    }
}
