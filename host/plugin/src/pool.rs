//! How long instances live: kept between calls, or made ahead of each call and thrown away after it.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use callgate_core::call::Call;
use callgate_core::verdict::{Answer, Failure};

use crate::instance::{Instance, Said, Stillborn, Unconfigured};
use crate::load::Loaded;
use crate::memo::Memo;
use crate::settings::SettingsWarning;

/// How long an instance lives. A plugin is a pure function of its settings and the call, so it answers the same either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Kept between calls, until it fails, and so are answers that hold whatever the arguments. For plugins that are trusted to
    /// forget one call before the next.
    Kept {
        /// How many are kept; one a core is as many as can be at work. The first is made at once, others when calls meet. At least
        /// one.
        instances: usize,
    },
    /// A fresh, already configured instance for each call, made ahead of time; when none is ready, one is made for the call.
    Fresh {
        /// How many wait ready.
        ready: usize,
    },
}

/// How many calls may wait for an instance of one plugin: as many as the daemon serves connections.
const WAITING_MAX: usize = 1024;

/// How much a kept instance's memory may grow before it is replaced: memory never shrinks, so one large call would be paid
/// for ever, and a plugin that leaks would one day meet its limit in the middle of a decision.
const GROWTH_BYTES_MAX: usize = 4 << 20;

/// How many jobs may wait for the maker; over it, callers help themselves.
const JOBS_MAX: usize = 64;

/// The configured instances of one plugin.
pub(crate) struct Pool {
    pub(crate) name: String,
    plugin: Arc<Loaded>,
    settings: String,
    life: Life,
    /// Of kept instances only: what a fresh one says must not reach another call.
    memo: Option<Memo>,
    shelf: Mutex<Shelf>,
    changed: Condvar,
}

#[derive(Default)]
struct Shelf {
    /// Configured and idle. The last one in is the first one out: its memory is the warmest.
    ready: Vec<Instance>,
    /// How many there are, those at work and in the making included. Counted for kept ones only.
    alive: usize,
    /// Calls that wait for one.
    waiting: usize,
    /// The maker was asked for one.
    ordered: bool,
}

impl Pool {
    /// A pool with its first instance, and what the plugin said of its settings.
    pub(crate) fn new(
        plugin: Arc<Loaded>,
        name: String,
        settings: String,
        life: Life,
    ) -> Result<(Arc<Self>, Vec<SettingsWarning>), Unconfigured> {
        let (instance, warnings) = configured(&plugin, &name, &settings)?;
        let shelf = Shelf { ready: vec![instance], alive: 1, ..Shelf::default() };
        let memo = match life {
            Life::Kept { .. } => Some(Memo::default()),
            Life::Fresh { .. } => None,
        };
        let (shelf, changed) = (Mutex::new(shelf), Condvar::new());
        let pool = Arc::new(Self { name, plugin, settings, life, memo, shelf, changed });
        if matches!(life, Life::Fresh { ready } if ready > 1) {
            pool.order(None);
        }
        Ok((pool, warnings))
    }

    /// What the plugin says of one call: given again where an answer is kept that holds for it, else asked for.
    pub(crate) fn decide(self: &Arc<Self>, call: &Call) -> Result<Answer, Failure> {
        self.can_judge(call)?;
        if let Some(answer) = self.memo.as_ref().and_then(|memo| memo.recall(call)) {
            return Ok(answer);
        }
        let Said { answer, holds_for_any_arguments } = self.ask(call)?;
        if let Some(memo) = self.memo.as_ref().filter(|_| holds_for_any_arguments) {
            memo.keep(call, &answer);
        }
        Ok(answer)
    }

    /// Asks one instance about one call, whatever was said before.
    pub(crate) fn ask(self: &Arc<Self>, call: &Call) -> Result<Said, Failure> {
        self.can_judge(call)?;
        let mut taken = Taken { pool: self, instance: Some(self.take()?) };
        let said =
            taken.instance.as_mut().expect("it was put there just now").decide(&self.plugin, &self.name, call)?;
        taken.give_back();
        Ok(said)
    }

    /// Asks a fresh instance about one call; what it says, and how much fuel that took.
    pub(crate) fn measure(&self, call: &Call) -> (Result<Answer, Failure>, u64) {
        match self.can_judge(call).and_then(|()| self.make()) {
            Ok(mut instance) => {
                let outcome = instance.decide(&self.plugin, &self.name, call).map(|said| said.answer);
                (outcome, self.plugin.limits.fuel.saturating_sub(instance.fuel_left()))
            }
            Err(failure) => (Err(failure), 0),
        }
    }

    fn can_judge(&self, call: &Call) -> Result<(), Failure> {
        let (bytes, limit_bytes) = (call.arguments.text().len() as u64, self.plugin.limits.argument_bytes as u64);
        if bytes > limit_bytes { Err(Failure::TooLarge { bytes, limit_bytes }) } else { Ok(()) }
    }

    fn take(self: &Arc<Self>) -> Result<Instance, Failure> {
        match self.life {
            Life::Kept { instances } => self.take_kept(instances.max(1)),
            Life::Fresh { .. } => {
                let ready = self.lock().ready.pop();
                ready.map_or_else(|| self.make(), Ok)
            }
        }
    }

    fn take_kept(self: &Arc<Self>, instances: usize) -> Result<Instance, Failure> {
        let mut shelf = self.lock();
        let mut end = None;
        loop {
            if let Some(instance) = shelf.ready.pop() {
                return Ok(instance);
            }
            let end = *end.get_or_insert_with(|| Instant::now() + self.patience());
            let left = end.saturating_duration_since(Instant::now());
            // Nothing will come back that could be waited for; or all are at work for as long as one may be, as an agent's calls
            // that run into their deadline keep them, and that is no reason to refuse another's.
            if shelf.alive == 0 || left.is_zero() {
                shelf.alive += 1;
                drop(shelf);
                return self.make().inspect_err(|_| self.one_less());
            }
            if shelf.alive < instances && !shelf.ordered {
                // Waiting for one that is at work takes microseconds, making one may take milliseconds: it is made on
                // another thread, and whichever is ready first is taken.
                shelf.ordered = self.order(None);
            }
            if shelf.waiting >= WAITING_MAX {
                return Err(Failure::Overload);
            }
            shelf.waiting += 1;
            (shelf, _) = self.changed.wait_timeout(shelf, left).unwrap_or_else(PoisonError::into_inner);
            shelf.waiting -= 1;
        }
    }

    /// How long a call waits for a kept instance: as long as the one before it may take.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.plugin.limits.deadline_ms.into())
    }

    fn give_back(self: &Arc<Self>, instance: Instance) {
        match self.life {
            Life::Kept { instances } if instance.growth_bytes() <= GROWTH_BYTES_MAX && self.has_room(instances) => {
                self.shelve(instance);
            }
            Life::Kept { .. } | Life::Fresh { .. } => self.discard(instance),
        }
    }

    /// Whether there are no more than there should be.
    fn has_room(&self, instances: usize) -> bool {
        self.lock().alive <= instances.max(1)
    }

    fn shelve(&self, instance: Instance) {
        let mut shelf = self.lock();
        shelf.ready.push(instance);
        if shelf.waiting > 0 {
            self.changed.notify_one();
        }
    }

    /// Throws an instance away, and sees to the next: both off the way of the call.
    fn discard(self: &Arc<Self>, instance: Instance) {
        self.one_less();
        self.order(Some(instance));
    }

    fn one_less(&self) {
        if matches!(self.life, Life::Kept { .. }) {
            self.lock().alive -= 1;
            self.changed.notify_all();
        }
    }

    /// Whether the maker took the order.
    fn order(self: &Arc<Self>, spent: Option<Instance>) -> bool {
        self.plugin.shared.maker.order(Job { pool: Arc::downgrade(self), spent: spent.map(Box::new) })
    }

    /// On the maker's thread: makes what is missing.
    fn stock(&self) {
        while self.begin_one() {
            let Ok(instance) = self.make() else {
                // The next call meets the cause itself.
                self.one_less();
                return;
            };
            self.shelve(instance);
        }
    }

    fn begin_one(&self) -> bool {
        let mut shelf = self.lock();
        shelf.ordered = false;
        let missing = match self.life {
            Life::Kept { instances } => {
                let wanted = shelf.alive == 0 || (shelf.waiting > 0 && shelf.ready.is_empty());
                wanted && shelf.alive < instances.max(1)
            }
            Life::Fresh { ready } => shelf.ready.len() < ready,
        };
        shelf.alive += usize::from(missing);
        missing
    }

    fn make(&self) -> Result<Instance, Failure> {
        match configured(&self.plugin, &self.name, &self.settings) {
            Ok((instance, _)) => Ok(instance),
            Err(Unconfigured::Failed(failure)) => Err(failure),
            // It took the same settings before, so it is no pure function of them.
            Err(Unconfigured::Refused(refused)) => Err(Failure::NotReady(refused.to_string())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn configured(plugin: &Loaded, name: &str, settings: &str) -> Result<(Instance, Vec<SettingsWarning>), Unconfigured> {
    let mut instance = Instance::new(plugin, name).map_err(|stillborn| match stillborn {
        Stillborn::Failed(failure) => Unconfigured::Failed(failure),
        Stillborn::Misfit(misfit) => Unconfigured::Failed(Failure::NotReady(misfit.cause)),
    })?;
    let warnings = instance.configure(plugin, name, settings)?;
    Ok((instance, warnings))
}

/// An instance at work. Dropped without being given back, after a failure or a panic, it is thrown away: the engine would
/// refuse to enter it again, and a half-done call may have left anything in it.
struct Taken<'a> {
    pool: &'a Arc<Pool>,
    instance: Option<Instance>,
}

impl Taken<'_> {
    fn give_back(mut self) {
        if let Some(instance) = self.instance.take() {
            self.pool.give_back(instance);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(instance) = self.instance.take() {
            self.pool.discard(instance);
        }
    }
}

/// The thread that makes instances ahead of time and tears spent ones down. It sleeps while there is nothing to do.
pub(crate) struct Maker {
    jobs: SyncSender<Job>,
}

struct Job {
    pool: Weak<Pool>,
    spent: Option<Box<Instance>>,
}

impl Maker {
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, work) = mpsc::sync_channel(JOBS_MAX);
        thread::Builder::new().name("callgate-maker".to_owned()).spawn(move || serve(&work))?;
        Ok(Self { jobs })
    }

    /// Whether there was room for it. Where there is none, a spent instance is torn down here and now.
    fn order(&self, job: Job) -> bool {
        match self.jobs.try_send(job) {
            Ok(()) => true,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                drop(job);
                false
            }
        }
    }
}

/// Ends when the engine, which holds the other end, is gone.
fn serve(work: &Receiver<Job>) {
    while let Ok(Job { pool, spent }) = work.recv() {
        // First, so that its slot in the pool can be had again.
        drop(spent);
        if let Some(pool) = pool.upgrade() {
            pool.stock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use callgate_core::digest::Digest;
    use callgate_core::identity::{Agent, Caller, Server, SessionId};
    use callgate_core::permit::Binding;

    use super::*;
    use crate::engine::Engine;
    use crate::limits::Limits;
    use crate::log::{LogBatch, LogSink};

    struct Silence;

    impl LogSink for Silence {
        fn take(&self, _: LogBatch<'_>) {}
    }

    fn call(agent: &str) -> Call {
        let agent = Agent { id: format!("agt_{agent}"), name: agent.parse().unwrap(), evidence: "declared".to_owned() };
        let server = Server { id: String::new(), name: "fs".parse().unwrap() };
        let caller = Caller { agent: Some(agent), client: String::new(), server, attributes: Vec::new() };
        Call {
            binding: Binding { connection: 1, sequence: 1, frame: Digest::of(b"frame") },
            session: SessionId::from_random([1; 16]),
            request_id: "1".to_owned(),
            caller: Arc::new(caller),
            tool: "read_file".to_owned(),
            listed: None,
            arguments: r#"{"path":"/tmp","n":1}"#.into(),
        }
    }

    #[test]
    fn the_shipped_components_look_at_arguments_only_where_they_have_to() {
        let limits = Limits { deadline_ms: 60_000, configure_deadline_ms: 60_000, ..Limits::SHIPPED };
        let engine = Engine::new(limits, None, Arc::new(Silence)).unwrap();
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist");
        let plain = r#"{"budgets":[{"limit":9,"all_tools":true}]}"#;
        let cap =
            r#"{"budgets":[{"limit":9,"all_tools":true},{"limit":9,"tool":"read_file","amount":{"argument":"n"}}]}"#;
        let loops = r#"{"loops":{"times":3,"seconds":10}}"#;
        let grant = r#"{"grants":[{"agent":"zed","server":"fs","tool":"*","args":{"path":"/**"}},
            {"agent":"cursor","server":"fs","tool":"*"}]}"#;
        for (name, settings, agent, expected) in [
            ("rules", r#"{"rules":[{"effect":"ask","tool":"read_*"}]}"#, "cursor", true),
            ("budget", plain, "cursor", true),
            ("budget", cap, "cursor", false),
            ("budget", loops, "cursor", false),
            ("arguments", grant, "cursor", true),
            ("arguments", grant, "other", true),
            ("arguments", grant, "zed", false),
        ] {
            let component = std::fs::read(dist.join(name).with_extension("wasm")).unwrap();
            let loaded = engine.load(&component).unwrap().0;
            let (pool, _) = Pool::new(loaded, name.to_owned(), settings.to_owned(), Life::Fresh { ready: 0 }).unwrap();
            let said = pool.ask(&call(agent)).unwrap();
            assert_eq!(
                said.holds_for_any_arguments, expected,
                "{name} of {settings}, asked by {agent}: {:?}",
                said.answer
            );
        }
    }
}
