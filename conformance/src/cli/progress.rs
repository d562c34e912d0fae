//! What a run says while it runs, and at its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
};

use conformance::{Area, Event, Report, Row, Status, Verdict};

/// Lines of a trace that are printed; all of them are in the reports.
const TRACE_LINES: usize = 40;

/// Talks to whoever watches.
#[derive(Debug)]
pub(super) struct Progress {
    quiet: bool,
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    planned: usize,
    ended: usize,
    failed: usize,
    running: BTreeSet<&'static str>,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: std::io::stdout().is_terminal(),
            state: Mutex::default(),
        }
    }

    /// A line of its own.
    pub(super) fn say(&self, line: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        // Nobody may be listening any more, and the reports are written all the same.
        writeln!(std::io::stdout(), "{clear}{line}").ok();
    }

    pub(super) fn take(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Planned(planned) => state.planned = *planned,
            Event::Lane(_, Err(_)) => self.say(&event.to_string()),
            Event::Began(id) => {
                state.running.insert(id);
            }
            Event::Ended(row) => {
                state.running.retain(|id| *id != row.id);
                state.ended += 1;
                state.failed += usize::from(row.status == Status::Failed);
                self.ended(row, &state);
            }
            _ => {}
        }
        self.status(&state);
    }

    fn ended(&self, row: &Row, state: &State) {
        let line = format!(
            "[{:>3}/{}] {} {:<8} {:>7.3} s  {}",
            state.ended,
            state.planned,
            self.paint(row.status),
            row.id,
            row.took.as_secs_f64(),
            row.reason.as_ref().unwrap_or(&row.title)
        );
        match row.status {
            Status::Failed => {
                self.say(&line);
                self.say(&failure(row));
            }
            _ if !self.quiet => self.say(&line),
            _ => {}
        }
    }

    fn status(&self, state: &State) {
        if !self.terminal || self.quiet {
            return;
        }
        let running: Vec<_> = state.running.iter().take(8).copied().collect();
        let more = state.running.len().saturating_sub(running.len());
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        let failed = if state.failed > 0 {
            format!(", {} failed", state.failed)
        } else {
            String::new()
        };
        let line = format!(
            "{} of {}{failed}; running {}{more}",
            state.ended,
            state.planned,
            running.join(" ")
        );
        let mut out = std::io::stdout();
        // As above.
        write!(out, "\r\x1b[K{line}").ok();
        out.flush().ok();
    }

    fn paint(&self, status: Status) -> String {
        let (word, colour) = match status {
            Status::Passed => ("pass", 32),
            Status::Failed => ("FAIL", 31),
            Status::NotImplemented => ("none", 33),
            _ => ("skip", 33),
        };
        if self.terminal {
            format!("\x1b[{colour}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    pub(super) fn finish(&self, report: &Report) {
        self.say("");
        let mut areas: BTreeMap<Area, [usize; 4]> = BTreeMap::new();
        for row in &report.rows {
            let counts = areas.entry(row.area).or_default();
            let place = match row.status {
                Status::Passed => 0,
                Status::Failed => 1,
                Status::NotImplemented => 3,
                _ => 2,
            };
            if let Some(count) = counts.get_mut(place) {
                *count += 1;
            }
        }
        self.say("area                                 passed  failed  skipped  not run");
        for (area, [passed, failed, skipped, not_run]) in areas {
            let line = format!(
                "{} {:<34}{passed:>6}{failed:>8}{skipped:>9}{not_run:>9}",
                area.code(),
                area.name()
            );
            self.say(&line);
        }
        let missing = |row: &&Row| row.required && matches!(row.status, Status::Skipped | Status::NotImplemented);
        let missing: Vec<_> = report.rows.iter().filter(missing).collect();
        if report.verdict == Verdict::Incomplete && !report.filtered {
            for row in missing {
                let reason = row.reason.as_deref().unwrap_or("not run");
                self.say(&format!("not checked: {:<8} {reason}", row.id));
            }
        }
        let filtered = if report.filtered {
            " (a filtered run cannot certify)"
        } else {
            ""
        };
        self.say(&format!(
            "\n{}{filtered}: {} in {:.1} s, seed {}",
            report.verdict, report.provider, report.environment.wall_seconds, report.seed
        ));
    }
}

fn failure(row: &Row) -> String {
    let mut lines = Vec::new();
    if let Some(failure) = &row.failure {
        lines.push(format!("      promise   {}", row.title));
        lines.push(format!("      expected  {}", failure.expected));
        lines.push(format!("      seen      {}", failure.seen));
    }
    let hidden = row.trace.len().saturating_sub(TRACE_LINES);
    if hidden + row.trace_dropped > 0 {
        lines.push(format!(
            "      trace     (the last {TRACE_LINES} of {} lines)",
            row.trace.len() + row.trace_dropped
        ));
    } else {
        lines.push("      trace".into());
    }
    for line in row.trace.iter().skip(hidden) {
        lines.push(format!("        {line}"));
    }
    lines.push(format!("      alone     {}", row.rerun));
    lines.join("\n")
}
