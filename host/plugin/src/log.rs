//! What plugins write for the operator: bounded per call, delivered after the call, never on the way of a decision.

use callgate_core::call::Call;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmStr};

use crate::bindings::callgate::policy::log;
use crate::inspect::LOG;
use crate::limits::Limits;
use crate::state::State;

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Level {
    /// For the plugin's author.
    Debug,
    /// For whoever is looking.
    Info,
    /// The operator should look at it some day.
    Warn,
    /// The operator should look at it now.
    Error,
}

/// One line of a plugin, as it wrote it: control characters are still in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// The text.
    pub message: String,
}

/// What a plugin wrote in one go: while it decided a call, or while it was configured.
#[derive(Clone, Copy, Debug)]
pub struct LogBatch<'a> {
    /// The instance's name.
    pub plugin: &'a str,
    /// The call that it was deciding; `None` while it was configured.
    pub call: Option<&'a Call>,
    /// The lines, in order.
    pub lines: &'a [LogLine],
    /// How many more there were over the bound.
    pub dropped: u64,
}

/// How much of a plugin's last error line is remembered.
const LAST_WORDS_BYTES_MAX: usize = 1024;

/// Takes what plugins write. Called on the deciding thread after the plugin has answered, so it must not block.
pub trait LogSink: Send + Sync {
    /// Takes one batch; never an empty one.
    fn take(&self, batch: LogBatch<'_>);
}

/// What one instance has written since it was last asked something.
#[derive(Debug)]
pub(crate) struct LogBook {
    lines_max: usize,
    bytes_max: usize,
    bytes: usize,
    lines: Vec<LogLine>,
    dropped: u64,
    /// Whether nothing was written the last time that it was asked something.
    was_silent: bool,
    /// The last line of level `error`, bound or no bound: a panic hook writes the panic's text there just before it traps.
    last_error: Option<String>,
}

impl LogBook {
    pub(crate) const fn new(limits: &Limits) -> Self {
        Self {
            lines_max: limits.log_lines,
            bytes_max: limits.log_bytes,
            bytes: 0,
            lines: Vec::new(),
            dropped: 0,
            was_silent: true,
            last_error: None,
        }
    }

    /// What is to be kept of a message.
    fn sift(&self, level: Level, message: &str) -> Sifted {
        let fits = self.lines.len() < self.lines_max && message.len() <= self.bytes_max - self.bytes;
        Sifted {
            line: fits.then(|| LogLine { level, message: message.to_owned() }),
            error: (level == Level::Error).then(|| head(message, LAST_WORDS_BYTES_MAX).to_owned()),
        }
    }

    fn keep(&mut self, sifted: Sifted) {
        if sifted.error.is_some() {
            self.last_error = sifted.error;
        }
        let Some(line) = sifted.line else {
            self.dropped += 1;
            return;
        };
        self.bytes += line.message.len();
        self.lines.push(line);
    }

    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Whether nothing was written the last time that it was asked something, what was over the bound included.
    pub(crate) const fn was_silent(&self) -> bool {
        self.was_silent
    }

    /// Hands over what was written, if anything was, and starts anew.
    pub(crate) fn deliver(&mut self, sink: &dyn LogSink, plugin: &str, call: Option<&Call>) {
        self.was_silent = self.lines.is_empty() && self.dropped == 0;
        if !self.was_silent {
            sink.take(LogBatch { plugin, call, lines: &self.lines, dropped: self.dropped });
        }
        self.lines.clear();
        (self.bytes, self.dropped, self.last_error) = (0, 0, None);
    }
}

/// The parts of one message that are kept.
struct Sifted {
    line: Option<LogLine>,
    error: Option<String>,
}

/// At most the first `bytes_max` bytes of `text`, cut between characters.
fn head(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

/// Provides `log.write`. Written by hand because `bindgen!` would copy every message out of the plugin's memory, those over
/// the bound too.
pub(crate) fn provide(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.instance(LOG)?.func_wrap(
        "write",
        |mut store: StoreContextMut<'_, State>, (level, message): (log::Level, WasmStr)| {
            let level = match level {
                log::Level::Debug => Level::Debug,
                log::Level::Info => Level::Info,
                log::Level::Warn => Level::Warn,
                log::Level::Error => Level::Error,
            };
            let sifted = store.data().log.sift(level, &message.to_str(&store)?);
            store.data_mut().log.keep(sifted);
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<(Vec<LogLine>, u64)>>);

    impl LogSink for Kept {
        fn take(&self, batch: LogBatch<'_>) {
            self.0.lock().unwrap().push((batch.lines.to_vec(), batch.dropped));
        }
    }

    fn write(book: &mut LogBook, level: Level, message: &str) {
        let sifted = book.sift(level, message);
        book.keep(sifted);
    }

    #[test]
    fn what_is_over_the_bound_is_dropped_and_counted_and_the_next_call_starts_anew() {
        let mut book = LogBook::new(&Limits { log_lines: 2, log_bytes: 8, ..Limits::SHIPPED });
        let sink = Kept::default();
        for message in ["12345", "1234", "123", "1"] {
            write(&mut book, Level::Error, message);
        }
        assert_eq!(book.last_error(), Some("1"));
        book.deliver(&sink, "guard", None);
        book.deliver(&sink, "guard", None);
        write(&mut book, Level::Debug, "12345678");
        assert_eq!(book.last_error(), None);
        book.deliver(&sink, "guard", None);

        let line = |level, message: &str| LogLine { level, message: message.to_owned() };
        let expected = vec![
            (vec![line(Level::Error, "12345"), line(Level::Error, "123")], 2),
            (vec![line(Level::Debug, "12345678")], 0),
        ];
        assert_eq!(*sink.0.lock().unwrap(), expected);
    }
}
