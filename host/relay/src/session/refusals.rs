//! Refusals of the relay's own: each is answered, and told to the daemon when it can be.

use std::time::Instant;

use callgate_core::escape::visible_up_to;
use callgate_core::refusal::{Reason, refused_call, refused_frame};

use super::Session;
use crate::events::{DETAIL_BYTES_MAX, Frame, cut};
use crate::inbound::{Asked, RefusedFrame};
use crate::order::CallNumber;

/// How many requests of one refused batch are answered. Real ones have a handful; one frame could name millions.
pub(crate) const ANSWERS_MAX: usize = 1000;

impl Session {
    pub(super) fn waiting_calls(&mut self, which: impl Fn(bool) -> bool) -> Vec<CallNumber> {
        let undecided = self.order.all_undecided();
        undecided.filter(|(_, undecided)| which(undecided.asked)).map(|(number, _)| number).collect()
    }

    pub(super) fn refuse_unasked(&mut self, why: &Reason, now: Instant) {
        let unasked = self.waiting_calls(|asked| !asked);
        self.refuse_all(unasked, why, now);
    }

    pub(super) fn refuse_waiting(&mut self, why: &Reason, now: Instant) {
        let waiting = self.waiting_calls(|_| true);
        self.refuse_all(waiting, why, now);
    }

    pub(super) fn refuse_all(&mut self, numbers: Vec<CallNumber>, why: &Reason, now: Instant) {
        for number in numbers {
            self.refuse(number, why, now);
        }
    }

    pub(super) fn refuse(&mut self, number: CallNumber, why: &Reason, now: Instant) {
        let Some(call) = self.order.take_undecided(number) else { return };
        self.flights.forget(&call.asked.key);
        self.refuse_unjournaled(&call.asked, why, now);
    }

    /// Refuses a call without the daemon's word; the daemon is told when it can be.
    pub(super) fn refuse_unjournaled(&mut self, asked: &Asked, why: &Reason, now: Instant) {
        let detail = format!("the call of {} was refused: {}", shown(&asked.tool), why.message);
        self.events.refused(why.code, &detail, asked.into(), now);
        self.answer(asked, why, None);
    }

    pub(super) fn refuse_frame(&mut self, frame: RefusedFrame, now: Instant) {
        let RefusedFrame { code, detail, answer, frame: digest, bytes } = frame;
        let detail = cut(&detail, DETAIL_BYTES_MAX);
        for request_id in answer.into_iter().take(ANSWERS_MAX) {
            self.to_client.reply(&refused_frame(&request_id, code, detail));
        }
        self.events.refused(code, detail, Frame { digest: Some(digest), bytes }, now);
    }

    pub(super) fn answer(&mut self, asked: &Asked, why: &Reason, entry: Option<u64>) {
        self.to_client.reply(&refused_call(&asked.request_id, asked.dialect, why, entry));
    }
}

/// A name in a sentence.
pub(super) fn shown(tool: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 128;
    format!("\"{}\"", visible_up_to(tool, SHOWN_CHARS_MAX))
}
