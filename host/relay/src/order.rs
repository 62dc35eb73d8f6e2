//! The client's frames on their way to the server.
//!
//! Calls keep the order in which they arrived, and so do messages, the frames that hold no call. A call behind an
//! undecided one waits for it; a message waits for no call (docs/decisions/0005), unless it keeps its place among them, and
//! then what comes behind it stays behind it. A call that is refused or withdrawn leaves the order, and what stood behind
//! it moves up; so would a call that is held for long, to come back at the end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::inbound::{Call, Cleared};

/// A call's number in the order, from 1; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CallNumber(u64);

/// The frames that have not been handed on yet.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Messages that wait for nothing; before all places.
    ahead: VecDeque<Cleared>,
    places: VecDeque<Place>,
    /// How many messages are in `places`.
    messages: usize,
    calls: BTreeMap<CallNumber, Waiting>,
    numbered: u64,
    bytes: usize,
}

#[derive(Debug)]
enum Place {
    Message(Cleared),
    /// A call that is no longer in `calls` has left.
    Call(CallNumber),
}

/// A call in the order.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// Not decided.
    Undecided(Undecided),
    /// Permitted, and waiting for what stands before it.
    Cleared(Cleared),
}

/// A call that is not decided.
#[derive(Debug)]
pub(crate) struct Undecided {
    /// The call.
    pub(crate) call: Call,
    /// Whether the daemon has been asked.
    pub(crate) asked: bool,
    /// When it is refused for want of a decision.
    pub(crate) due: Instant,
}

impl Order {
    /// Adds a frame that holds no call; `may_pass` tells whether it may go before calls that came earlier.
    pub(crate) fn add_message(&mut self, message: Cleared, may_pass: bool) {
        self.bytes += message.bytes().len();
        if may_pass && self.messages == 0 {
            self.ahead.push_back(message);
        } else {
            self.messages += 1;
            self.places.push_back(Place::Message(message));
        }
    }

    /// Adds a call whose decision is due at `due`.
    pub(crate) fn add_call(&mut self, call: Call, due: Instant) -> CallNumber {
        self.numbered += 1;
        let number = CallNumber(self.numbered);
        self.bytes += call.len();
        self.calls.insert(number, Waiting::Undecided(Undecided { call, asked: false, due }));
        self.places.push_back(Place::Call(number));
        number
    }

    /// The call `number`, when it is not decided.
    pub(crate) fn undecided(&mut self, number: CallNumber) -> Option<&mut Undecided> {
        self.calls.get_mut(&number).and_then(Waiting::undecided)
    }

    /// Every undecided call, in order of arrival.
    pub(crate) fn all_undecided(&mut self) -> impl Iterator<Item = (CallNumber, &mut Undecided)> {
        self.calls.iter_mut().filter_map(|(number, waiting)| Some((*number, waiting.undecided()?)))
    }

    /// When the first undecided call is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let dues = self.calls.values().filter_map(|waiting| match waiting {
            Waiting::Undecided(undecided) => Some(undecided.due),
            Waiting::Cleared(_) => None,
        });
        dues.min()
    }

    /// Takes an undecided call out: to be put back by [`Self::clear`], or never.
    pub(crate) fn take_undecided(&mut self, number: CallNumber) -> Option<Call> {
        self.undecided(number)?;
        match self.remove(number)? {
            Waiting::Undecided(undecided) => Some(undecided.call),
            Waiting::Cleared(_) => None,
        }
    }

    /// Puts a call that was taken out back in its place, permitted.
    pub(crate) fn clear(&mut self, number: CallNumber, cleared: Cleared) {
        self.bytes += cleared.bytes().len();
        self.calls.insert(number, Waiting::Cleared(cleared));
    }

    /// Removes a call, whatever has become of it.
    pub(crate) fn remove(&mut self, number: CallNumber) -> Option<Waiting> {
        let waiting = self.calls.remove(&number)?;
        self.bytes -= waiting.len();
        Some(waiting)
    }

    /// Removes everything; the calls come back, in order of arrival.
    pub(crate) fn empty(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.ahead.clear();
        self.places.clear();
        self.messages = 0;
        self.bytes = 0;
        std::mem::take(&mut self.calls).into_values()
    }

    /// The next frame that may go, unless it is behind one that may not.
    pub(crate) fn next_cleared(&mut self) -> Option<Cleared> {
        let cleared = self.ahead.pop_front().or_else(|| self.next_in_place())?;
        self.bytes -= cleared.bytes().len();
        Some(cleared)
    }

    fn next_in_place(&mut self) -> Option<Cleared> {
        loop {
            if let Place::Call(number) = self.places.front()?
                && self.calls.get_mut(number).and_then(Waiting::undecided).is_some()
            {
                return None;
            }
            match self.places.pop_front()? {
                Place::Message(cleared) => {
                    self.messages -= 1;
                    return Some(cleared);
                }
                Place::Call(number) => {
                    if let Some(cleared) = self.calls.remove(&number).and_then(Waiting::into_cleared) {
                        return Some(cleared);
                    }
                }
            }
        }
    }

    /// How many calls are in it.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// How many bytes are in it.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Waiting {
    const fn undecided(&mut self) -> Option<&mut Undecided> {
        match self {
            Self::Undecided(undecided) => Some(undecided),
            Self::Cleared(_) => None,
        }
    }

    fn into_cleared(self) -> Option<Cleared> {
        match self {
            Self::Cleared(cleared) => Some(cleared),
            Self::Undecided(_) => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Undecided(undecided) => undecided.call.len(),
            Self::Cleared(cleared) => cleared.bytes().len(),
        }
    }
}
