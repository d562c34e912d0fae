//! What is there to measure on, and who else uses it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// What is missing for a run.
pub(crate) fn check() -> Result<(), String> {
    for (program, package) in [
        ("libvirtd", "libvirt-daemon-system"),
        ("unshare", "util-linux"),
        ("taskset", "util-linux"),
        ("cc", "gcc"),
    ] {
        if !is_installed(program) {
            return Err(format!("{program} is missing (install {package})"));
        }
    }
    if !Path::new("/usr/include/libvirt/libvirt.h").exists() {
        return Err("libvirt's headers are missing (install libvirt-dev)".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("a libvirtd of its own needs root".to_owned());
    }
    match thread::available_parallelism() {
        Ok(cores) if cores.get() >= 2 => Ok(()),
        _ => Err("client and server need a core each".to_owned()),
    }
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .any(|folder| folder.join(program).exists())
}

/// Processor, cores and kernel.
pub(crate) fn facts() -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo").context("reading /proc/cpuinfo")?;
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("reading the kernel's version")?;
    let cores = thread::available_parallelism()?;
    let build = if cfg!(debug_assertions) {
        "debug build"
    } else {
        "release build"
    };
    Ok(format!("{model}, {cores} cores, Linux {}, {build}", kernel.trim()))
}

/// Where the kernel keeps the weight of everything that was started from this terminal.
const SESSION: &str = "/proc/self/autogroup";

/// While this lasts, what we start comes before what else runs on the machine, so that builds and the like disturb less.
pub(crate) struct Priority(());

impl Priority {
    /// # Errors
    /// When the kernel does not let us.
    pub(crate) fn highest() -> Result<Self> {
        rustix::process::setpriority_process(None, -20).context("taking the highest priority")?;
        Self::session("-20")?;
        Ok(Self(()))
    }

    /// Without this the priority of a process only counts within its session.
    fn session(nice: &str) -> Result<()> {
        if Path::new(SESSION).exists() {
            fs::write(SESSION, nice).with_context(|| format!("writing {SESSION}"))?;
        }
        Ok(())
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        // The session goes on after us.
        if let Err(error) = Self::session("0") {
            eprintln!("rpc-bench: {error:#}");
        }
    }
}

/// Linux counts the time of a process in hundredths of a second, on every machine it shows to programs.
const TICK: Duration = Duration::from_millis(10);

/// Everybody else on the machine, over a while.
pub(crate) struct Neighbours {
    since: Instant,
    busy: Duration,
    ours: Duration,
}

impl Neighbours {
    /// `server` is a process that lasts longer than the while; those that end within it are known anyway.
    pub(crate) fn watch(server: Option<u32>) -> Result<Self> {
        Ok(Self {
            since: Instant::now(),
            busy: busy()?,
            ours: ours(server)?,
        })
    }

    /// How many cores they took on average.
    pub(crate) fn cores(&self, server: Option<u32>) -> Result<f64> {
        let (busy, ours) = (busy()? - self.busy, ours(server)?.saturating_sub(self.ours));
        Ok(busy.saturating_sub(ours).as_secs_f64() / self.since.elapsed().as_secs_f64())
    }
}

/// The machine's time in user, nice and system mode, and what a hypervisor took.
fn busy() -> Result<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let all = text.lines().next().unwrap_or_default();
    let fields = all.split_whitespace().enumerate();
    sum(fields.filter_map(|(at, field)| matches!(at, 1..=3 | 8).then_some(field)))
}

fn ours(server: Option<u32>) -> Result<Duration> {
    let server = server.map_or(Ok(Duration::ZERO), |id| ticks(&format!("/proc/{id}/stat"), 2))?;
    Ok(ticks("/proc/self/stat", 4)? + server)
}

/// The first of utime, stime, and the same of children that have ended.
fn ticks(stat: &str, fields: usize) -> Result<Duration> {
    let text = fs::read_to_string(stat).with_context(|| format!("reading {stat}"))?;
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
