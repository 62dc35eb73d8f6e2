//! What callers want written: the shape that the queue and the writer know, whatever it is.

use callgate_core::port::LedgerFailure;

use crate::batch::{Batch, Failure, Lost, Stop};

/// What a caller wants written, and later what became of it.
pub(crate) trait Work: Send {
    /// What the caller is told.
    type Answer;

    /// How many items it is made of.
    fn items(&self) -> usize;

    /// Whether what was noted goes into its transaction, in front of it. A decision is waited for.
    fn takes_notes(&self) -> bool {
        true
    }

    /// Writes it into the open transaction. An error loses the whole transaction; what fails alone is kept as a result.
    fn write(&mut self, batch: &mut Batch) -> Result<(), Lost>;

    /// The transaction is committed. Runs before anything else is settled and before anyone is told.
    fn committed(&mut self);

    /// The caller must not rely on it: it was not committed, or to a file that is gone.
    fn fail(&mut self, failure: &LedgerFailure);

    /// What became of it; asked once, after it was committed or failed.
    fn answer(&mut self) -> Self::Answer;
}

/// Something that is written whole or not at all.
pub(crate) trait Item: Send {
    /// What was done.
    type Done: Send;
    /// Why it was not.
    type Error: From<LedgerFailure> + Send;

    /// How many entries it appends at most.
    fn entries(&self) -> usize {
        1
    }

    /// Writes it.
    fn write(&self, batch: &mut Batch) -> Result<Self::Done, Stop<Self::Error>>;

    /// See [`Work::committed`].
    fn committed(&mut self, _done: &Self::Done) {}
}

/// One item as a work.
pub(crate) struct One<I: Item> {
    item: I,
    result: Result<I::Done, I::Error>,
}

impl<I: Item> One<I> {
    pub(crate) fn of(item: I) -> Self {
        Self { item, result: unanswered() }
    }
}

impl<I: Item> Work for One<I> {
    type Answer = Result<I::Done, I::Error>;

    fn items(&self) -> usize {
        self.item.entries()
    }

    fn write(&mut self, batch: &mut Batch) -> Result<(), Lost> {
        let written = batch.alone(|batch| self.item.write(batch))?;
        self.result = written.map_err(|failure| match failure {
            Failure::Refused(error) => error,
            Failure::Unwritten(failure) => failure.into(),
        });
        Ok(())
    }

    fn committed(&mut self) {
        if let Ok(done) = &self.result {
            self.item.committed(done);
        }
    }

    fn fail(&mut self, failure: &LedgerFailure) {
        self.result = Err(failure.clone().into());
    }

    fn answer(&mut self) -> Self::Answer {
        std::mem::replace(&mut self.result, unanswered())
    }
}

/// What a work answers that was neither committed nor failed, which the queue never lets happen.
fn unanswered<T, E: From<LedgerFailure>>() -> Result<T, E> {
    Err(LedgerFailure::WriteFailed("the journal gave no answer".to_owned()).into())
}
