//! Settle: the second of a decision's two steps. Runs serially, inside the journal writer's transaction.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::charge::{Applied, Charge, Occasion, Owner, Subject};
use crate::code::Code;
use crate::counters::{Counters, Misfit, Moment, Name, Over};
use crate::evaluate::{ChainDefault, Ruling};
use crate::port::Case;
use crate::refusal::Reason;
use crate::verdict::{Failure, Retry, Rule};

/// What the journal knows at the moment of settling.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    /// The generation in force.
    pub generation: u64,
    /// What the clocks say.
    pub now: Moment,
}

/// What a case comes to, not yet committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The decision.
    pub decision: Decision,
    /// What the call was charged, in order.
    pub charges: Vec<Applied>,
}

/// A settled decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Forward it.
    Allowed {
        /// The plugin instance that allowed it; `None` when the chain's default did.
        plugin: Option<String>,
        /// The rule that spoke.
        rule: Option<Rule>,
    },
    /// Refuse it.
    Refused(Reason),
}

/// How a decision is filed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filing {
    /// Forwarded.
    Allowed,
    /// Refused by policy.
    Denied,
    /// Refused because something failed.
    Error,
}

impl Decision {
    /// How it is filed.
    pub const fn filing(&self) -> Filing {
        match self {
            Self::Allowed { .. } => Filing::Allowed,
            Self::Refused(reason) => reason.filing(),
        }
    }
}

/// The verdict as a word, for the journal and for explanations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// deny
    Deny,
    /// ask
    Ask,
    /// allow
    Allow,
}

impl Word {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Ruling {
    /// The ruling as a word; a failure counts as a deny.
    pub const fn word(&self) -> Word {
        match self {
            Self::Deny { .. } | Self::Failed { .. } | Self::Default(ChainDefault::Deny) | Self::Unsettled => Word::Deny,
            Self::Ask { .. } | Self::Default(ChainDefault::Ask) => Word::Ask,
            Self::Allow { .. } | Self::Default(ChainDefault::Allow) => Word::Allow,
        }
    }
}

/// Settles one evaluated call against the present and charges it. `None`: the chain changed meanwhile, evaluate again.
///
/// All charges are checked before any is applied. A call that is refused is charged for the attempt only, whether a plugin
/// refused it or a charge that does not fit.
pub fn settle(case: &Case, present: Present, counters: &mut Counters) -> Option<Settled> {
    let Case { evaluated, .. } = case;
    // A call that is given up on is refused whatever the present is.
    let holds = evaluated.generation == present.generation || evaluated.ruling == Ruling::Unsettled;
    if !holds {
        return None;
    }
    let asked = asked(case);
    let decision = match charged(decision(&evaluated.ruling), &asked, counters, present.now) {
        allowed @ Decision::Allowed { .. } => match apply_all(&asked, counters, present.now) {
            Ok(charges) => return Some(Settled { decision: allowed, charges }),
            Err(reason) => Decision::Refused(reason),
        },
        refused @ Decision::Refused(_) => refused,
    };
    let due = asked.into_iter().filter(|asked| asked.charge.occasion == Occasion::Attempted);
    // What cannot be counted of a refused call changes nothing about it.
    let charges = due.filter_map(|due| counters.apply(&due.owner, due.name, due.charge, present.now).ok()).collect();
    Some(Settled { decision, charges })
}

/// What settling a case would come to now, with nothing charged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// The decision.
    pub decision: Decision,
    /// What each plugin asks to charge, in order.
    pub charges: Vec<Foreseen>,
}

/// A charge that nobody makes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Foreseen {
    /// The plugin instance that asks for it.
    pub plugin: String,
    /// The setting it stands for.
    pub rule: Rule,
    /// Whose counter it is.
    pub subject: Subject,
    /// What it would add.
    pub amount: u64,
    /// What is spent of the limit already.
    pub spent: u64,
    /// What the counter may reach.
    pub limit: u64,
}

/// Tells what [`settle`] would come to, and changes nothing that a call could notice.
pub fn forecast(case: &Case, now: Moment, counters: &mut Counters) -> Forecast {
    let asked = asked(case);
    let decision = charged(decision(&case.evaluated.ruling), &asked, counters, now);
    let foreseen = |Asked { owner, name, charge }: &Asked| Foreseen {
        plugin: name.plugin.to_string(),
        rule: Rule::clone(&charge.rule),
        subject: charge.subject,
        amount: charge.amount,
        spent: counters.spent(owner, name, now),
        limit: charge.limit,
    };
    Forecast { decision, charges: asked.iter().map(foreseen).collect() }
}

/// What a decision comes to once the charges have been looked at.
fn charged(decision: Decision, asked: &[Asked<'_>], counters: &mut Counters, now: Moment) -> Decision {
    match decision {
        allowed @ Decision::Allowed { .. } => match unfit(asked, counters, now) {
            None => allowed,
            Some(reason) => Decision::Refused(reason),
        },
        refused @ Decision::Refused(_) => refused,
    }
}

/// A charge, and the counter that it is for.
struct Asked<'a> {
    owner: Owner,
    name: Name,
    charge: &'a Charge,
}

/// The charges of all plugins, in the order of the chain.
fn asked(Case { call, evaluated }: &Case) -> Vec<Asked<'_>> {
    let mut asked = Vec::new();
    for opinion in &evaluated.opinions {
        let charges = opinion.outcome.as_ref().map_or_else(|_| [].as_slice(), |answer| &answer.charges);
        if charges.is_empty() {
            continue;
        }
        let plugin: Arc<str> = opinion.plugin.as_str().into();
        for charge in charges {
            asked.push(Asked {
                owner: Owner::of(charge.subject, &call.session, call.caller.agent.as_ref()),
                name: Name { plugin: Arc::clone(&plugin), key: Arc::clone(&charge.key), window: charge.window.clone() },
                charge,
            });
        }
    }
    asked
}

/// Why the first charge that does not fit does not.
fn unfit(asked: &[Asked<'_>], counters: &mut Counters, now: Moment) -> Option<Reason> {
    asked.iter().enumerate().find_map(|(place, one)| {
        // Two charges of one call may be for one counter.
        let earlier = asked[..place].iter().filter(|other| other.owner == one.owner && other.name == one.name);
        let pending = earlier.fold(0_u64, |sum, other| sum.saturating_add(other.charge.amount));
        counters
            .check(&one.owner, &one.name, one.charge, pending, now)
            .err()
            .map(|misfit| misfitting(one, &misfit, now))
    })
}

/// Applies every charge of an allowed call, or none. Each was checked; but where there is room for one more counter and the
/// call needs two, each of them alone finds it.
fn apply_all(asked: &[Asked<'_>], counters: &mut Counters, now: Moment) -> Result<Vec<Applied>, Reason> {
    let mark = counters.mark();
    let apply = |one: &Asked<'_>| {
        let applied = counters.apply(&one.owner, one.name.clone(), one.charge, now);
        applied.map_err(|misfit| misfitting(one, &misfit, now))
    };
    let applied: Result<Vec<Applied>, Reason> = asked.iter().map(apply).collect();
    if applied.is_err() {
        counters.roll_back(mark);
    }
    applied
}

fn misfitting(one: &Asked<'_>, misfit: &Misfit, now: Moment) -> Reason {
    match misfit {
        Misfit::Over(over) => over_limit(one, *over, now),
        Misfit::Full => uncounted("there are more counters than there may be"),
        Misfit::NoCalendar => uncounted("the clock is beyond the years that the calendar knows"),
    }
}

fn over_limit(Asked { name, charge, .. }: &Asked<'_>, Over { spent, again_ms }: Over, now: Moment) -> Reason {
    let left = charge.limit.saturating_sub(spent);
    let retry = match again_ms {
        Some(_) => Retry::Later,
        None if left > 0 => Retry::Changed,
        None => Retry::Never,
    };
    let again = again_ms.map_or_else(String::new, |again_ms| {
        let seconds = again_ms.saturating_sub(now.wall_ms).max(0).saturating_add(999) / 1000;
        format!(", more in {:#}", jiff::SignedDuration::from_secs(seconds))
    });
    Reason {
        code: Code::Policy,
        policy_code: Some(charge.code.to_string()),
        message: format!("{}; {left} of {} left{again}", charge.message, charge.limit),
        retry,
        plugin: Some(name.plugin.to_string()),
        rule: Some(Rule::clone(&charge.rule)),
    }
}

fn uncounted(why: &str) -> Reason {
    Reason::of(Code::ChargeUncounted, format!("what this call consumes cannot be counted: {why}"), Retry::Later)
}

/// What a ruling comes to when nothing else has a say.
pub fn decision(ruling: &Ruling) -> Decision {
    match ruling {
        Ruling::Default(ChainDefault::Allow) => Decision::Allowed { plugin: None, rule: None },
        Ruling::Default(ChainDefault::Deny) => Decision::Refused(Reason::of(
            Code::DefaultDeny,
            "no policy allows this call, and the chain's default is deny",
            Retry::Never,
        )),
        Ruling::Default(ChainDefault::Ask) => Decision::Refused(Reason::of(
            Code::AskUnavailable,
            "no policy decides this call and the chain's default is to ask a person, but calls cannot be held for an answer yet",
            Retry::Never,
        )),
        Ruling::Allow { plugin, rule } => Decision::Allowed { plugin: Some(plugin.clone()), rule: rule.clone() },
        Ruling::Deny { plugin, denial, rule } => Decision::Refused(Reason {
            code: Code::Policy,
            policy_code: Some(denial.code.clone()),
            message: denial.message.clone(),
            retry: denial.retry,
            plugin: Some(plugin.clone()),
            rule: rule.clone(),
        }),
        Ruling::Ask { plugin, question, rule } => Decision::Refused(Reason {
            code: Code::AskUnavailable,
            policy_code: Some(question.code.clone()),
            message: format!("{}; calls cannot be held for an answer yet, so it is refused", question.message),
            retry: Retry::Never,
            plugin: Some(plugin.clone()),
            rule: rule.clone(),
        }),
        Ruling::Failed { plugin, failure } => Decision::Refused(from_failure(plugin, failure)),
        Ruling::Unsettled => Decision::Refused(Reason::unsettled()),
    }
}

fn from_failure(plugin: &str, failure: &Failure) -> Reason {
    let retry = match failure {
        Failure::Deadline { .. } | Failure::Overload => Retry::Later,
        Failure::TooLarge { .. } => Retry::Changed,
        Failure::Fuel { .. }
        | Failure::Memory { .. }
        | Failure::Trap(_)
        | Failure::BadAnswer(_)
        | Failure::NotReady(_)
        | Failure::Breaker { .. } => Retry::Never,
    };
    Reason {
        code: failure.code(),
        policy_code: None,
        message: format!("the policy plugin {plugin} could not decide: {failure}"),
        retry,
        plugin: Some(plugin.to_owned()),
        rule: None,
    }
}
