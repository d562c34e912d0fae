//! One measurement, as the process that made it prints it.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

/// So much of something, in so much time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Calls, bytes or events.
    pub(crate) count: u64,
    pub(crate) wall: Duration,
    /// Of the process, its kernel part included.
    pub(crate) cpu: Duration,
    /// What the parent has to check, if anything: a hash, a number of events lost.
    pub(crate) note: String,
}

impl Sample {
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds of CPU time for each.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count as f64
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, wall, cpu, note } = self;
        write!(f, "sample {count} {} {} {note}", wall.as_nanos(), cpu.as_nanos())
    }
}

impl FromStr for Sample {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut words = line.split_whitespace().skip_while(|word| *word != "sample").skip(1);
        let mut number = || words.next()?.parse::<u64>().ok();
        let numbers = (|| Some((number()?, number()?, number()?)))();
        let (count, wall, cpu) = numbers.with_context(|| format!("`{}` is no sample", line.trim()))?;
        anyhow::ensure!(count > 0 && wall > 0, "nothing happened: `{}`", line.trim());
        Ok(Self {
            count,
            wall: Duration::from_nanos(wall),
            cpu: Duration::from_nanos(cpu),
            note: words.next().unwrap_or_default().to_owned(),
        })
    }
}

/// Runs while something is measured.
pub(crate) struct Clock {
    wall: Instant,
    cpu: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            cpu: cpu(),
            wall: Instant::now(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }

    pub(crate) fn stop(&self, count: u64) -> Sample {
        Sample {
            count,
            wall: self.wall.elapsed(),
            cpu: cpu().saturating_sub(self.cpu),
            note: String::new(),
        }
    }
}

/// CPU time of this process: what `getrusage` adds up as user and system time, to the nanosecond.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_as_it_is_written() {
        let sample = Sample {
            count: 5,
            wall: Duration::from_millis(2),
            cpu: Duration::from_micros(40),
            note: "f00".to_owned(),
        };
        assert_eq!(sample.to_string().parse::<Sample>().unwrap(), sample);
        assert_eq!((sample.per_second(), sample.cpu_us()), (2500.0, 8.0));
        for nonsense in ["", "sample", "sample 1 2", "sample 0 5 5", "sample a b c"] {
            assert!(nonsense.parse::<Sample>().is_err(), "{nonsense}");
        }
    }
}
