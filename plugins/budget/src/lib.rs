//! The default plugin `budget`: how much may be called, as charges that the host counts.
//!
//! It narrows and never grants: every answer abstains, but where an amount that a spending cap counts cannot be read. Each
//! budget that fits a call is one charge, and so is loop detection where it is on.
#![forbid(unsafe_code)]

mod amount;
mod budget;
mod crowd;
mod index;
mod key;
mod loops;
mod settings;

pub use settings::{BUDGETS_MAX, Settings};

use callgate_sdk::arguments::Arguments;
use callgate_sdk::{Call, Decision, Pointer, Policy, Retry, SettingsErrors, SettingsWarning, Verdict};

use amount::Amount;
use budget::Budget;
use index::Index;
use loops::Loops;

/// The budgets in force.
#[derive(Debug)]
pub struct Budgets {
    budgets: Vec<Budget>,
    index: Index,
    loops: Option<Loops>,
}

impl Policy for Budgets {
    type Settings = Settings;

    fn configure(settings: Settings, _: &mut Vec<SettingsWarning>) -> Result<Self, SettingsErrors> {
        let (budgets, loops) = settings.check()?;
        let index = Index::new(&budgets);
        Ok(Self { budgets, index, loops })
    }

    fn decide(&self, call: &Call) -> Decision {
        let agent = call.caller.agent.as_ref().map(|agent| agent.name.as_str());
        let mut decision = Decision::abstain();
        let mut arguments = None;
        for place in self.index.fitting(&call.tool.name, agent, &call.caller.server.name) {
            let budget = &self.budgets[place];
            let Some(name) = &budget.amount else {
                decision.charges.push(budget.charge(1));
                continue;
            };
            // Read once, and only where an amount is in them.
            let arguments = arguments.get_or_insert_with(|| Arguments::read(call.arguments_json()));
            match name.read(arguments.as_ref()) {
                Amount::None => {}
                Amount::Some(amount) => decision.charges.push(budget.charge(amount)),
                // What was charged so far stays: the host counts attempts all the same.
                Amount::Unreadable(fault) => refuse(&mut decision, budget, name.refusal(fault)),
            }
        }
        decision.charges.extend(self.loops.as_ref().map(|loops| loops.charge(call)));
        decision
    }
}

/// Makes it a denial, unless an earlier budget did.
fn refuse(decision: &mut Decision, budget: &Budget, message: String) {
    if decision.verdict == Verdict::Abstain {
        let denial = Decision::deny("amount", message).retry(Retry::Changed).rule(budget.rule().clone());
        (decision.verdict, decision.rule) = (denial.verdict, denial.rule);
    }
}

/// Where a budget stands in the settings.
fn pointer(place: usize) -> Pointer {
    Pointer::root().key("budgets").index(place)
}

callgate_sdk::export! {
    policy: Budgets,
    id: "budget",
    settings: "settings.schema.json",
}
