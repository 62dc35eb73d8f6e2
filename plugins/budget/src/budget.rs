//! One budget.

use callgate_sdk::matching::ToolPattern;
use callgate_sdk::{CalendarUnit, Charge, Occasion, Rule, Subject, Window};

use crate::amount::AmountArgument;
use crate::{key, pointer};

/// What a budget is about: which calls it counts, how, and for whom. Two budgets about the same would be one counter.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scope {
    /// `None` for every tool.
    pub(crate) tool: Option<ToolPattern>,
    pub(crate) agent: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) subject: Subject,
    pub(crate) window: Window,
    pub(crate) occasion: Occasion,
}

/// A budget that was checked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Budget {
    pub(crate) scope: Scope,
    /// What is counted instead of calls.
    pub(crate) amount: Option<AmountArgument>,
    /// The charge of every call that it fits, but for the amount. Put together once: charges are made on the decision path.
    charge: Charge,
}

impl Budget {
    /// The budget at a place of the settings.
    pub(crate) fn new(place: usize, scope: Scope, amount: Option<AmountArgument>, limit: u64) -> Self {
        let sentence = Sentence { scope: &scope, amount: amount.as_ref(), limit };
        let rule = Rule::new(pointer(place), sentence.text());
        let charge = Charge::new(key::of_budget(&scope, amount.as_ref()), quantity(limit), rule)
            .subject(scope.subject)
            .window(scope.window.clone())
            .refusal(sentence.code(), sentence.refusal());
        let charge = Charge { occasion: scope.occasion, ..charge };
        Self { scope, amount, charge }
    }

    /// The charge of a call that adds so much.
    pub(crate) fn charge(&self, amount: u64) -> Charge {
        self.charge.clone().amount(quantity(amount))
    }

    pub(crate) fn key(&self) -> &str {
        &self.charge.key
    }

    pub(crate) fn rule(&self) -> &Rule {
        &self.charge.rule
    }
}

/// A limit or an amount as the contract has it.
#[expect(clippy::cast_precision_loss, reason = "at most 2^53, which the settings and the amounts are checked for")]
fn quantity(number: u64) -> f64 {
    number as f64
}

/// How a budget is told.
struct Sentence<'a> {
    scope: &'a Scope,
    amount: Option<&'a AmountArgument>,
    limit: u64,
}

impl Sentence<'_> {
    fn code(&self) -> &'static str {
        match (self.amount, &self.scope.window) {
            (Some(_), _) => "cap",
            (None, Window::Lifetime) => "budget",
            (None, Window::Sliding(_) | Window::Calendar(_)) => "rate",
        }
    }

    /// The budget as a person would say it.
    fn text(&self) -> String {
        let who = match (&self.scope.agent, &self.scope.server) {
            (None, None) => String::new(),
            (Some(agent), None) => format!(" (agent {agent})"),
            (None, Some(server)) => format!(" (server {server})"),
            (Some(agent), Some(server)) => format!(" (agent {agent}, server {server})"),
        };
        format!("at most {}{who}", self.quantity())
    }

    /// What is said when a call does not fit. What is left, and when more will be, the host adds.
    fn refusal(&self) -> String {
        let quantity = self.quantity();
        match (self.amount, &self.scope.window) {
            (Some(_), _) => format!("the cap of {quantity} has no room for this call"),
            (None, Window::Lifetime) => format!("the budget of {quantity} is spent"),
            (None, Window::Sliding(_) | Window::Calendar(_)) => format!("the rate of {quantity} is reached"),
        }
    }

    /// How much of what, for whom and in which time.
    fn quantity(&self) -> String {
        let limit = self.limit;
        let attempted = match self.scope.occasion {
            Occasion::Forwarded => "",
            Occasion::Attempted => "attempted ",
        };
        let calls = if limit == 1 && self.amount.is_none() { "call" } else { "calls" };
        let of_tool = self.scope.tool.as_ref().map(|tool| format!(" of {tool}")).unwrap_or_default();
        let what = match self.amount {
            None => format!("{limit} {attempted}{calls}{of_tool}"),
            Some(argument) => format!("{limit} of {} in {attempted}{calls}{of_tool}", argument.name),
        };
        let whom = match self.scope.subject {
            Subject::Session => "a session",
            Subject::Agent => "an agent",
            Subject::Everyone => "for everyone",
        };
        format!("{what} {whom}{}", time(&self.scope.window))
    }
}

fn time(window: &Window) -> String {
    match window {
        Window::Lifetime => String::new(),
        Window::Sliding(ms) => within(ms / MS_PER_SECOND),
        Window::Calendar(calendar) => format!(" each {} in {}", unit(calendar.unit), calendar.zone),
    }
}

pub(crate) const MS_PER_SECOND: u32 = 1_000;

/// A span of time behind what is counted in it.
pub(crate) fn within(seconds: u32) -> String {
    if seconds == 1 { " within 1 second".to_owned() } else { format!(" within {seconds} seconds") }
}

/// A calendar unit's word.
pub(crate) fn unit(unit: CalendarUnit) -> &'static str {
    match unit {
        CalendarUnit::Hour => "hour",
        CalendarUnit::Day => "day",
        CalendarUnit::Week => "week",
        CalendarUnit::Month => "month",
    }
}
