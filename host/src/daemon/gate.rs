//! What the connections decide through: the chain and the journal, and the policy that both are about.

mod agents;
mod changing;
mod imagined;
mod plugins;
mod servers;
mod sessions;
mod usage;

use std::ffi::OsString;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callgate_core::agent::Agents;
use callgate_core::call::Call;
use callgate_core::decide::{self, Verdict, decide};
use callgate_core::entry::{DaemonBody, Draft, Kind, SessionStartBody};
use callgate_core::evaluate::Opinions;
use callgate_core::identity::SessionId;
use callgate_core::port::{Case, Evaluator, LedgerFailure};
use callgate_core::settle::{Decision, Forecast, Word};
use callgate_credentials::Stores;
use callgate_ipc::message::{CallOutcome, CommandReply, Explain, Explained, Fault, Problem, Status};
use callgate_journal::{
    AppendError, DroppedNotes, Journal, OpenError, Options, PluginsError, RecordPolicy, SessionError,
};
use callgate_plugin::{Chain, Configured, Link, OpenBreaker, Switch};

use self::imagined::{imagined, shown};
use self::sessions::Sessions;
use super::clock::SystemClock;
use super::policies::Policies;
use crate::BUILD;
use crate::config::Config;
use crate::home::Home;

/// A journal that could not be opened is tried again when a call needs it, at most this often.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

/// The next step when nothing better is known.
const DAEMON_HINT: &str = "see the daemon's log, or try callgate daemon restart";

/// The gate of one daemon.
pub(super) struct Gate {
    home: Home,
    config: Config,
    /// Where the programs of agents are looked for.
    path: Option<OsString>,
    stores: Stores,
    /// Held while the registered servers change, so that a secret and its entry, and the list for relays, change as one.
    registering: Mutex<()>,
    since: Instant,
    sessions: Sessions,
    state: Mutex<State>,
    opened: Condvar,
}

enum State {
    /// The plugins are being compiled and the journal opened.
    Opening,
    /// Calls are decided.
    Open(Arc<Open>),
    /// There is no journal to write to, so every call is refused.
    Shut { policies: Arc<Policies>, failure: LedgerFailure, hint: String, tried: Instant },
}

struct Open {
    policies: Arc<Policies>,
    journal: Journal,
    switch: Switch,
    /// The enrolments in force.
    agents: Mutex<Arc<Agents>>,
    /// Held while the policy or the enrolments change, so that a change sees the one before it.
    changing: Mutex<()>,
}

impl Open {
    fn agents(&self) -> Arc<Agents> {
        Arc::clone(&lock(&self.agents))
    }

    /// The chain for the policy that is in the journal. A change whose COMMIT was made while its answer was lost is in the
    /// journal and not in force yet: it comes into force here.
    fn chain(&self) -> Arc<Chain> {
        let chain = self.switch.chain();
        if chain.generation() == self.journal.status().generation {
            return chain;
        }
        let _one_at_a_time = lock(&self.changing);
        let current = self.switch.chain();
        match self.journal.policy().and_then(|policy| Ok((policy, self.journal.plugins()?))) {
            Ok((policy, plugins)) if policy.generation != current.generation() => {
                self.switch.set(self.policies.chain(&policy, &plugins.entries, Some(&current)));
            }
            Ok(_) => {}
            // What the chain in force says is not settled then: its generation is not the journal's.
            Err(failure) => log::error!("the policy cannot be read: {failure}"),
        }
        self.switch.chain()
    }
}

impl Evaluator for Open {
    fn opinions(&self, call: &Call) -> Opinions {
        self.chain().opinions(call)
    }
}

impl Gate {
    pub(super) fn new(home: Home, config: Config, path: Option<OsString>, stores: Stores) -> Self {
        Self {
            home,
            config,
            path,
            stores,
            registering: Mutex::new(()),
            since: Instant::now(),
            sessions: Sessions::default(),
            state: Mutex::new(State::Opening),
            opened: Condvar::new(),
        }
    }

    /// Compiles the plugins and opens the journal. Whatever fails leaves a gate that refuses, never one that is open.
    pub(super) fn open(&self) {
        let policies = Arc::new(Policies::load(&self.home, self.config.default));
        let state = self.state_with(policies);
        *self.state() = state;
        self.opened.notify_all();
    }

    /// Waits until the gate has opened, or shut, for at most `patience`.
    pub(super) fn wait_open(&self, patience: Duration) -> bool {
        let opening = |state: &mut State| matches!(state, State::Opening);
        let waited = self.opened.wait_timeout_while(self.state(), patience, opening);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !matches!(*state, State::Opening)
    }

    /// Decides calls that arrived together.
    pub(super) fn decide(&self, calls: Vec<Call>) -> Vec<Verdict> {
        match self.serving() {
            Ok(open) => decide(&*open, &open.journal, calls),
            Err(failure) => calls.iter().map(|_| decide::unwritten(&failure)).collect(),
        }
    }

    /// Journals the start of a session. No call of it may be decided before.
    pub(super) fn begin_session(&self, start: &SessionStartBody) -> Result<(), SessionError> {
        self.serving()?.journal.open_session(start.clone()).map(|_| ())
    }

    /// Journals something a moment later.
    pub(super) fn note(&self, draft: Draft) {
        if let Ok(open) = self.serving() {
            open.journal.note(draft);
        }
    }

    /// Journals an outcome a moment later.
    pub(super) fn note_outcome(&self, session: &SessionId, outcome: &CallOutcome) {
        if let Ok(open) = self.serving() {
            open.journal.note_outcome(session.clone(), outcome.decision, outcome.outcome, outcome.took_ms);
        }
    }

    /// What would be decided of a call that nobody makes: the very evaluation that calls get.
    pub(super) fn explain(&self, question: Explain) -> CommandReply {
        let open = match self.serving() {
            Ok(open) => open,
            Err(failure) => return self.shut(&failure),
        };
        let call = match imagined(question, &open.agents()) {
            Ok(call) => call,
            Err(reply) => return reply,
        };
        let case = Case { evaluated: decide::evaluated(&open.chain().imagined(), &call), call };
        let Forecast { decision, charges } = match open.journal.forecast(&case) {
            Ok(forecast) => forecast,
            Err(failure) => return self.unwritten(&failure),
        };
        let Case { evaluated, call } = case;
        let (verdict, plugin, rule, refusal) = match decision {
            Decision::Allowed { plugin, rule } => (Word::Allow, plugin, rule, None),
            Decision::Refused(reason) => {
                // What the chain allows and a charge refuses is denied.
                let word = evaluated.ruling.word();
                let verdict = if word == Word::Allow { Word::Deny } else { word };
                (verdict, reason.plugin.clone(), reason.rule.clone(), Some(reason))
            }
        };
        CommandReply::Explained(Box::new(Explained {
            verdict,
            refusal,
            plugin,
            rule,
            notes: evaluated.notes,
            opinions: evaluated.opinions.iter().map(shown).collect(),
            charges,
            generation: evaluated.generation,
            agent: call.caller.agent.clone(),
        }))
    }

    /// How the daemon is.
    pub(super) fn status(&self) -> CommandReply {
        let (generation, entries, head, problems) = match self.serving() {
            Ok(open) => {
                let problems = self.problems(&open);
                let journal = open.journal.status();
                (journal.generation, journal.head.entries, journal.head.chain.to_string(), problems)
            }
            Err(failure) => (0, 0, String::new(), self.problems_shut(&failure)),
        };
        CommandReply::Status(Status {
            build: BUILD.to_owned(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            sessions: self.sessions.count(),
            open_sessions: self.sessions.shown(|agent| self.is_enrolled(agent)),
            generation,
            entries,
            head,
            problems,
        })
    }

    /// What is wrong although the journal is open.
    fn problems(&self, open: &Open) -> Vec<Problem> {
        let chain = open.chain();
        let broken = chain.links().iter().flat_map(link_problems);
        let journal = open.journal.status();
        let behind = (chain.generation() != journal.generation).then(|| {
            let (chain, journal) = (chain.generation(), journal.generation);
            problem(
                format!("every call is refused: the policy is of generation {journal} and the one in force of {chain}"),
                DAEMON_HINT,
            )
        });
        let failure = journal.failure.map(|failure| problem(failure.to_string(), self.hint(&failure)));
        let DroppedNotes { no_room, refused } = open.journal.dropped_notes();
        let dropped = (no_room + refused > 0).then(|| {
            problem(
                format!(
                    "outcomes and oddities that are not in the journal: {no_room} found no room, {refused} did not belong"
                ),
                DAEMON_HINT,
            )
        });
        broken.chain(behind).chain(failure).chain(dropped).collect()
    }

    /// What is wrong when it is not.
    fn problems_shut(&self, failure: &LedgerFailure) -> Vec<Problem> {
        let (hint, plugins) = match &*self.state() {
            State::Shut { hint, policies, .. } => (hint.clone(), policies.problems().collect()),
            // It has opened meanwhile, or is about to.
            State::Opening | State::Open(_) => (self.hint(failure), Vec::new()),
        };
        std::iter::once(problem(failure.to_string(), hint)).chain(plugins).collect()
    }

    /// Journals the end and closes the journal.
    pub(super) fn close(&self) {
        let Ok(open) = self.serving() else { return };
        let stop = Draft::of(Kind::DaemonStop, &self.daemon_body(&open.journal));
        if let Err(error) = open.journal.append(vec![stop]) {
            log::error!("the end of the daemon is not in the journal: {error}");
        }
        if let Err(failure) = open.journal.close() {
            log::error!("the journal was not closed in good order: {failure}");
        }
    }

    /// The open gate. One that is shut is tried again first, now and then.
    fn serving(&self) -> Result<Arc<Open>, LedgerFailure> {
        let mut state = self.state();
        if let State::Shut { policies, tried, .. } = &*state
            && tried.elapsed() >= REOPEN_EVERY
        {
            let policies = Arc::clone(policies);
            *state = self.state_with(policies);
        }
        match &*state {
            State::Open(open) => Ok(Arc::clone(open)),
            State::Shut { failure, .. } => Err(failure.clone()),
            State::Opening => Err(LedgerFailure::WriteFailed("the daemon is still starting".to_owned())),
        }
    }

    fn state_with(&self, policies: Arc<Policies>) -> State {
        match self.open_journal(&policies) {
            Ok(open) => State::Open(Arc::new(open)),
            Err(Unopened { failure, hint }) => {
                let hint = hint.unwrap_or_else(|| self.hint(&failure));
                log::error!("every call is refused: {}", problem(failure.to_string(), &*hint));
                State::Shut { policies, failure, hint, tried: Instant::now() }
            }
        }
    }

    fn open_journal(&self, policies: &Arc<Policies>) -> Result<Open, Unopened> {
        let journal = Journal::open(Options {
            database: self.home.database(),
            install_marker: self.home.install_marker(),
            record: RecordPolicy { default: self.config.record },
            clock: Arc::new(SystemClock),
            build: BUILD.to_owned(),
        })?;
        // What a person changed in the file since the last daemon is journaled before it is in force.
        journal.change_plugins(&journal.plugins()?, self.config.plugins.clone(), None, Box::new(|_| ()))?;
        self.tell_relays(&journal.registry()?);
        let switch = Switch::new(policies.chain(&journal.policy()?, &self.config.plugins, None));
        journal.append(vec![Draft::of(Kind::DaemonStart, &self.daemon_body(&journal))])?;
        let agents = Mutex::new(Arc::new(journal.agents()?));
        Ok(Open { policies: Arc::clone(policies), journal, switch, agents, changing: Mutex::new(()) })
    }

    fn daemon_body(&self, journal: &Journal) -> DaemonBody {
        DaemonBody {
            build: BUILD.to_owned(),
            pid: std::process::id(),
            generation: journal.status().generation,
            config: self.config.digest,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn shut(&self, failure: &LedgerFailure) -> CommandReply {
        let hint = match &*self.state() {
            State::Shut { hint, .. } => hint.clone(),
            State::Opening | State::Open(_) => self.hint(failure),
        };
        environment(failure, hint)
    }

    fn unwritten(&self, failure: &LedgerFailure) -> CommandReply {
        environment(failure, self.hint(failure))
    }

    /// The next step after a failure of the open journal.
    fn hint(&self, failure: &LedgerFailure) -> String {
        let database = self.home.database();
        match failure {
            LedgerFailure::Full => format!("free some space on the disk that holds {}", database.display()),
            LedgerFailure::Foreign(_) => {
                format!("put this install's own journal back at {}, then callgate daemon restart", database.display())
            }
            LedgerFailure::WriteFailed(_) => DAEMON_HINT.to_owned(),
            LedgerFailure::Overload => "try again".to_owned(),
        }
    }
}

/// What is wrong with a plugin of the chain.
fn link_problems(link: &Link) -> Vec<Problem> {
    let name = &link.member().plugin;
    let broken = link.why_broken().map(|why| {
        let hint = format!("see callgate plugin show {name} and the daemon's log");
        problem(format!("every call is refused: the plugin {name} is not ready: {why}"), hint)
    });
    let breakers = link.plugin().map(Configured::open_breakers).unwrap_or_default();
    let breakers = breakers.into_iter().map(|OpenBreaker { agent, last, denied }| {
        let whose = agent.map_or_else(|| "agents that are not established".to_owned(), |agent| agent.name.to_string());
        problem(
            format!("the plugin {name} is not asked about calls of {whose} any more ({denied} denied): {last}"),
            format!("callgate plugin reset {name}"),
        )
    });
    broken.into_iter().chain(breakers).collect()
}

fn problem(problem: String, hint: impl Into<String>) -> Problem {
    Problem { problem, hint: hint.into() }
}

/// Why the gate is shut.
struct Unopened {
    failure: LedgerFailure,
    hint: Option<String>,
}

impl From<OpenError> for Unopened {
    fn from(error: OpenError) -> Self {
        Self { failure: error.ledger_failure(), hint: Some(error.hint()) }
    }
}

impl From<AppendError> for Unopened {
    fn from(error: AppendError) -> Self {
        Self::from(LedgerFailure::WriteFailed(error.to_string()))
    }
}

impl From<PluginsError> for Unopened {
    fn from(error: PluginsError) -> Self {
        match error {
            PluginsError::Unwritten(failure) => Self::from(failure),
            PluginsError::Stale { .. } => Self::from(LedgerFailure::WriteFailed(error.to_string())),
        }
    }
}

impl From<LedgerFailure> for Unopened {
    fn from(failure: LedgerFailure) -> Self {
        Self { failure, hint: None }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the mutexes here guard is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an id is made of.
fn random_bits() -> Result<[u8; 16], CommandReply> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| CommandReply::Failed {
        message: format!("no randomness to be had: {error}"),
        hint: None,
        fault: Fault::Environment,
    })?;
    Ok(bits)
}

fn request(message: String, hint: Option<String>) -> CommandReply {
    CommandReply::Failed { message, hint, fault: Fault::Request }
}

fn environment(failure: &LedgerFailure, hint: String) -> CommandReply {
    CommandReply::Failed { message: failure.to_string(), hint: Some(hint), fault: Fault::Environment }
}

#[cfg(test)]
pub(super) mod tests;
