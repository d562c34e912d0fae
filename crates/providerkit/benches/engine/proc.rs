//! What the kernel says of a process.

use std::{fs, time::Duration};

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
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may contain anything; after it come state (3) to utime (14) and stime (15).
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut ticks = 0;
    for field in after_name.split_whitespace().skip(11).take(2) {
        ticks += field.parse::<u32>()?;
    }
    Ok(TICK * ticks)
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
