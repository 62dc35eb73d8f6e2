//! Group commit without a thread of its own: whoever comes while nobody writes, writes, for itself and for everyone who
//! waits by then. A lone caller commits on its own thread; many callers share their commits, with no delay added.
//!
//! Nobody leads twice in a row while others wait, and nobody is left waiting: a leader that unwinds fails its batch and
//! hands over like any other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use callgate_core::port::LedgerFailure;

use crate::batch::{Batch, Lost};
use crate::work::Work;

/// How many items may wait. More of them mean that the disk does not keep up, and the last of this many would wait for
/// longer than a relay waits for a decision.
pub const WAITING_ITEMS_MAX: usize = 1024;
/// How many items a commit takes on, so that the first of them does not wait for an endless stream of others. The items of
/// one caller are never split.
pub const BATCH_ITEMS_MAX: usize = 512;

/// The works of one commit.
pub(crate) struct Together<'a>(&'a [Arc<dyn Waiting>]);

impl Together<'_> {
    /// Writes all of them, in the order in which they came.
    pub(crate) fn write(&self, batch: &mut Batch) -> Result<(), Lost> {
        self.0.iter().try_for_each(|waiting| waiting.write(batch))
    }

    /// Whether what was noted goes into this commit.
    pub(crate) fn takes_notes(&self) -> bool {
        self.0.iter().any(|waiting| waiting.takes_notes())
    }

    /// Tells all of them that they are committed.
    pub(crate) fn committed(&self) {
        self.0.iter().for_each(|waiting| waiting.committed());
    }
}

/// Who waits, and whether somebody writes.
#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Whether somebody leads. While nobody does, nobody waits.
    led: bool,
    waiting: VecDeque<Arc<dyn Waiting>>,
    /// How many items wait.
    items: usize,
}

impl Queue {
    /// Gets `work` written and returns what became of it. `commit` writes the works of a batch in one transaction and tells
    /// them when it is committed; it runs on the thread of whoever leads.
    pub(crate) fn submit<W: Work + 'static>(
        &self,
        work: W,
        commit: impl FnOnce(Together) -> Result<(), LedgerFailure>,
    ) -> W::Answer {
        let member = Arc::new(Member { work: Mutex::new(work), turn: Mutex::new(Turn::Wait), told: Condvar::new() });
        let leads = match self.join(Arc::clone(&member) as Arc<dyn Waiting>) {
            Joined::Leads => true,
            Joined::Follows => member.wait() == Turn::Lead,
            Joined::NoRoom => {
                member.fail(&LedgerFailure::Overload);
                false
            }
        };
        if leads {
            self.lead(commit);
        }
        lock(&member.work).answer()
    }

    #[cfg(test)]
    pub(crate) fn waiting_items(&self) -> usize {
        lock(&self.inner).items
    }

    fn join(&self, member: Arc<dyn Waiting>) -> Joined {
        let items = member.items();
        let mut inner = lock(&self.inner);
        if inner.items.saturating_add(items) > WAITING_ITEMS_MAX {
            return Joined::NoRoom;
        }
        inner.items += items;
        inner.waiting.push_back(member);
        if std::mem::replace(&mut inner.led, true) { Joined::Follows } else { Joined::Leads }
    }

    /// Writes the first batch of the queue; the leader's own work is at its front.
    fn lead(&self, commit: impl FnOnce(Together) -> Result<(), LedgerFailure>) {
        let mut leading = Leading { queue: self, batch: self.take_batch(), settled: false };
        let result = commit(Together(&leading.batch));
        if let Err(failure) = &result {
            leading.batch.iter().for_each(|member| member.fail(failure));
        }
        leading.settled = true;
    }

    fn take_batch(&self) -> Vec<Arc<dyn Waiting>> {
        let mut inner = lock(&self.inner);
        let mut batch: Vec<Arc<dyn Waiting>> = Vec::new();
        let mut items = 0;
        while let Some(next) = inner.waiting.front() {
            let more = next.items();
            if !batch.is_empty() && items + more > BATCH_ITEMS_MAX {
                break;
            }
            items += more;
            batch.extend(inner.waiting.pop_front());
        }
        inner.items -= items;
        batch
    }

    fn hand_over(&self) {
        let mut inner = lock(&self.inner);
        match inner.waiting.front() {
            Some(next) => next.tell(Turn::Lead),
            None => inner.led = false,
        }
    }
}

enum Joined {
    Leads,
    Follows,
    NoRoom,
}

/// A batch being written. Dropping it, in good order or by unwinding, passes the lead on and tells everyone.
struct Leading<'a> {
    queue: &'a Queue,
    batch: Vec<Arc<dyn Waiting>>,
    settled: bool,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let failure = LedgerFailure::WriteFailed("the thread that wrote it failed".to_owned());
            self.batch.iter().for_each(|member| member.fail(&failure));
        }
        // The next batch is begun before this one's callers are woken: there may be hundreds of them.
        self.queue.hand_over();
        // The first of them leads, and waits for nobody.
        self.batch.iter().skip(1).for_each(|member| member.tell(Turn::Done));
    }
}

/// What a waiting thread is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Wait,
    Lead,
    Done,
}

/// A caller that waits, and its work.
struct Member<W> {
    work: Mutex<W>,
    turn: Mutex<Turn>,
    told: Condvar,
}

/// A member whose work is of some kind.
trait Waiting: Send + Sync {
    fn items(&self) -> usize;
    fn takes_notes(&self) -> bool;
    fn write(&self, batch: &mut Batch) -> Result<(), Lost>;
    fn committed(&self);
    fn fail(&self, failure: &LedgerFailure);
    fn tell(&self, turn: Turn);
}

impl<W: Work> Waiting for Member<W> {
    fn items(&self) -> usize {
        lock(&self.work).items()
    }

    fn takes_notes(&self) -> bool {
        lock(&self.work).takes_notes()
    }

    fn write(&self, batch: &mut Batch) -> Result<(), Lost> {
        lock(&self.work).write(batch)
    }

    fn committed(&self) {
        lock(&self.work).committed();
    }

    fn fail(&self, failure: &LedgerFailure) {
        lock(&self.work).fail(failure);
    }

    fn tell(&self, turn: Turn) {
        *lock(&self.turn) = turn;
        self.told.notify_one();
    }
}

impl<W> Member<W> {
    fn wait(&self) -> Turn {
        let turn = lock(&self.turn);
        *self.told.wait_while(turn, |turn| *turn == Turn::Wait).unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that a thread unwound out of is taken all the same: what it guards is either consistent at every moment, or its
/// `Leading` fails the batch.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
