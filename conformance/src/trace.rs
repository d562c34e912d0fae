//! What was said, and when.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;

/// Enough to understand a failure; what is older is only counted.
const KEPT: usize = 400;

/// The calls of one behaviour.
#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<Line>,
    dropped: usize,
}

/// A call, or many in a row that were answered alike.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Line {
    /// Milliseconds from the start of the behaviour to the first call's start.
    pub at_ms: f64,
    /// Milliseconds from there to the last call's end.
    pub took_ms: f64,
    /// What was asked.
    pub call: String,
    /// What was answered.
    pub answer: String,
    /// How many calls in a row were like this.
    pub times: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:>10.3} ms +{:>9.3} ms  {} -> {}",
            self.at_ms, self.took_ms, self.call, self.answer
        )?;
        if self.times > 1 {
            write!(out, "  (x{})", self.times)?;
        }
        Ok(())
    }
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            lines: Mutex::default(),
        }
    }

    pub(crate) fn record(&self, began: Instant, call: String, answer: String) {
        let at = began.saturating_duration_since(self.began);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = lines.kept.back_mut()
            && last.call == call
            && last.answer == answer
        {
            last.times += 1;
            last.took_ms = millis(self.began.elapsed()) - last.at_ms;
            return;
        }
        lines.kept.push_back(Line {
            at_ms: millis(at),
            took_ms: millis(began.elapsed()),
            call,
            answer,
            times: 1,
        });
        if lines.kept.len() > KEPT {
            lines.kept.pop_front();
            lines.dropped += 1;
        }
    }

    /// Notes something that is no call.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.record(Instant::now(), what.into(), "done".into());
    }

    /// What was kept, and how many lines before it were not.
    pub(crate) fn take(&self) -> (Vec<Line>, usize) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        (lines.kept.drain(..).collect(), lines.dropped)
    }
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
