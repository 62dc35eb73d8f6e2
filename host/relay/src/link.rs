//! The connection to the daemon: when to make one, how long to wait for what, which decisions are awaited on it.
//!
//! Values only: the driver dials, and tells here what came of it. Nothing that was asked on one connection is ever
//! answered on another, so an answer that comes too late has nothing to release.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use callgate_core::digest::Digest;
use callgate_core::permit::Binding;
use callgate_core::refusal::Reason;
use callgate_ipc::message::Greeting;

use crate::order::CallNumber;
use crate::reasons;

/// How long a daemon is looked for, one that was just started included.
pub(crate) const REACH_MAX: Duration = Duration::from_secs(5);
/// How long a greeting, and the opening of the session after it, may take.
pub(crate) const GREETING_MAX: Duration = Duration::from_secs(2);
/// How long a daemon may say that it is starting: the time to compile its plugins when there is no cache yet.
pub(crate) const STARTING_MAX: Duration = Duration::from_secs(10);
/// The pause between two tries to connect doubles from the first to the second: a warm daemon is there after some 20 ms.
const TRY_PAUSE_MIN: Duration = Duration::from_millis(5);
const TRY_PAUSE_MAX: Duration = Duration::from_millis(50);
/// After a failure calls are refused at once, without another try, for this long.
const QUIET: Duration = Duration::from_millis(50);
/// A daemon that said no is asked again after this.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The time before another daemon is started doubles from the first to the second with every failure.
const START_PAUSE_MIN: Duration = Duration::from_secs(1);
const START_PAUSE_MAX: Duration = Duration::from_secs(30);
/// A connection that ends earlier than this counts as a failure, so that a daemon that keeps closing is not hammered.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// Doubling ends here, before it overflows.
const FAILURES_MAX: u32 = 10;

/// The daemon, as far as this relay is connected to it.
#[derive(Debug)]
pub(crate) struct Link {
    state: State,
    /// Failures in a row.
    failures: u32,
}

#[derive(Debug)]
enum State {
    Away(Away),
    Reaching(Reaching),
    /// Connected; said hello.
    Greeting {
        since: Instant,
        starting: Option<Instant>,
    },
    /// Welcome; asked for the session to be opened.
    Opening {
        connection: u64,
        since: Instant,
    },
    Open(Open),
}

/// There is no connection, and none is being made until somebody needs one.
#[derive(Clone, Debug)]
struct Away {
    /// Why calls are refused meanwhile.
    why: Reason,
    /// Until then they are refused at once.
    quiet_until: Instant,
    /// From then on a daemon may be started for them.
    start_at: Instant,
}

/// A connection is being made.
#[derive(Debug)]
struct Reaching {
    until: Instant,
    try_at: Instant,
    pause: Duration,
    start: Start,
    /// Where to go back to when the first try fails.
    once: Option<Away>,
    /// What went wrong last.
    trouble: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    /// Nobody needs a daemon: one that was stopped stays stopped.
    Never,
    /// If there is none.
    Allowed,
    /// One was started.
    Done,
}

#[derive(Debug)]
struct Open {
    connection: u64,
    since: Instant,
    asked: u64,
    awaited: HashMap<u64, Awaited>,
}

/// A decision that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Awaited {
    /// What a permit has to be for.
    pub(crate) binding: Binding,
    /// The call.
    pub(crate) number: CallNumber,
}

/// What a greeting leads to.
#[derive(Debug)]
pub(crate) enum Greeted {
    /// The daemon is starting.
    Wait,
    /// The session is to be opened.
    Open,
    /// The connection is given up.
    Refused(Reason),
}

impl Link {
    /// A link that wants to be made at once, by starting a daemon if there is none.
    pub(crate) fn new(now: Instant) -> Self {
        Self { state: State::Reaching(Reaching::new(now, Start::Allowed)), failures: 0 }
    }

    /// Somebody waits for a decision. Tells why, when it is known that none can be had now.
    pub(crate) fn need(&mut self, now: Instant) -> Option<Reason> {
        match &mut self.state {
            State::Away(away) if now < away.quiet_until => return Some(away.why.clone()),
            State::Away(away) => {
                let start = if now < away.start_at { Start::Never } else { Start::Allowed };
                let once = (start == Start::Never).then(|| away.clone());
                self.state = State::Reaching(Reaching { once, ..Reaching::new(now, start) });
            }
            State::Reaching(reaching) if reaching.start == Start::Never && reaching.once.is_none() => {
                reaching.start = Start::Allowed;
                reaching.until = now + REACH_MAX;
            }
            State::Reaching(_) | State::Greeting { .. } | State::Opening { .. } | State::Open(_) => {}
        }
        None
    }

    /// Whether it is time to try to connect.
    pub(crate) fn dial_is_due(&self, now: Instant) -> bool {
        matches!(&self.state, State::Reaching(reaching) if now >= reaching.try_at)
    }

    /// Whether a daemon is to be started if there is none.
    pub(crate) const fn may_start(&self) -> bool {
        matches!(&self.state, State::Reaching(reaching) if matches!(reaching.start, Start::Allowed))
    }

    /// A daemon was started.
    pub(crate) const fn started(&mut self) {
        if let State::Reaching(reaching) = &mut self.state {
            reaching.start = Start::Done;
        }
    }

    /// Connected.
    pub(crate) fn reached(&mut self, now: Instant) {
        self.state = State::Greeting { since: now, starting: None };
    }

    /// Not connected. Tells why when no other try follows.
    pub(crate) fn not_reached(&mut self, trouble: String, now: Instant) -> Option<Reason> {
        let State::Reaching(reaching) = &mut self.state else { return None };
        if let Some(away) = reaching.once.take() {
            let why = away.why.clone();
            self.state = State::Away(Away { quiet_until: now + QUIET, ..away });
            return Some(why);
        }
        reaching.trouble = trouble;
        reaching.try_at = now + reaching.pause;
        reaching.pause = (2 * reaching.pause).min(TRY_PAUSE_MAX);
        None
    }

    /// No daemon can be started.
    pub(crate) fn not_started(&mut self, trouble: &str, now: Instant) -> Reason {
        self.unreachable(trouble, now)
    }

    /// The daemon greeted.
    pub(crate) fn greeted(&mut self, greeting: Greeting, build: &str, now: Instant) -> Greeted {
        let State::Greeting { starting, .. } = &mut self.state else { return Greeted::Wait };
        let why = match greeting {
            Greeting::Starting => {
                starting.get_or_insert(now);
                return Greeted::Wait;
            }
            Greeting::Welcome { connection } => {
                self.state = State::Opening { connection, since: now };
                return Greeted::Open;
            }
            Greeting::OtherBuild { build: daemon } => reasons::other_build(&daemon, build),
            Greeting::Unavailable { message } => reasons::unavailable(&message),
        };
        self.refused(&why, now);
        Greeted::Refused(why)
    }

    /// The session is open.
    pub(crate) fn opened(&mut self, now: Instant) {
        if let State::Opening { connection, .. } = self.state {
            self.state = State::Open(Open { connection, since: now, asked: 0, awaited: HashMap::new() });
        }
    }

    /// The daemon will not serve for now.
    pub(crate) fn refused(&mut self, why: &Reason, now: Instant) {
        let again = now + ASK_AGAIN;
        self.state = State::Away(Away { why: why.clone(), quiet_until: again, start_at: again });
    }

    /// The sequence of the next question; `None` while nothing can be asked.
    pub(crate) const fn next_sequence(&self) -> Option<u64> {
        match &self.state {
            State::Open(open) => Some(open.asked + 1),
            State::Away(_) | State::Reaching(_) | State::Greeting { .. } | State::Opening { .. } => None,
        }
    }

    /// The next question was asked; it is about this frame.
    pub(crate) fn asked(&mut self, frame: Digest, number: CallNumber) {
        let State::Open(open) = &mut self.state else { return };
        open.asked += 1;
        let binding = Binding { connection: open.connection, sequence: open.asked, frame };
        open.awaited.insert(open.asked, Awaited { binding, number });
    }

    /// What was asked as `sequence`, once.
    pub(crate) fn answered(&mut self, sequence: u64) -> Option<Awaited> {
        let State::Open(open) = &mut self.state else { return None };
        let awaited = open.awaited.remove(&sequence)?;
        self.failures = 0;
        Some(awaited)
    }

    /// How many decisions are awaited, those that nobody waits for any more included.
    pub(crate) fn awaited(&self) -> usize {
        match &self.state {
            State::Open(open) => open.awaited.len(),
            State::Away(_) | State::Reaching(_) | State::Greeting { .. } | State::Opening { .. } => 0,
        }
    }

    /// The connection ended, by whomever. Another is made at once, but no daemon is started unless somebody needs it.
    pub(crate) fn lost(&mut self, now: Instant) {
        let short = match &self.state {
            State::Open(open) => now.saturating_duration_since(open.since) < SHORT_LIFE,
            State::Greeting { .. } | State::Opening { .. } => true,
            State::Away(_) | State::Reaching(_) => return,
        };
        let delay = if short { self.backoff(TRY_PAUSE_MIN, START_PAUSE_MIN) } else { Duration::ZERO };
        let mut reaching = Reaching::new(now, Start::Never);
        reaching.try_at += delay;
        self.state = State::Reaching(reaching);
    }

    /// Gives up what takes too long. Tells why; the connection, if there was one, is over.
    pub(crate) fn give_up_if_late(&mut self, now: Instant) -> Option<Reason> {
        if now < self.due()? {
            return None;
        }
        let slow = |what: &str, limit: Duration| Some(reasons::slow(what, limit));
        let why = match &self.state {
            State::Reaching(reaching) if now < reaching.until => return None,
            State::Reaching(reaching) => {
                let trouble = reaching.trouble.clone();
                return Some(self.unreachable(&trouble, now));
            }
            State::Greeting { starting: Some(_), .. } => slow("welcome", STARTING_MAX),
            State::Greeting { starting: None, .. } => slow("greeting", GREETING_MAX),
            State::Opening { .. } => slow("open session", GREETING_MAX),
            State::Away(_) | State::Open(_) => return None,
        }?;
        self.refused(&why, now);
        Some(why)
    }

    /// When there is something to do: to try again, or to give up.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.state {
            State::Away(_) | State::Open(_) => None,
            State::Reaching(reaching) => Some(reaching.try_at.min(reaching.until)),
            State::Greeting { starting: Some(starting), .. } => Some(*starting + STARTING_MAX),
            State::Greeting { since, starting: None } | State::Opening { since, .. } => Some(*since + GREETING_MAX),
        }
    }

    /// Why a call that could not be asked about in time is refused.
    pub(crate) fn why_unasked(&self, deadline: Duration) -> Reason {
        match &self.state {
            State::Away(away) => away.why.clone(),
            State::Reaching(reaching) => reasons::unreachable(&reaching.trouble),
            State::Greeting { .. } => reasons::slow("greeting", deadline),
            State::Opening { .. } | State::Open(_) => reasons::slow("decision", deadline),
        }
    }

    /// Whether the daemon said that it is starting: calls wait for it beyond their deadline.
    pub(crate) const fn is_starting(&self) -> bool {
        matches!(self.state, State::Greeting { starting: Some(_), .. })
    }

    /// Whether there is a connection.
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self.state, State::Greeting { .. } | State::Opening { .. } | State::Open(_))
    }

    /// Whether a greeting is what comes next.
    pub(crate) const fn is_greeting(&self) -> bool {
        matches!(self.state, State::Greeting { .. })
    }

    /// Whether the session is open.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    fn unreachable(&mut self, trouble: &str, now: Instant) -> Reason {
        let why = reasons::unreachable(trouble);
        let start_at = match &self.state {
            State::Reaching(Reaching { start: Start::Never, .. }) => now,
            State::Away(_) | State::Reaching(_) | State::Greeting { .. } | State::Opening { .. } | State::Open(_) => {
                now + self.backoff(START_PAUSE_MIN, START_PAUSE_MAX)
            }
        };
        let quiet_until = start_at.min(now + QUIET);
        self.state = State::Away(Away { why: why.clone(), quiet_until, start_at });
        why
    }

    fn backoff(&mut self, min: Duration, max: Duration) -> Duration {
        let pause = min.saturating_mul(1 << self.failures).min(max);
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        pause
    }
}

impl Reaching {
    fn new(now: Instant, start: Start) -> Self {
        let trouble = "it has not been tried yet".to_owned();
        Self { until: now + REACH_MAX, try_at: now, pause: TRY_PAUSE_MIN, start, once: None, trouble }
    }
}

#[cfg(test)]
mod tests {
    use callgate_core::code::Code;
    use callgate_core::verdict::Retry;

    use super::*;

    /// Tries as often as the link wants to, at the times it wants to, until it gives up; every try fails.
    fn fail_to_reach(link: &mut Link, mut now: Instant) -> (u32, Instant, Reason) {
        let mut tries = 0;
        loop {
            if let Some(why) = link.give_up_if_late(now) {
                return (tries, now, why);
            }
            if link.dial_is_due(now) {
                tries += 1;
                if link.may_start() {
                    link.started();
                }
                if let Some(why) = link.not_reached("no socket".to_owned(), now) {
                    return (tries, now, why);
                }
            }
            now = link.due().unwrap();
        }
    }

    fn open(link: &mut Link, now: Instant) {
        link.reached(now);
        assert!(matches!(link.greeted(Greeting::Welcome { connection: 7 }, "1", now), Greeted::Open));
        link.opened(now);
    }

    fn code(why: Option<Reason>) -> Option<Code> {
        why.map(|why| why.code)
    }

    #[test]
    fn a_daemon_that_cannot_be_had_is_given_up_and_tried_for_again_ever_less_often() {
        let mut now = Instant::now();
        let mut link = Link::new(now);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            assert!(link.may_start());
            let (tries, gave_up, why) = fail_to_reach(&mut link, now);
            assert_eq!((gave_up - now, why.code), (REACH_MAX, Code::DaemonUnreachable));
            assert!(tries < 120, "{tries} tries");
            assert_eq!(code(link.need(gave_up)), Some(Code::DaemonUnreachable), "at once");
            // Soon after, a call makes one try, starts nothing and does not wait.
            let soon = gave_up + QUIET;
            assert_eq!(link.need(soon), None);
            assert!(link.dial_is_due(soon) && !link.may_start());
            assert!(link.not_reached("no socket".to_owned(), soon).is_some());
            now = gave_up + Duration::from_secs(pause);
            assert_eq!(link.need(now), None);
        }
    }

    #[test]
    fn a_lost_connection_is_made_again_without_starting_a_daemon_until_somebody_needs_one() {
        let start = Instant::now();
        let mut link = Link::new(start);
        open(&mut link, start);
        let later = start + SHORT_LIFE;
        link.lost(later);
        assert!(link.dial_is_due(later) && !link.may_start());
        assert_eq!(link.need(later), None);
        assert!(link.may_start());
    }

    #[test]
    fn when_nobody_needs_it_a_lost_connection_is_forgotten_and_a_later_call_may_start_a_daemon_at_once() {
        let start = Instant::now();
        let mut link = Link::new(start);
        open(&mut link, start);
        link.lost(start + SHORT_LIFE);
        let (_, gave_up, _) = fail_to_reach(&mut link, start + SHORT_LIFE);
        assert_eq!(link.due(), None, "nothing to wake up for");
        assert_eq!(link.need(gave_up), None);
        assert!(link.may_start());
    }

    #[test]
    fn a_daemon_that_keeps_closing_is_not_hammered() {
        let mut now = Instant::now();
        let mut link = Link::new(now);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            open(&mut link, now);
            link.lost(now);
            let again = link.due().unwrap();
            pauses.push((again - now).as_millis());
            now = again;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000]);
    }

    #[test]
    fn a_daemon_that_is_starting_is_waited_for_and_one_that_says_nothing_is_not() {
        let start = Instant::now();
        let mut link = Link::new(start);
        link.reached(start);
        assert_eq!(link.due(), Some(start + GREETING_MAX));
        link.greeted(Greeting::Starting, "1", start + Duration::from_secs(1));
        link.greeted(Greeting::Starting, "1", start + Duration::from_secs(9));
        let last = start + Duration::from_secs(1) + STARTING_MAX;
        assert!(link.is_starting());
        assert_eq!(link.give_up_if_late(start + STARTING_MAX), None);
        assert_eq!(link.give_up_if_late(last).map(|why| why.code), Some(Code::DaemonSlow));
        assert!(!link.is_connected());

        let mut silent = Link::new(start);
        silent.reached(start);
        assert_eq!(silent.give_up_if_late(start + GREETING_MAX).map(|why| why.code), Some(Code::DaemonSlow));
    }

    #[test]
    fn a_daemon_that_says_no_is_asked_again_later_and_calls_are_refused_meanwhile() {
        let start = Instant::now();
        for (greeting, expected) in [
            (Greeting::OtherBuild { build: "2".to_owned() }, Code::OlderBuild),
            (Greeting::Unavailable { message: "full".to_owned() }, Code::DaemonUnreachable),
        ] {
            let mut link = Link::new(start);
            link.reached(start);
            assert!(matches!(link.greeted(greeting, "1", start), Greeted::Refused(why) if why.code == expected));
            assert_eq!(code(link.need(start)), Some(expected));
            assert_eq!(link.need(start + ASK_AGAIN), None);
            assert!(link.dial_is_due(start + ASK_AGAIN));
        }
        let mut link = Link::new(start);
        link.reached(start);
        link.refused(&Reason::of(Code::JournalForeign, "swapped", Retry::Never), start);
        assert_eq!(code(link.need(start)), Some(Code::JournalForeign));
    }

    #[test]
    fn a_question_is_answered_once_and_none_survives_its_connection() {
        let now = Instant::now();
        let mut link = Link::new(now);
        assert_eq!(link.next_sequence(), None);
        open(&mut link, now);
        let mut order = crate::order::Order::default();
        let number = order.add_call(crate::testing::call(1), now);
        assert_eq!(link.next_sequence(), Some(1));
        link.asked(Digest::of(b"frame"), number);
        assert_eq!(link.next_sequence(), Some(2));
        assert_eq!(link.answered(2), None);
        let binding = Binding { connection: 7, sequence: 1, frame: Digest::of(b"frame") };
        assert_eq!(link.answered(1), Some(Awaited { binding, number }));
        assert_eq!(link.answered(1), None);
        link.asked(Digest::of(b"frame"), number);
        link.lost(now);
        assert_eq!((link.awaited(), link.answered(2)), (0, None));
    }
}
