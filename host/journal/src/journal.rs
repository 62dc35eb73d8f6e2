//! The journal of one install, open for writing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use callgate_core::agent::{AgentStep, Agents};
use callgate_core::charge::Owner;
use callgate_core::counters::Name;
use callgate_core::entry::{Draft, Outcome, SessionStartBody};
use callgate_core::identity::{PluginName, SessionId};
use callgate_core::plugin::PluginEntry;
use callgate_core::policy::PolicyChange;
use callgate_core::port::{Case, Clock, Ledger, LedgerFailure, Settlement};
use callgate_core::server::{Registry, ServerStep};
use callgate_core::settle::{self, Forecast};

use crate::agents::{self, AgentsError, Enrolling};
use crate::append::{AppendError, Entries};
use crate::batch::{Batch, Stop};
use crate::calls::{self, Answered, RecordPolicy, Settling};
use crate::error::OpenError;
use crate::install;
use crate::notes::{DroppedNotes, Note, Notes};
use crate::plugins::{self, Plugins, PluginsChanged, PluginsError, Replacing};
use crate::policy::{self, Changing, Policy, PolicyChanged, PolicyError, Swap};
use crate::queue::{Queue, Together};
use crate::servers::{self, Registering, ServersError};
use crate::sessions::{Opening, SessionError};
use crate::store::Head;
use crate::work::{Item, One, Work};
use crate::writer::Writer;

/// How a journal is opened.
pub struct Options {
    /// The database. Made, with its folder, at an install's first start and never again.
    pub database: PathBuf,
    /// The file in the config folder that says whose journal it is. Made together with the database.
    pub install_marker: PathBuf,
    /// How much is kept of the arguments of calls.
    pub record: RecordPolicy,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// This build, so that an older one can say which it takes to read the journal.
    pub build: String,
}

/// The journal of one install. At most one process may have it open for writing at a time; that is the daemon's lock to see
/// to. Every method blocks until it is done, and may be called from any thread.
pub struct Journal {
    shared: Arc<Shared>,
    flusher: Mutex<Option<JoinHandle<()>>>,
    given_up: usize,
}

pub(crate) struct Shared {
    pub(crate) queue: Queue,
    notes: Notes,
    pub(crate) writer: Mutex<Writer>,
    status: Mutex<Status>,
    record: RecordPolicy,
}

/// How a journal is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// What the chain has come to.
    pub head: Head,
    /// The generation in force.
    pub generation: u64,
    /// Why the newest commit failed, if it did.
    pub failure: Option<LedgerFailure>,
}

impl Journal {
    /// Opens the journal, or makes it at an install's first start. Calls that were left open become `outcome.unknown`.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let Options { database, install_marker, record, clock, build } = options;
        let install = install::identify(&database, &install_marker)?;
        let mut writer = Writer::open(database.clone(), install, clock)?;
        let mut given_up = 0;
        writer
            .commit(|batch| {
                batch.connection().execute("UPDATE meta SET build = ?1 WHERE build <> ?1", [&build])?;
                given_up = calls::give_up_open_calls(batch)?;
                Ok(())
            })
            .map_err(|failure| OpenError::first_write(&database, failure))?;
        let committed = writer.committed();
        let status = Status { head: committed.head(), generation: committed.generation, failure: None };
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            notes: Notes::default(),
            writer: Mutex::new(writer),
            status: Mutex::new(status),
            record,
        });
        let flusher = std::thread::Builder::new()
            .name("journal-notes".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.notes.run(|| shared.submit(One::of(Nothing)))
            })
            .map_err(|error| OpenError::io("start a thread for", &database, error))?;
        Ok(Self { shared, flusher: Mutex::new(Some(flusher)), given_up })
    }

    /// Appends entries that stand for themselves, together or not at all, and returns their numbers. They are committed by
    /// then.
    pub fn append(&self, drafts: Vec<Draft>) -> Result<Vec<u64>, AppendError> {
        self.shared.submit(One::of(Entries(drafts)))
    }

    /// Leaves an entry that stands for itself to the next commit that is no decision's, or to one of its own a moment later. It
    /// is lost when the process dies before; one that cannot be written is counted in [`Self::dropped_notes`].
    pub fn note(&self, draft: Draft) {
        self.shared.notes.add(Note::Entry(draft));
    }

    /// Leaves what came back for a call to a later commit, as [`Self::note`] does. `decision` is the entry that allowed the
    /// call, of the same session. An outcome that comes after the call was given up as unknown is written all the same.
    pub fn note_outcome(&self, session: SessionId, decision: u64, outcome: Outcome, took_ms: Option<u64>) {
        self.shared.notes.add(Note::Outcome(Answered { session, decision, outcome, took_ms }));
    }

    /// Writes that a session begins, and returns the entry's number. An id that was used before is refused unless the session
    /// resumes.
    pub fn open_session(&self, start: SessionStartBody) -> Result<u64, SessionError> {
        self.shared.submit(One::of(Opening(start)))
    }

    /// Changes the policy: the table, the generation and one entry a change, in one transaction and all of it or nothing.
    ///
    /// `expected_generation` is that of the policy the caller built the new chain from. `swap` takes the new chain into force;
    /// it runs after the COMMIT and before anything else is settled or anybody is told, so that the chain and the journal's
    /// generation change as one. It runs on whatever thread commits, and must not write to the journal.
    ///
    /// After [`PolicyError::Unwritten`] the changes may have been made all the same, as after every COMMIT whose answer is
    /// lost: a generation in [`Self::status`] that the chain does not have says so, and [`Self::policy`] what to build it from.
    pub fn change_policy(
        &self,
        changes: Vec<PolicyChange>,
        expected_generation: u64,
        swap: Swap,
    ) -> Result<PolicyChanged, PolicyError> {
        self.shared.submit(One::of(Changing { changes, expected_generation, swap: Some(swap) }))
    }

    /// The policy in force.
    pub fn policy(&self) -> Result<Policy, LedgerFailure> {
        lock(&self.shared.writer).read(policy::read)
    }

    /// What would come of a case now: nothing is written, and nothing charged.
    pub fn forecast(&self, case: &Case) -> Result<Forecast, LedgerFailure> {
        let mut writer = lock(&self.shared.writer);
        let (counters, now) = writer.counters()?;
        Ok(settle::forecast(case, now, counters))
    }

    /// What is spent of the counters of each name, by owner, as of the newest commit.
    pub fn spent(&self, names: &[Name]) -> Result<Vec<Vec<(Owner, u64)>>, LedgerFailure> {
        let mut writer = lock(&self.shared.writer);
        let (counters, now) = writer.counters()?;
        Ok(names.iter().map(|name| counters.spent_by_owner(name, now)).collect())
    }

    /// Puts a list of plugins in the place of the one in force: the table, an entry for every step from one to the other, and
    /// one generation more, in one transaction. `renewed` was accepted anew and counts as changed even where it is equal.
    ///
    /// `before` is what the caller built its chain from; the rest is as with [`Self::change_policy`].
    pub fn change_plugins(
        &self,
        before: &Plugins,
        after: Vec<PluginEntry>,
        renewed: Option<&PluginName>,
        swap: Swap,
    ) -> Result<PluginsChanged, PluginsError> {
        let Plugins { generation, entries } = before;
        self.shared.submit(One::of(Replacing::new(entries, after, renewed, *generation, swap)))
    }

    /// The plugins in force.
    pub fn plugins(&self) -> Result<Plugins, LedgerFailure> {
        lock(&self.shared.writer).read(|connection| {
            let generation = policy::generation(connection)?;
            Ok(Plugins { generation, entries: plugins::read(connection)? })
        })
    }

    /// Changes which servers are registered and what credentials they have: the tables and one entry a step, in one
    /// transaction and all of it or nothing. Returns the entries' numbers. The chain of plugins has no part in it.
    pub fn change_servers(&self, steps: Vec<ServerStep>) -> Result<Vec<u64>, ServersError> {
        self.shared.submit(One::of(Registering(steps)))
    }

    /// The registered servers and their credentials.
    pub fn registry(&self) -> Result<Registry, LedgerFailure> {
        lock(&self.shared.writer).read(servers::read)
    }

    /// Changes which agents are enrolled: the table and one entry, in one transaction. Returns the entry's number.
    pub fn change_agents(&self, step: AgentStep) -> Result<u64, AgentsError> {
        self.shared.submit(One::of(Enrolling(step)))
    }

    /// The enrolled agents.
    pub fn agents(&self) -> Result<Agents, LedgerFailure> {
        lock(&self.shared.writer).read(agents::read)
    }

    /// Commits what was noted. Without notes it still proves that the journal is there and can be written.
    pub fn flush(&self) -> Result<(), LedgerFailure> {
        self.shared.submit(One::of(Nothing))
    }

    /// How the journal is, as of the newest commit.
    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }

    /// The notes that never became entries.
    pub fn dropped_notes(&self) -> DroppedNotes {
        self.shared.notes.dropped()
    }

    /// How many calls were found open when the journal was opened, and are now `outcome.unknown`.
    pub const fn given_up_calls(&self) -> usize {
        self.given_up
    }

    /// Commits what was noted, moves everything into the one database file and closes it. Whatever comes later fails. The
    /// same happens, with nobody to tell of a failure, when the journal is dropped.
    pub fn close(&self) -> Result<(), LedgerFailure> {
        self.shared.notes.close();
        let Some(flusher) = lock(&self.flusher).take() else { return Ok(()) };
        let stopped = flusher.join().map_err(|_| LedgerFailure::WriteFailed("the thread for notes failed".to_owned()));
        let committed = self.flush_all();
        let closed = lock(&self.shared.writer).close();
        stopped.and(committed).and(closed)
    }

    fn flush_all(&self) -> Result<(), LedgerFailure> {
        while !self.shared.notes.is_empty() {
            self.flush()?;
        }
        Ok(())
    }

    /// Lets something go wrong once.
    #[cfg(any(test, feature = "faults"))]
    pub fn arm(&self, fault: crate::fault::Fault) {
        lock(&self.shared.writer).faults.arm(fault);
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Ledger for Journal {
    fn settle(&self, cases: Vec<Case>) -> Vec<Result<Settlement, LedgerFailure>> {
        self.shared.submit(Settling::of(cases, self.shared.record.clone()))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close().ok();
    }
}

impl Shared {
    pub(crate) fn submit<W: Work + 'static>(&self, work: W) -> W::Answer {
        self.queue.submit(work, |together| self.commit(&together))
    }

    /// Commits the works of a batch, and with them what was noted before.
    fn commit(&self, together: &Together) -> Result<(), LedgerFailure> {
        let mut notes = self.notes.ride(together.takes_notes());
        let mut writer = lock(&self.writer);
        let result = writer.commit(|batch| {
            notes.write(batch)?;
            together.write(batch)
        });
        let committed = result.is_ok();
        // An entry in a file that nobody will find again must not release a call.
        let result = result.and_then(|()| writer.look());
        let state = writer.committed();
        drop(writer);
        *lock(&self.status) =
            Status { head: state.head(), generation: state.generation, failure: result.as_ref().err().cloned() };
        if committed {
            notes.arrived();
            together.committed();
        }
        result
    }
}

/// Nothing to write: only the commit itself, with the notes that ride in it.
struct Nothing;

impl Item for Nothing {
    type Done = ();
    type Error = LedgerFailure;

    fn entries(&self) -> usize {
        0
    }

    fn write(&self, _: &mut Batch) -> Result<(), Stop<LedgerFailure>> {
        Ok(())
    }
}

/// See [`crate::queue`]: what is guarded here is consistent at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
