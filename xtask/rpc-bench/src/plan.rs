//! What is measured, in which order, and what it is held to.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use tempfile::TempDir;

use crate::{
    daemon::{self, Libvirtd},
    machine::{self, Neighbours, Priority},
    process::{CLIENT, SERVER, Server, pinned, role, sample},
    role::{Call, hash},
    rounds::{Figure, Rounds},
    sample::Sample,
    table::{Goal, Table},
};

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Calls on a real daemon, beside libvirt's own client
    Calls,
    /// Calls on the fake daemon, beside a bare echo
    Fake,
    /// A volume up and down, beside prepared packets
    Streams,
    /// Events
    Events,
}

/// How long and how often.
pub(crate) struct Plan {
    quick: bool,
    parts: Vec<Part>,
    rounds: u64,
    pub(crate) milliseconds: u64,
    pub(crate) volume_mib: u64,
}

const MIB: f64 = (1 << 20) as f64;

impl Plan {
    pub(crate) fn new(quick: bool, only: Vec<Part>) -> Self {
        let all = vec![Part::Calls, Part::Fake, Part::Streams, Part::Events];
        let parts = if only.is_empty() { all } else { only };
        let (rounds, milliseconds, volume_mib) = if quick { (2, 50, 8) } else { (5, 1000, 1024) };
        Self {
            quick,
            parts,
            rounds,
            milliseconds,
            volume_mib,
        }
    }
}

/// Measures and prints the table.
///
/// # Errors
/// When something cannot be measured. A missed goal is no failure: the table says so.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let begun = Instant::now();
    let _priority = (!plan.quick).then(Priority::highest).transpose()?;
    let dir = tempfile::tempdir().context("making a folder to work in")?;
    let mut bench = Bench::start(plan, dir)?;
    for part in &plan.parts {
        eprintln!("measuring {part:?}");
        let daemon = Some(bench.daemon.id()?);
        let neighbours = Neighbours::watch(daemon)?;
        match part {
            Part::Calls => bench.calls()?,
            Part::Fake => bench.fake()?,
            Part::Streams => bench.streams()?,
            Part::Events => bench.events()?,
        }
        let cores = neighbours.cores(daemon)?;
        bench.table.note(format!("(others took {cores:.2} cores meanwhile)"));
    }
    println!("{}; libvirtd {}", machine::facts()?, bench.version);
    let (rounds, seconds) = (plan.rounds, begun.elapsed().as_secs());
    println!("medians of {rounds} rounds in turn, ± half their range; server on core 0, client on core 1; {seconds} s");
    println!("{}", bench.table);
    Ok(())
}

struct Bench<'a> {
    plan: &'a Plan,
    table: Table,
    version: String,
    // Before the folder it works in.
    daemon: Libvirtd,
    dir: TempDir,
}

impl<'a> Bench<'a> {
    fn start(plan: &'a Plan, dir: TempDir) -> Result<Self> {
        let daemon = Libvirtd::start(dir.path())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let version = runtime.block_on(daemon.version())?;
        if plan.parts.contains(&Part::Streams) {
            let bytes = plan.volume_mib << 20;
            runtime
                .block_on(daemon.make_volume(bytes))
                .context("making the volume")?;
        }
        Ok(Self {
            plan,
            table: Table::default(),
            version,
            daemon,
            dir,
        })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn milliseconds(&self) -> String {
        self.plan.milliseconds.to_string()
    }

    fn calls(&mut self) -> Result<()> {
        let theirs = daemon::c_client(self.path())?;
        let uri = self.daemon.uri("test", "/default");
        let milliseconds = self.milliseconds();
        self.table.section("real libvirtd, test:///default", "C client");
        for depth in [1, 4] {
            for call in Call::ALL {
                let arguments = [&uri, call.argument(), &depth.to_string(), &milliseconds];
                let rounds = Rounds::alternate(
                    self.plan.rounds,
                    |_| sample(role(CLIENT, "calls")?.args(arguments)),
                    |_| sample(pinned(CLIENT, &theirs).args(arguments)),
                )?;
                let name = call.name();
                let what = format!("{name}, depth {depth}: calls/s");
                self.compare(what, &rounds, Sample::per_second, Some(Goal::Ratio(1.0)));
                self.compare(
                    "  client CPU, us/call",
                    &rounds,
                    Sample::cpu_us,
                    Some(Goal::AtMost(8.0)),
                );
            }
        }
        Ok(())
    }

    fn fake(&mut self) -> Result<()> {
        let (fake, echo) = (self.path().join("fake"), self.path().join("echo"));
        let _fake = Server::start(role(SERVER, "fake")?.arg(&fake), &fake)?;
        let _echo = Server::start(role(SERVER, "echo")?.arg(&echo), &echo)?;
        let uri = format!("test+unix:///default?socket={}", fake.display());
        let milliseconds = self.milliseconds();
        self.table.section("fake daemon, GET_LIB_VERSION", "bare echo");
        for (depth, goal) in [(1, Goal::Ratio(0.7)), (64, Goal::AtLeast(150_000.0))] {
            let number = depth.to_string();
            let call = Call::LibVersion.argument();
            let rounds = Rounds::alternate(
                self.plan.rounds,
                |_| sample(role(CLIENT, "calls")?.args([&uri, call, &number, &milliseconds])),
                |_| sample(role(CLIENT, "ping")?.arg(&echo).args([&number, &milliseconds])),
            )?;
            self.compare(
                format!("depth {depth}: calls/s"),
                &rounds,
                Sample::per_second,
                Some(goal),
            );
            self.compare("  client CPU, us/call", &rounds, Sample::cpu_us, None);
        }
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let uri = self.daemon.uri("qemu", "/system");
        let socket = self.daemon.socket();
        let size = self.plan.volume_mib;
        let bytes = (size << 20).to_string();
        self.table
            .section(format!("a volume of {size} MiB in memory"), "raw probe");
        let verified = |sample: Sample| -> Result<Sample> {
            let stored = hash::of(self.daemon.volume()?)?;
            let there = &sample.note;
            ensure!(
                stored == *there,
                "the volume is {stored}, and {there} went over the wire"
            );
            Ok(sample)
        };
        let upload = |seed: u64| verified(sample(role(CLIENT, "upload")?.args([&uri, &bytes, &seed.to_string()]))?);
        // The first one also takes the memory.
        upload(u64::MAX)?;
        let uploads = Rounds::alternate(
            self.plan.rounds,
            |round| upload(2 * round),
            |round| {
                let seed = (2 * round + 1).to_string();
                verified(sample(role(CLIENT, "raw-upload")?.arg(&socket).args([&bytes, &seed]))?)
            },
        )?;
        let downloads = Rounds::alternate(
            self.plan.rounds,
            |_| verified(sample(role(CLIENT, "download")?.args([&uri, &bytes]))?),
            |_| verified(sample(role(CLIENT, "raw-download")?.arg(&socket).arg(&bytes))?),
        )?;
        for (what, rounds) in [("upload", &uploads), ("download", &downloads)] {
            let rate = |sample: &Sample| sample.per_second() / MIB;
            self.compare(format!("{what}: MiB/s"), rounds, rate, Some(Goal::Ratio(0.9)));
            let cpu = |sample: &Sample| sample.cpu_us() * MIB;
            self.compare("  client CPU, us/MiB", rounds, cpu, None);
        }
        Ok(())
    }

    fn events(&mut self) -> Result<()> {
        let uri = self.daemon.uri("test", "/default");
        let milliseconds = self.milliseconds();
        self.table.section(
            "domains paused and resumed by one connection, every subscriber on another",
            "",
        );
        for subscribers in [1, 50] {
            let number = subscribers.to_string();
            let mut samples = Vec::new();
            for _ in 0..self.plan.rounds {
                samples.push(sample(role(CLIENT, "events")?.args([&uri, &number, &milliseconds]))?);
            }
            let figure = |of: &dyn Fn(&Sample) -> f64| Figure::of(samples.iter().map(of).collect());
            let plural = if subscribers == 1 { "" } else { "s" };
            let what = format!("{subscribers} subscriber{plural}: delivered/s");
            self.table.line(what, figure(&Sample::per_second), None, None);
            let what = "  client CPU, us/event and its cause";
            self.table.line(what, figure(&Sample::cpu_us), None, None);
            let missed: u64 = samples
                .iter()
                .filter_map(|sample| sample.note.parse::<u64>().ok())
                .sum();
            let delivered: u64 = samples.iter().map(|sample| sample.count).sum();
            self.table
                .note(format!("  {delivered} delivered in all, {missed} missed"));
        }
        Ok(())
    }

    fn compare(&mut self, what: impl Into<String>, rounds: &Rounds, of: impl Fn(&Sample) -> f64, goal: Option<Goal>) {
        let (ours, other, ratio) = rounds.compare(of);
        self.table.line(what, ours, Some((other, ratio)), goal);
    }
}
