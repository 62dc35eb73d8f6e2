//! What nobody waits for: entries that ride in the next commit that is no decision's, or get one of their own a moment later.
//!
//! A crash may lose what was noted within that moment, never what a call was released for. Never blocks whoever notes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callgate_core::entry::Draft;
use callgate_core::port::LedgerFailure;

use crate::append::{self, AppendError};
use crate::batch::{Batch, Failure, Lost, Stop};
use crate::calls::{self, Answered, NotAwaited};

/// How many notes wait, and how many bytes they have in all. Beyond either they are dropped and counted: an outcome that is
/// lost reads as pending, and a flood of odd frames must not fill the memory.
pub const NOTES_MAX: usize = 4096;
/// See [`NOTES_MAX`].
pub const NOTE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many ride in one commit: the calls of that commit wait for them.
const NOTES_PER_COMMIT_MAX: usize = 256;
/// From so many on they ride in a decision's commit as well, so that a commit of their own never keeps decisions waiting for long.
const NOTES_WAITING_MAX: usize = 64;
/// How long notes wait for a commit that they can ride in.
const NOTE_DELAY: Duration = Duration::from_millis(100);
/// The same after a commit that failed.
const NOTE_DELAY_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Notes that never became entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DroppedNotes {
    /// There was no room for them.
    pub no_room: u64,
    /// They do not belong: an outcome that no call of its session awaits, a kind that is not written by itself, a body that
    /// is too large.
    pub refused: u64,
}

/// One note.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// An entry that stands for itself.
    Entry(Draft),
    /// What came back for a call.
    Outcome(Answered),
}

/// The notes that wait.
#[derive(Default)]
pub(crate) struct Notes {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Note>,
    bytes: usize,
    dropped: DroppedNotes,
    /// Whether the thread that runs is up and will look at the notes by itself.
    up: bool,
    closing: bool,
}

impl Notes {
    /// Keeps a note for a later commit.
    pub(crate) fn add(&self, note: Note) {
        let bytes = note.bytes();
        let mut inner = self.lock();
        if inner.waiting.len() >= NOTES_MAX || inner.bytes.saturating_add(bytes) > NOTE_BYTES_MAX {
            inner.dropped.no_room += 1;
            return;
        }
        inner.bytes += bytes;
        inner.waiting.push_back(note);
        if !std::mem::replace(&mut inner.up, true) {
            self.changed.notify_all();
        }
    }

    /// Takes notes into a commit, if it takes them or they are many. They come back when it does not succeed.
    pub(crate) fn ride(&self, taken: bool) -> Riding<'_> {
        let mut inner = self.lock();
        let rides = taken || inner.waiting.len() >= NOTES_WAITING_MAX;
        let count = if rides { inner.waiting.len().min(NOTES_PER_COMMIT_MAX) } else { 0 };
        let notes: Vec<Note> = inner.waiting.drain(..count).collect();
        inner.bytes -= notes.iter().map(Note::bytes).sum::<usize>();
        Riding { home: self, notes, refused: 0 }
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// How many were dropped so far.
    pub(crate) fn dropped(&self) -> DroppedNotes {
        self.lock().dropped
    }

    /// Gives notes that no commit came for one of their own, until [`Self::close`].
    pub(crate) fn run(&self, flush: impl Fn() -> Result<(), LedgerFailure>) {
        let mut delay = NOTE_DELAY;
        while self.await_due(delay) {
            let flushed = self.is_empty() || flush().is_ok();
            delay = if flushed { NOTE_DELAY } else { NOTE_DELAY_AFTER_FAILURE };
        }
    }

    /// Ends [`Self::run`].
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// Waits until notes have waited for `delay`; `false` once this is closed.
    fn await_due(&self, delay: Duration) -> bool {
        let mut inner = self.lock();
        inner.up = !inner.waiting.is_empty();
        let nothing_to_do = |inner: &mut Inner| !inner.up && !inner.closing;
        let inner = self.changed.wait_while(inner, nothing_to_do).unwrap_or_else(PoisonError::into_inner);
        let (inner, _) = self
            .changed
            .wait_timeout_while(inner, delay, |inner| !inner.closing)
            .unwrap_or_else(PoisonError::into_inner);
        !inner.closing
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Note {
    fn bytes(&self) -> usize {
        match self {
            Self::Entry(draft) => draft.body.len(),
            Self::Outcome(answered) => size_of_val(answered),
        }
    }
}

/// Notes on their way into a commit.
pub(crate) struct Riding<'a> {
    home: &'a Notes,
    notes: Vec<Note>,
    refused: u64,
}

impl Riding<'_> {
    /// Writes them, each for itself: one that does not belong is dropped.
    pub(crate) fn write(&mut self, batch: &mut Batch) -> Result<(), Lost> {
        for note in &self.notes {
            let written = batch.alone(|batch| write(batch, note))?;
            if let Err(Failure::Refused(Misplaced) | Failure::Unwritten(_)) = written {
                self.refused += 1;
            }
        }
        Ok(())
    }

    /// They are committed.
    pub(crate) fn arrived(mut self) {
        self.notes.clear();
        self.home.lock().dropped.refused += self.refused;
    }
}

impl Drop for Riding<'_> {
    fn drop(&mut self) {
        let mut inner = self.home.lock();
        for note in self.notes.drain(..).rev() {
            inner.bytes += note.bytes();
            inner.waiting.push_front(note);
        }
    }
}

/// A note that does not belong.
struct Misplaced;

fn write(batch: &mut Batch, note: &Note) -> Result<u64, Stop<Misplaced>> {
    match note {
        Note::Entry(draft) => append::append(batch, draft).map_err(|stop| stop.refused(|_: AppendError| Misplaced)),
        Note::Outcome(answered) => {
            calls::write_outcome(batch, answered).map_err(|stop| stop.refused(|NotAwaited| Misplaced))
        }
    }
}
