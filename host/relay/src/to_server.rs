//! What is being written to the server: whole frames, one after the other.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::inbound::{Cleared, Released};

/// How many frames go into one write.
pub(crate) const FRAMES_PER_WRITE: usize = 16;

/// Frames that may be written, in order.
#[derive(Debug, Default)]
pub(crate) struct ToServer {
    frames: VecDeque<Cleared>,
    /// How much of the first frame the server has.
    written: usize,
    bytes: usize,
}

impl ToServer {
    /// Adds a frame.
    pub(crate) fn push(&mut self, frame: Cleared) {
        self.bytes += frame.bytes().len();
        self.frames.push_back(frame);
    }

    /// Fills `slices` with what is to be written next and tells how many it filled.
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; FRAMES_PER_WRITE]) -> usize {
        let mut skip = self.written;
        let mut filled = 0;
        for (slice, frame) in slices.iter_mut().zip(&self.frames) {
            *slice = IoSlice::new(frame.bytes().get(skip..).unwrap_or_default());
            skip = 0;
            filled += 1;
        }
        filled
    }

    /// Takes note that the server has `bytes` more.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.written += bytes;
        while let Some(first) = self.frames.front() {
            if self.written < first.bytes().len() {
                break;
            }
            self.written -= first.bytes().len();
            self.frames.pop_front();
        }
    }

    /// Gives everything up; the calls that the server does not wholly have come back.
    pub(crate) fn fail(&mut self) -> impl Iterator<Item = Released> + use<> {
        self.bytes = 0;
        self.written = 0;
        std::mem::take(&mut self.frames).into_iter().filter_map(Cleared::into_released)
    }

    /// How many bytes are still to be written.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}
