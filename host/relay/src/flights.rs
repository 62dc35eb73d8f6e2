//! The requests the client waits for, by id. The server's own requests have ids of their own and never come in here.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use callgate_core::read::IdKey;

use crate::inbound::Asks;
use crate::order::CallNumber;

/// How many requests can be in flight. Clients have tens; a cancelled one that is never answered stays until there is
/// need for its room.
pub(crate) const FLIGHTS_MAX: usize = 4096;

/// What the client waits for under one id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flight {
    /// A call that the server has not been given.
    Waiting(CallNumber),
    /// A call that was released.
    Released {
        /// The entry that allows it.
        entry: u64,
        /// When it went to the server.
        at: Instant,
    },
    /// Another request.
    Request(Asks),
}

/// Requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    noted: HashMap<IdKey, Noted>,
    /// The ids of cancelled ones, oldest first. May name some that are answered by now, or ids used again since.
    cancelled: VecDeque<IdKey>,
    /// A request went by without being noted, so that an answer to nothing may be the answer to it.
    missed: bool,
}

#[derive(Debug)]
struct Noted {
    flight: Flight,
    cancelled: bool,
    /// How many other requests went to the server under the same id.
    others: u32,
}

/// Why a request is not noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotNoted {
    /// Its id is in flight.
    InFlight,
    /// There is no room.
    Full,
}

impl Flights {
    /// Notes a request.
    pub(crate) fn note(&mut self, key: IdKey, flight: Flight) -> Result<(), NotNoted> {
        if self.noted.contains_key(&key) {
            return Err(NotNoted::InFlight);
        }
        if self.noted.len() >= FLIGHTS_MAX && !self.make_room() {
            return Err(NotNoted::Full);
        }
        self.noted.insert(key, Noted { flight, cancelled: false, others: 0 });
        Ok(())
    }

    /// Takes note that a request goes to the server which could not be noted.
    pub(crate) fn pass(&mut self, key: &IdKey) {
        match self.noted.get_mut(key) {
            Some(noted) => noted.others = noted.others.saturating_add(1),
            None => self.missed = true,
        }
    }

    /// Whether an answer to nothing that is noted must be wrong.
    pub(crate) const fn knows_all(&self) -> bool {
        !self.missed
    }

    /// A waiting call was released.
    pub(crate) fn release(&mut self, key: &IdKey, entry: u64, at: Instant) {
        if let Some(noted) = self.noted.get_mut(key) {
            noted.flight = Flight::Released { entry, at };
        }
    }

    /// The waiting call under `key`.
    pub(crate) fn waiting(&self, key: &IdKey) -> Option<CallNumber> {
        match self.noted.get(key)?.flight {
            Flight::Waiting(number) => Some(number),
            Flight::Released { .. } | Flight::Request(_) => None,
        }
    }

    /// The client wants no answer any more. One may come all the same.
    pub(crate) fn cancel(&mut self, key: IdKey) {
        let Some(noted) = self.noted.get_mut(&key) else { return };
        if !std::mem::replace(&mut noted.cancelled, true) {
            if self.cancelled.len() >= FLIGHTS_MAX {
                self.cancelled.retain(|key| self.noted.get(key).is_some_and(|noted| noted.cancelled));
            }
            self.cancelled.push_back(key);
        }
    }

    /// Forgets a call that the server will not answer.
    pub(crate) fn forget(&mut self, key: &IdKey) {
        self.take(key);
    }

    /// The server answered. `None`: nobody asked it.
    pub(crate) fn answered(&mut self, key: &IdKey) -> Option<Flight> {
        let noted = self.noted.get_mut(key)?;
        match noted.flight {
            Flight::Released { .. } | Flight::Request(_) => self.take(key),
            // The server was never given that call; it can only mean another request under the same id.
            Flight::Waiting(_) => {
                noted.others = noted.others.checked_sub(1)?;
                Some(Flight::Request(Asks::Nothing))
            }
        }
    }

    /// Takes the request under `key` out. The first answer is taken for its own; others under the same id stay.
    fn take(&mut self, key: &IdKey) -> Option<Flight> {
        let noted = self.noted.get_mut(key)?;
        if let Some(others) = noted.others.checked_sub(1) {
            noted.others = others;
            return Some(std::mem::replace(&mut noted.flight, Flight::Request(Asks::Nothing)));
        }
        self.noted.remove(key).map(|noted| noted.flight)
    }

    /// The entries of every call that was released and not answered; nothing is in flight afterwards.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.noted).into_values().filter_map(|noted| match noted.flight {
            Flight::Released { entry, .. } => Some(entry),
            Flight::Waiting(_) | Flight::Request(_) => None,
        })
    }

    /// Gives up on the oldest cancelled request. A call is left without an outcome then, as it is without an answer.
    fn make_room(&mut self) -> bool {
        while let Some(key) = self.cancelled.pop_front() {
            if self.noted.get(&key).is_some_and(|noted| noted.cancelled) {
                self.noted.remove(&key);
                self.missed = true;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use callgate_core::read::read_server;

    use super::*;

    fn key(id: usize) -> IdKey {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#) + "\n";
        read_server(frame.as_bytes()).answers.remove(0).key
    }

    const REQUEST: Flight = Flight::Request(Asks::Nothing);

    #[test]
    fn a_full_map_gives_up_the_oldest_cancelled_request_and_nothing_else() {
        let mut flights = Flights::default();
        for id in 0..FLIGHTS_MAX {
            assert_eq!(flights.note(key(id), REQUEST), Ok(()));
        }
        assert_eq!(flights.note(key(FLIGHTS_MAX), REQUEST), Err(NotNoted::Full));
        flights.cancel(key(7));
        flights.cancel(key(3));
        assert_eq!(flights.note(key(FLIGHTS_MAX), REQUEST), Ok(()));
        assert_eq!(flights.answered(&key(7)), None);
        assert!(!flights.knows_all(), "a late answer to 7 is no answer to nothing");
        assert_eq!(flights.answered(&key(3)), Some(REQUEST));
    }

    #[test]
    fn an_id_that_is_used_again_is_not_taken_for_the_cancelled_one() {
        let mut flights = Flights::default();
        flights.note(key(1), REQUEST).unwrap();
        flights.cancel(key(1));
        assert_eq!(flights.answered(&key(1)), Some(REQUEST), "late, and all the same");
        for id in 0..FLIGHTS_MAX {
            flights.note(key(id), REQUEST).unwrap();
        }
        assert_eq!(flights.note(key(FLIGHTS_MAX), REQUEST), Err(NotNoted::Full));
    }

    #[test]
    fn a_second_request_under_an_id_is_owed_an_answer_of_its_own() {
        let mut flights = Flights::default();
        let released = Flight::Released { entry: 5, at: Instant::now() };
        flights.note(key(1), released).unwrap();
        assert_eq!(flights.note(key(1), REQUEST), Err(NotNoted::InFlight));
        flights.pass(&key(1));
        let answers = [0, 1, 2].map(|_| flights.answered(&key(1)));
        assert_eq!(answers, [Some(released), Some(REQUEST), None]);
        assert!(flights.knows_all());
    }

    #[test]
    fn cancelling_over_and_over_takes_no_room() {
        let mut flights = Flights::default();
        for id in 0..3 * FLIGHTS_MAX {
            flights.note(key(id), REQUEST).unwrap();
            flights.cancel(key(id));
            flights.answered(&key(id));
        }
        assert!(flights.cancelled.len() <= FLIGHTS_MAX);
    }
}
