//! Building answers.

use crate::{Charge, Denial, Occasion, Pointer, Question, Retry, Rule, Subject, Verdict, Window};

/// A policy's whole answer to one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// What it says.
    pub verdict: Verdict,
    /// The rule that gave the verdict; `None` when nothing in the settings spoke.
    pub rule: Option<Rule>,
    /// What else a person should know.
    pub notes: Vec<String>,
    /// What the call consumes.
    pub charges: Vec<Charge>,
}

impl Decision {
    /// Yes, as far as this plugin is concerned. Counts only where the operator lets the instance grant.
    pub fn allow() -> Self {
        Self::of(Verdict::Allow)
    }

    /// Nothing to say.
    pub fn abstain() -> Self {
        Self::of(Verdict::Abstain)
    }

    /// No. The code is stable and kebab-case, the message one sentence for the agent: lower-case, no full stop, no secret.
    /// The agent is told that the same call will always be refused; [`retry`](Self::retry) says otherwise.
    pub fn deny(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(Verdict::Deny(Denial { code: code.into(), message: message.into(), retry: Retry::Never }))
    }

    /// A person decides. The code is stable and kebab-case, the message one sentence for that person.
    pub fn ask(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(Verdict::Ask(Question { code: code.into(), message: message.into(), presence: false }))
    }

    fn of(verdict: Verdict) -> Self {
        Self { verdict, rule: None, notes: Vec::new(), charges: Vec::new() }
    }

    /// Names the rule that gave the verdict.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Adds what else a person should know. Journaled and explained; never sent to the agent.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds what the call consumes.
    #[must_use]
    pub fn charge(mut self, charge: Charge) -> Self {
        self.charges.push(charge);
        self
    }

    /// Says whether trying again can help. Only a denial has a use for it.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        if let Verdict::Deny(denial) = &mut self.verdict {
            denial.retry = retry;
        }
        self
    }

    /// Demands that whoever answers proves their presence. Only a question has a use for it.
    #[must_use]
    pub fn presence(mut self) -> Self {
        if let Verdict::Ask(question) = &mut self.verdict {
            question.presence = true;
        }
        self
    }
}

impl Rule {
    /// A rule of the settings: where it stands and how a person would say it.
    pub fn new(path: Pointer, text: impl Into<String>) -> Self {
        Self { path: path.into(), policy: None, text: text.into() }
    }

    /// Names the set it belongs to.
    #[must_use]
    pub fn policy(mut self, name: impl Into<String>) -> Self {
        self.policy = Some(name.into());
        self
    }
}

impl Charge {
    /// One call that goes through, against a limit on its session. The other methods make it something else; derive the key
    /// from what the limit is about, never from its position in the settings.
    ///
    /// ```
    /// use callgate_sdk::{Charge, Decision, Pointer, Rule, Subject, Window};
    ///
    /// let rule = Rule::new(Pointer::root().key("limits").index(0), "20 calls a minute");
    /// let charge = Charge::new("calls-60000", 20.0, rule)
    ///     .subject(Subject::Agent)
    ///     .window(Window::Sliding(60_000))
    ///     .refusal("rate", "20 calls a minute are spent");
    /// let decision = Decision::abstain().charge(charge);
    /// assert_eq!(decision.charges[0].amount, 1.0);
    /// ```
    pub fn new(key: impl Into<String>, limit: f64, rule: Rule) -> Self {
        Self {
            key: key.into(),
            subject: Subject::Session,
            window: Window::Lifetime,
            occasion: Occasion::Forwarded,
            amount: 1.0,
            limit,
            message: format!("the limit `{}` is reached", rule.text),
            rule,
            code: "limit".to_owned(),
        }
    }

    /// Whose counter it is.
    #[must_use]
    pub fn subject(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// How far back the counter remembers.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// Counts refused calls too.
    #[must_use]
    pub fn attempted(mut self) -> Self {
        self.occasion = Occasion::Attempted;
        self
    }

    /// What this call adds: a whole number from 0 to 2^53.
    #[must_use]
    pub fn amount(mut self, amount: f64) -> Self {
        self.amount = amount;
        self
    }

    /// What is said when it does not fit.
    #[must_use]
    pub fn refusal(mut self, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.code = code.into();
        self.message = message.into();
        self
    }
}
