//! The table.

use std::{
    fmt,
    fs::File,
    io::Write as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Result,
    acks::{Acks, CALLERS, CONNECTIONS},
    lists::{Full, Ours},
    proc::Memory,
};

/// How long many calls took.
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// Nearest rank, in milliseconds.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(rank).copied().map_or(f64::NAN, ms)
    }
}

/// Everything measured at one size.
pub(crate) struct Figures {
    pub(crate) machines: usize,
    /// First start: an empty store, every slot seeded.
    pub(crate) seeded: Duration,
    pub(crate) acks: Acks,
    pub(crate) lists: Ours,
    pub(crate) naive: Full,
    pub(crate) restarts: Vec<Duration>,
    pub(crate) memory: Memory,
}

/// What the large fleet is held to.
struct Goal {
    text: &'static str,
    met: fn(f64) -> bool,
}

const ACKS: Goal = Goal {
    text: ">= 3000",
    met: |rate| rate >= 3_000.0,
};
const FLATNESS: Goal = Goal {
    text: ">= 0.80",
    met: |ratio| ratio >= 0.8,
};
const GET: Goal = Goal {
    text: "<= 2.00",
    met: |p99| p99 <= 2.0,
};
const LIST: Goal = Goal {
    text: ">= 5.00",
    met: |ratio| ratio >= 5.0,
};
const DELTA: Goal = Goal {
    text: "<= 0.20",
    met: |difference| difference <= 0.2,
};
const RESTART: Goal = Goal {
    text: "<= 0.50",
    met: |median| median <= 0.5,
};
const RESIDENT: Goal = Goal {
    text: "<= 165",
    met: |resident| resident <= 165.0,
};

struct Row {
    figure: &'static str,
    small: String,
    large: String,
    goal: &'static str,
    met: Option<bool>,
}

pub(crate) struct Report {
    sizes: [usize; 2],
    rows: Vec<Row>,
}

impl Report {
    /// Of the small fleet and the large one.
    pub(crate) fn new(figures: &[Figures; 2]) -> Self {
        let mut report = Self {
            sizes: figures.each_ref().map(|figures| figures.machines),
            rows: Vec::new(),
        };
        report.acks(figures);
        report.lists(figures);
        report.process(figures);
        report
    }

    /// A row with a figure of each size; the goal is for the large one.
    fn row(&mut self, figure: &'static str, figures: &[Figures; 2], of: impl Fn(&Figures) -> f64, goal: Option<Goal>) {
        let [small, large] = figures.each_ref().map(of);
        self.rows.push(Row {
            figure,
            small: number(small),
            large: number(large),
            goal: goal.as_ref().map_or("", |goal| goal.text),
            met: goal.map(|goal| (goal.met)(large)),
        });
    }

    fn acks(&mut self, figures: &[Figures; 2]) {
        let rate = |of: &Figures| of.acks.per_second;
        self.row("durable Create acks/s", figures, rate, Some(ACKS));
        let [small, large] = figures.each_ref().map(rate);
        self.rows.push(Row {
            figure: "  large fleet / small fleet",
            small: String::new(),
            large: number(large / small),
            goal: FLATNESS.text,
            met: Some((FLATNESS.met)(large / small)),
        });
        self.row("  ack p50, ms", figures, |of| of.acks.creates.percentile(50), None);
        self.row("  ack p99, ms", figures, |of| of.acks.creates.percentile(99), None);
        self.row("Get p50 meanwhile, ms", figures, |of| of.acks.gets.percentile(50), None);
        self.row(
            "Get p99 meanwhile, ms",
            figures,
            |of| of.acks.gets.percentile(99),
            Some(GET),
        );
        self.row(
            "Get p99 at 3,000 acks/s, ms",
            figures,
            |of| of.acks.paced_gets.percentile(99),
            Some(GET),
        );
    }

    fn lists(&mut self, figures: &[Figures; 2]) {
        self.row("full List, MB", figures, |of| of.lists.full.bytes as f64 / 1e6, None);
        self.row("  server CPU, ms", figures, |of| ms(of.lists.full.cpu), None);
        self.row("  server CPU, ms, naive", figures, |of| ms(of.naive.cpu), None);
        self.row(
            "  naive / ours",
            figures,
            |of| ms(of.naive.cpu) / ms(of.lists.full.cpu),
            Some(LIST),
        );
        self.row("  wall, ms", figures, |of| ms(of.lists.full.wall), None);
        self.row("  wall, ms, naive", figures, |of| ms(of.naive.wall), None);
        self.row("idle Get p50, ms", figures, |of| of.lists.get.percentile(50), None);
        self.row("empty delta p50, ms", figures, |of| of.lists.delta.percentile(50), None);
        self.row(
            "  delta - Get",
            figures,
            |of| of.lists.delta.percentile(50) - of.lists.get.percentile(50),
            Some(DELTA),
        );
    }

    fn process(&mut self, figures: &[Figures; 2]) {
        self.row("first start, s", figures, |of| of.seeded.as_secs_f64(), None);
        self.row(
            "restart to first Get, s, best",
            figures,
            |of| sorted(&of.restarts, 0),
            None,
        );
        self.row(
            "restart to first Get, s, median",
            figures,
            |of| sorted(&of.restarts, of.restarts.len() / 2),
            Some(RESTART),
        );
        self.row(
            "resident after all that, MB",
            figures,
            |of| of.memory.now as f64 / 1e6,
            Some(RESIDENT),
        );
        self.row("  peak", figures, |of| of.memory.peak as f64 / 1e6, None);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [small, large] = self.sizes;
        writeln!(f, "{:<32} {small:>10} {large:>10}   {:<8} ", "machines", "goal")?;
        for row in &self.rows {
            let verdict = match row.met {
                Some(true) => "ok",
                Some(false) => "MISSED",
                None => "",
            };
            writeln!(
                f,
                "{:<32} {:>10} {:>10}   {:<8} {verdict}",
                row.figure, row.small, row.large, row.goal
            )?;
        }
        Ok(())
    }
}

/// What the figures depend on.
pub(crate) fn circumstances(folder: &Path, neighbours: f64) -> Result<String> {
    let cores = thread::available_parallelism()?;
    let (sync, neighbours) = (number(sync_latency(folder)?.percentile(50)), number(neighbours));
    Ok(format!(
        "{cores} cores shared by client and server, {neighbours} of them taken by other processes\n\
         {CALLERS} callers on {CONNECTIONS} connections; a 4 KiB write and fdatasync takes {sync} ms\n\n"
    ))
}

fn sync_latency(folder: &Path) -> Result<Latencies> {
    let mut file = File::create(folder.join("sync"))?;
    let mut latencies = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        latencies.push(begun.elapsed());
    }
    Ok(Latencies::new(latencies))
}

fn sorted(times: &[Duration], rank: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(rank).map_or(f64::NAN, Duration::as_secs_f64)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn number(value: f64) -> String {
    let decimals = if value.abs() >= 1_000.0 {
        0
    } else if value.abs() >= 100.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}
