//! The table, and whether the bars hold.

use std::fmt;

/// What a figure has to come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    limit: f64,
    at_most: bool,
    words: &'static str,
}

impl Bar {
    pub(crate) const fn at_most(limit: f64, words: &'static str) -> Self {
        Self { limit, at_most: true, words }
    }

    pub(crate) const fn at_least(limit: f64, words: &'static str) -> Self {
        Self { limit, at_most: false, words }
    }

    fn holds(self, value: f64) -> bool {
        if self.at_most { value <= self.limit } else { value >= self.limit }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.at_most { "≤" } else { "≥" }, self.limit)
    }
}

enum Line {
    Section(&'static str),
    Figure { name: String, value: f64, bar: Option<Bar> },
    Skipped(&'static str),
}

/// What was measured, in order.
pub(crate) struct Report {
    rounds: usize,
    lines: Vec<Line>,
}

impl Report {
    pub(crate) fn new(rounds: usize) -> Self {
        Self { rounds, lines: Vec::new() }
    }

    pub(crate) fn section(&mut self, title: &'static str) {
        eprintln!("{title} …");
        self.lines.push(Line::Section(title));
    }

    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.lines.push(Line::Figure { name: name.into(), value, bar: None });
    }

    pub(crate) fn barred(&mut self, name: impl Into<String>, value: f64, bar: Bar) {
        self.lines.push(Line::Figure { name: name.into(), value, bar: Some(bar) });
    }

    pub(crate) fn skipped(&mut self, what: &'static str) {
        self.lines.push(Line::Skipped(what));
    }

    /// Whether every bar that was measured holds.
    pub(crate) fn holds(&self) -> bool {
        self.lines.iter().all(|line| match line {
            Line::Figure { value, bar: Some(bar), .. } => bar.holds(*value),
            Line::Figure { bar: None, .. } | Line::Section(_) | Line::Skipped(_) => true,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        writeln!(f, "medians of {} rounds, {cores} cores, build {}", self.rounds, callgate::BUILD)?;
        for line in &self.lines {
            match line {
                Line::Section(title) => writeln!(f, "\n{title}")?,
                Line::Skipped(what) => writeln!(f, "\nskipped: {what}")?,
                Line::Figure { name, value, bar: None } => writeln!(f, "  {name:<58} {value:>10.1}")?,
                Line::Figure { name, value, bar: Some(bar) } => {
                    let verdict = if bar.holds(*value) { "holds" } else { "MISSED" };
                    writeln!(f, "  {name:<58} {value:>10.1}   {verdict}: {bar} ({})", bar.words)?;
                }
            }
        }
        Ok(())
    }
}

/// The middle one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
