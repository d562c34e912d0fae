//! `cargo xtask certify`: our own certificate, by the conformance harness.

mod report;
mod summary;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::report::Report;
use crate::{
    interrupt,
    lab::{self, Host, Image, Lab, quoted},
    process, workspace,
};

/// Where the summary of both certificates is published.
const DOCUMENT: &str = "docs/certification.md";

/// Makes fake hosts and guests that fail on demand. B1006 is about a provider that fails what a restart finds under way.
const FAULTS: &str = "--use-fake-backend --set=fake.faults=true --on-restart=fail";

/// What every limit is multiplied by on real guests: emulated, a machine boots in 10 to 40 seconds, where a fake one
/// takes 20 ms and the limits of the registry are seconds.
const FACTOR: &str = "20.0";
/// Slots of each zone of the lab: the durable lane holds all machines of its behaviours over one kill, some twenty.
/// Elsewhere they are used again when none is fresh.
const SLOTS: u32 = 12;
/// Behaviours side by side.
const JOBS: &str = "4";
/// The hosts of the lab; the cloud profile wants more than one zone.
const HOSTS: u32 = 2;

#[derive(Debug, Default, Args)]
pub(crate) struct Arguments {
    /// Certify for core, cloud and durable on guests that boot, on libvirt hosts that are started for it; as root on
    /// Debian
    #[arg(long)]
    real: bool,
    /// Measure a release build, not the one that tests use
    #[arg(long, conflicts_with = "real")]
    release: bool,
    /// Machines of the scale lane [default: 8000]
    #[arg(long, value_name = "COUNT", conflicts_with = "real")]
    scale_seed: Option<u32>,
    /// Soak, too, for as long, such as 8h
    #[arg(long, value_name = "DURATION", conflicts_with = "real")]
    soak: Option<String>,
    /// Only these behaviours; the verdict is INCOMPLETE then
    #[arg(long, value_name = "PATTERNS")]
    filter: Option<String>,
    /// Write docs/certification.md from this certificate and the other's last
    #[arg(long, conflicts_with = "filter")]
    publish: bool,
}

impl Arguments {
    /// The real certificate, as it is usually made.
    pub(crate) fn on_guests() -> Self {
        Self {
            real: true,
            ..Self::default()
        }
    }
}

/// Which certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fake,
    Real,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Fake => "fake",
            Self::Real => "real",
        }
    }

    fn folder(self) -> PathBuf {
        workspace::target().join("certify").join(self.name())
    }
}

/// Builds, certifies, and leaves the reports in `target/certify`.
///
/// # Errors
/// When a promise is broken or could not be checked, or something is left on the hosts.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The whole workspace, whose dependencies have the features that tests built them with.
    let mut build = process::cargo(["build", "--workspace", "--bins"]);
    build.args(arguments.release.then_some("--release"));
    process::run(&mut build)?;
    let kind = if arguments.real { Kind::Real } else { Kind::Fake };
    let folder = kind.folder();
    // An older report must not be taken for that of a run that failed.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    match kind {
        Kind::Fake => fake(arguments, &folder)?,
        Kind::Real => real(arguments, &folder)?,
    }
    if arguments.publish {
        publish()?;
    }
    Ok(())
}

fn fake(arguments: &Arguments, folder: &Path) -> Result<()> {
    let provider = provider(arguments)?;
    let mut harness = harness(arguments, folder)?;
    harness
        .arg(format!("--provider={provider}"))
        .arg(format!("--fault-provider={provider} {FAULTS}"))
        .arg("--name=libvirt-provider on fake hosts")
        .arg(if arguments.soak.is_some() {
            "--profile=all,soak"
        } else {
            "--profile=all"
        });
    if let Some(count) = arguments.scale_seed {
        harness.arg(format!("--scale-seed={count}"));
    }
    if let Some(soak) = &arguments.soak {
        harness.arg(format!("--soak={soak}"));
    }
    process::run(&mut harness)
}

fn real(arguments: &Arguments, folder: &Path) -> Result<()> {
    lab::prepare()?;
    let image = Image::Tiny.ensure()?;
    // Neither that of `cargo xtask lab` nor that of the demo.
    let lab = Lab::new(workspace::target().join("lab-certify"));
    interrupt::defer()?;
    lab.down()?;
    let outcome = lab
        .up(HOSTS, &image)
        .and_then(|hosts| on_hosts(arguments, folder, &hosts));
    let down = lab.down().context("taking the lab down");
    outcome?;
    down.map(drop)
}

fn on_hosts(arguments: &Arguments, folder: &Path, hosts: &[Host]) -> Result<()> {
    let provider = provider(arguments)?;
    let words: Vec<String> = lab::arguments(hosts, SLOTS).iter().map(|word| quoted(word)).collect();
    let mapping = folder.join("mapping.toml");
    let text = format!("timeout_factor = {FACTOR}\n\n[flags]\nfake = \"\"\nseed_count = \"\"\n");
    fs::write(&mapping, text).with_context(|| format!("writing {}", mapping.display()))?;
    let mut harness = harness(arguments, folder)?;
    harness
        .arg(format!("--provider={provider} {}", words.join(" ")))
        .arg(format!("--mapping={}", mapping.display()))
        // A restart is a restart on whatever hosts: B1006 wants failures on demand, which real hosts do not offer.
        .arg(format!("--fault-provider={provider} {FAULTS}"))
        .args(["--name=libvirt-provider on QEMU guests", "--profile=core,cloud,durable"])
        .args(["--serial", "--jobs", JOBS]);
    let status = interrupt::status(&mut harness)?;
    if !status.success() {
        bail!(
            "the harness ended with {status}; its reports are in {}",
            folder.display()
        );
    }
    Ok(())
}

fn harness(arguments: &Arguments, folder: &Path) -> Result<Command> {
    let mut harness = Command::new(built("bigfleet-conformance", arguments));
    harness
        .arg("run")
        .arg(format!("--out={}", folder.display()))
        .current_dir(workspace::root());
    if let Some(filter) = &arguments.filter {
        harness.arg(format!("--filter={filter}"));
    }
    Ok(harness)
}

/// The provider, as a word of a command line.
fn provider(arguments: &Arguments) -> Result<String> {
    let path = built("libvirt-provider", arguments);
    let path = path.to_str().context("the target folder's path is not UTF-8")?;
    Ok(quoted(path))
}

fn built(name: &str, arguments: &Arguments) -> PathBuf {
    let profile = if arguments.release { "release" } else { "debug" };
    workspace::target().join(profile).join(name)
}

fn publish() -> Result<()> {
    let read = |kind: Kind, command: &str| {
        let path = kind.folder().join("report.json");
        Report::read(&path).with_context(|| format!("there is no certificate to publish; run `{command}`"))
    };
    let fake = read(Kind::Fake, "cargo xtask certify")?;
    let real = match Kind::Real.folder().join("report.json").exists() {
        true => Some(read(Kind::Real, "cargo xtask certify --real")?),
        false => None,
    };
    let path = workspace::root().join(DOCUMENT);
    fs::write(&path, summary::render(&fake, real.as_ref())).with_context(|| format!("writing {}", path.display()))?;
    println!("{DOCUMENT} is written");
    Ok(())
}
