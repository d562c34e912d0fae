//! What the kernel says of a process.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::Result;

/// Linux counts the time of a process in hundredths of a second, on every machine it shows to programs.
const TICK: Duration = Duration::from_millis(10);

/// Resident memory, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// CPU time used so far, by all threads, in user and kernel mode.
pub(crate) fn cpu(process: u32) -> Result<Duration> {
    ticks(&format!("/proc/{process}/stat"), 2)
}

/// The first of utime, stime, and the same of children that have ended.
fn ticks(stat: &str, fields: usize) -> Result<Duration> {
    let text = fs::read_to_string(stat)?;
    // The name, in parentheses, may contain anything; after it come state (3) to utime (14).
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    sum(after_name.split_whitespace().skip(11).take(fields))
}

fn sum<'a>(fields: impl Iterator<Item = &'a str>) -> Result<Duration> {
    let mut ticks = 0;
    for field in fields {
        ticks += field.parse::<u32>()?;
    }
    Ok(TICK * ticks)
}

/// Everybody else on the machine, over a while in which all our children are started and ended.
pub(crate) struct Neighbours {
    since: Instant,
    busy: Duration,
    ours: Duration,
}

impl Neighbours {
    pub(crate) fn watch() -> Result<Self> {
        Ok(Self {
            since: Instant::now(),
            busy: Self::busy()?,
            ours: Self::ours()?,
        })
    }

    /// How many cores they took on average.
    pub(crate) fn cores(&self) -> Result<f64> {
        let (busy, ours) = (Self::busy()? - self.busy, Self::ours()? - self.ours);
        Ok(busy.saturating_sub(ours).as_secs_f64() / self.since.elapsed().as_secs_f64())
    }

    /// The machine's time in user, nice and system mode, and what a hypervisor took.
    fn busy() -> Result<Duration> {
        let text = fs::read_to_string("/proc/stat")?;
        let all = text.lines().next().unwrap_or_default();
        let fields = all.split_whitespace().enumerate();
        sum(fields.filter_map(|(at, field)| matches!(at, 1..=3 | 8).then_some(field)))
    }

    fn ours() -> Result<Duration> {
        ticks("/proc/self/stat", 4)
    }
}

pub(crate) fn memory(process: u32) -> Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kib
            .ok_or_else(|| format!("no {name} for process {process}"))?
            .parse::<u64>()?
            * 1024)
    };
    Ok(Memory {
        now: field("VmRSS:")?,
        peak: field("VmHWM:")?,
    })
}
