//! `cargo xtask demo`: the provider and a client that walks machines through their life, on this machine only.

mod provider;
mod real;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::provider::Provider;
use crate::{interrupt, process, workspace};

/// How long each step of a machine of a fake host takes at least: long enough to be seen.
const DELAY: &str = "600ms";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Make real virtual machines, on libvirt hosts that are started for it and taken down again; as root on Debian
    #[arg(long)]
    real: bool,
    /// How many hosts there are, each a zone
    #[arg(long, default_value_t = 2, requires = "real", value_parser = clap::value_parser!(u32).range(1..=64))]
    hosts: u32,
    /// How many machines walk
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    machines: u32,
}

/// Builds, starts the provider, runs the client against it, and stops the provider.
///
/// # Errors
/// When a machine does not come back to where it began, the provider does not end cleanly, or something is left.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    process::run(&mut process::cargo([
        "build",
        "--package=libvirt-provider",
        "--bin=libvirt-provider",
        "--example=demo",
    ]))?;
    let folder = workspace::target().join("xtask/demo");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let log = folder.join("provider.log");
    let outcome = if arguments.real {
        real::run(&folder, &log, arguments.hosts, arguments.machines)
    } else {
        on_fake_hosts(&folder, &log, arguments.machines)
    };
    match outcome {
        Ok(()) => {
            println!("provider stopped cleanly; its log is {}", log.display());
            Ok(())
        }
        Err(error) => Err(error.context(format!("the provider's log is {}", log.display()))),
    }
}

fn on_fake_hosts(folder: &Path, log: &Path, machines: u32) -> Result<()> {
    let arguments = [
        "--use-fake-backend".to_owned(),
        format!("--seed-count={}", machines.saturating_mul(4)),
        format!("--set=fake.delay={DELAY}"),
    ];
    serve(folder, log, &arguments, |address| walk(address, machines, &[]))
}

/// Does something with a provider, and stops it.
fn serve(folder: &Path, log: &Path, arguments: &[String], work: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let mut provider = Provider::start(folder, log, arguments)?;
    let address = provider.address;
    let worked = provider.ready().and_then(|()| work(address));
    let stopped = provider.stop();
    worked.and(stopped)
}

fn walk(address: SocketAddr, machines: u32, more: &[String]) -> Result<()> {
    let mut client = process::bound(client());
    client
        .arg(format!("--addr={address}"))
        .arg(format!("--machines={machines}"))
        .args(more);
    let status = interrupt::status(&mut client)?;
    if !status.success() {
        bail!("the demo client failed: {status}");
    }
    Ok(())
}

fn client() -> PathBuf {
    workspace::target().join("debug/examples/demo")
}
