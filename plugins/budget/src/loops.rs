//! Loop detection: the same call again and again.

use callgate_sdk::{Call, Charge, Pointer, Rule, Subject, Window};

use crate::budget::{MS_PER_SECOND, within};
use crate::key;

/// How often the same tool may be called with the same arguments, and in which time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loops {
    pub(crate) times: u32,
    pub(crate) seconds: u32,
}

impl Loops {
    /// The charge of a call. It counts attempts: an agent that repeats a refused call is in a loop as well.
    pub(crate) fn charge(self, call: &Call) -> Charge {
        let Self { times, seconds } = self;
        let within = within(seconds);
        let plural = if times == 1 { "" } else { "s" };
        let text = format!("the same call at most {times} time{plural}{within}");
        let message =
            format!("the same tool was called with the same arguments more than {times} time{plural}{within}");
        Charge::new(key::of_loop(seconds, call), f64::from(times), Rule::new(Pointer::root().key("loops"), text))
            .subject(Subject::Agent)
            .window(Window::Sliding(seconds * MS_PER_SECOND))
            .attempted()
            .refusal("loop", message)
    }
}
