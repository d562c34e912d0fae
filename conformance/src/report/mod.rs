//! What a run found.

mod badge;
mod html;
mod json;
mod junit;

use std::{fmt, fs, path::Path, time::Duration};

use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    behaviour::{Area, Behaviour, Lane, Profile},
    context::Context,
    error::Error,
    latency::Histogram,
    options::{Options, Source},
    outcome::{Outcome, Stop},
    trace::Line,
};

/// How a behaviour came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// The promise was kept.
    Passed,
    /// It was broken.
    Failed,
    /// It could not be checked, or is not claimed.
    Skipped,
    /// It was not run.
    NotImplemented,
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::NotImplemented => "not_implemented",
        })
    }
}

/// What is said of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Verdict {
    /// Everything that the profiles need was checked and kept.
    Certified,
    /// Nothing was broken, but something was not checked.
    Incomplete,
    /// Something was broken.
    Failed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Certified => "CERTIFIED",
            Self::Incomplete => "INCOMPLETE",
            Self::Failed => "FAILED",
        })
    }
}

/// What became of one behaviour.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Its chapter.
    pub area: Area,
    /// What is promised.
    pub title: String,
    /// Who suffers otherwise.
    pub why: String,
    /// How it was checked.
    pub how: String,
    /// The profiles that need it.
    pub profiles: Vec<Profile>,
    /// On which kind of process.
    pub lane: Lane,
    /// Whether the verdict depends on it.
    pub required: bool,
    /// How it came out.
    pub status: Status,
    /// Why it was skipped.
    pub reason: Option<String>,
    /// What was expected and what was seen, where it failed.
    pub failure: Option<crate::Failure>,
    /// The calls that were made.
    pub trace: Vec<Line>,
    /// How many lines of it are missing at its beginning.
    pub trace_dropped: usize,
    /// How long it took.
    pub took: Duration,
    /// Stands for all numbers that were drawn: the same for a seed.
    pub draws: u64,
    /// Runs it alone.
    pub rerun: String,
}

impl Row {
    pub(crate) fn new(behaviour: &Behaviour, outcome: Outcome) -> Self {
        let (status, reason, failure) = match outcome {
            Ok(()) => (Status::Passed, None, None),
            Err(Stop::Failed(failure)) => (Status::Failed, None, Some(*failure)),
            Err(Stop::Skipped(why)) => (Status::Skipped, Some(why), None),
        };
        Self {
            id: behaviour.id.into(),
            area: behaviour.area,
            title: behaviour.title.into(),
            why: behaviour.why.into(),
            how: behaviour.how.into(),
            profiles: behaviour.profiles.to_vec(),
            lane: behaviour.lane,
            required: true,
            status,
            reason,
            failure,
            trace: Vec::new(),
            trace_dropped: 0,
            took: Duration::ZERO,
            draws: 0,
            rerun: String::new(),
        }
    }

    pub(crate) fn not_claimed(behaviour: &Behaviour, excuse: String) -> Self {
        let mut row = Self::new(behaviour, Err(Stop::Skipped(excuse)));
        row.required = false;
        row
    }

    pub(crate) fn ran(mut self, context: &Context, took: Duration, options: &Options) -> Self {
        (self.trace, self.trace_dropped) = context.session().trace.take();
        self.took = took;
        let random = context.random.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.draws = random.digest();
        drop(random);
        let profile = self.profiles.first().map_or("core", |profile| profile.name());
        self.rerun = format!(
            "{} --profile {profile} --seed {} --filter {}",
            options.rerun, options.seed, self.id
        );
        self
    }

    /// Whether it is a test of the upstream baseline.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        self.area == Area::Baseline
    }
}

/// Where and how it was run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Environment {
    /// `linux`.
    pub os: String,
    /// `x86_64`.
    pub arch: String,
    /// How many processors the harness may use.
    pub cpus: usize,
    /// The harness.
    pub harness_version: String,
    /// How the provider was reached.
    pub provider_source: String,
    /// What limits were multiplied by.
    pub timeout_factor: f64,
    /// How many ran side by side at most.
    pub jobs: usize,
    /// How many machines the core lane was started with.
    pub seed_count: usize,
    /// How many the scale lane.
    pub scale_seed: usize,
    /// Seconds that what soaks did so.
    pub soak_seconds: f64,
    /// Seconds that all of it took.
    pub wall_seconds: f64,
}

/// To the second, in UTC.
fn now() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0)
        .unwrap_or(now)
        .format(&Rfc3339)
        .unwrap_or_default()
}

impl Environment {
    pub(crate) fn of(options: &Options, wall: Duration) -> Self {
        Self {
            os: std::env::consts::OS.into(),
            arch: std::env::consts::ARCH.into(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            harness_version: env!("CARGO_PKG_VERSION").into(),
            provider_source: match &options.source {
                Source::Target(address) => format!("target {address}"),
                Source::Command(command) => format!("command {command}"),
            },
            timeout_factor: options.factor(),
            jobs: options.jobs,
            seed_count: options.seed_count,
            scale_seed: options.scale_seed,
            soak_seconds: options.soak.as_secs_f64(),
            wall_seconds: wall.as_secs_f64(),
        }
    }
}

/// How many came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// All.
    pub tests: usize,
    /// Kept.
    pub passed: usize,
    /// Broken.
    pub failed: usize,
    /// Not checked.
    pub skipped: usize,
    /// Not run.
    #[serde(skip)]
    pub not_run: usize,
}

impl Tally {
    pub(crate) fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut tally = Self::default();
        for row in rows {
            tally.tests += 1;
            *match row.status {
                Status::Passed => &mut tally.passed,
                Status::Failed => &mut tally.failed,
                Status::Skipped => &mut tally.skipped,
                Status::NotImplemented => &mut tally.not_run,
            } += 1;
        }
        tally
    }
}

/// What a run found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The provider's name.
    pub provider: String,
    /// What it was to be certified for.
    pub profiles: Vec<Profile>,
    /// RFC 3339.
    pub timestamp: String,
    /// What made-up arguments came from.
    pub seed: u64,
    /// Whether only a part was to be run.
    pub filtered: bool,
    /// Where and how.
    pub environment: Environment,
    /// All behaviours of the profiles, in the order of the registry.
    pub rows: Vec<Row>,
    /// How long calls took, by lane and method.
    pub latencies: Vec<Histogram>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Report {
    pub(crate) fn new(options: &Options, environment: Environment, rows: Vec<Row>, latencies: Vec<Histogram>) -> Self {
        Self {
            provider: options.name.clone(),
            profiles: options.profiles.clone(),
            timestamp: now(),
            seed: options.seed,
            filtered: options.filter.is_some() || options.lanes.is_some(),
            environment,
            verdict: judge(&rows),
            rows,
            latencies,
        }
    }

    /// Whether everything that was run was kept: what a filtered run can say.
    #[must_use]
    pub fn all_run_passed(&self) -> bool {
        let mut run = self
            .rows
            .iter()
            .filter(|row| row.required && row.status != Status::NotImplemented);
        run.all(|row| row.status == Status::Passed)
    }

    /// Writes `report.json`, `junit.xml`, `badge.json` and `report.html` into a folder.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let failed = |path: &Path| format!("`{}` cannot be written", path.display());
        fs::create_dir_all(folder).map_err(|source| Error::because(failed(folder), source))?;
        let files = [
            ("report.json", json::render(self)?),
            ("junit.xml", junit::render(self)),
            ("badge.json", badge::render(self)?),
            ("report.html", html::render(self)),
        ];
        for (name, text) in files {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|source| Error::because(failed(&path), source))?;
        }
        Ok(())
    }

    /// `report.json` as text.
    ///
    /// # Errors
    /// None that is known.
    pub fn json(&self) -> Result<String, Error> {
        json::render(self)
    }
}

/// A skipped behaviour is never a pass.
fn judge(rows: &[Row]) -> Verdict {
    let mut verdict = Verdict::Certified;
    for row in rows.iter().filter(|row| row.required) {
        match row.status {
            Status::Failed => return Verdict::Failed,
            Status::Passed => {}
            Status::Skipped | Status::NotImplemented => verdict = Verdict::Incomplete,
        }
    }
    if rows.iter().any(|row| row.status == Status::Passed) {
        verdict
    } else {
        Verdict::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(status: Status, required: bool) -> Row {
        let mut row = Row::new(&crate::registry::all()[0], Ok(()));
        (row.status, row.required) = (status, required);
        row
    }

    #[test]
    fn a_skipped_behaviour_is_never_a_pass() {
        use Status::{Failed, NotImplemented, Passed, Skipped};
        for (rows, expected) in [
            (vec![row(Passed, true)], Verdict::Certified),
            (vec![row(Passed, true), row(Skipped, true)], Verdict::Incomplete),
            (vec![row(Passed, true), row(NotImplemented, true)], Verdict::Incomplete),
            (vec![row(Passed, true), row(Skipped, false)], Verdict::Certified),
            (vec![row(Skipped, true), row(Failed, true)], Verdict::Failed),
            (vec![row(Skipped, false)], Verdict::Incomplete),
            (vec![], Verdict::Incomplete),
        ] {
            assert_eq!(judge(&rows), expected, "{rows:?}");
        }
    }
}
