//! `cargo xtask bench`: figures, in a release build.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    packages::{self, Package},
    process,
};

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// The contract engine: durable acks, lists, restart, memory
    Engine(Engine),
    /// libvirt-rpc beside libvirt's own client, a bare echo and prepared packets: calls, streams, events
    Rpc(Rpc),
}

#[derive(Debug, Args)]
pub(crate) struct Engine {
    /// Size of the small fleet
    #[arg(long, default_value_t = 8_000)]
    small: usize,
    /// Size of the large fleet
    #[arg(long, default_value_t = 100_000)]
    large: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Rpc {
    /// A short run that shows that everything works; its figures mean little
    #[arg(long)]
    quick: bool,
    /// More arguments for the program that measures, after `--`; its own `--help` lists them
    #[arg(last = true)]
    more: Vec<String>,
}

/// A real daemon, and what libvirt's own client is built from.
const RPC_PACKAGES: &[Package] = &[
    ("libvirtd", "libvirt-daemon-system"),
    ("/usr/include/libvirt/libvirt.h", "libvirt-dev"),
    ("cc", "gcc"),
];

/// Runs a benchmark, which prints its table itself.
///
/// # Errors
/// When it cannot be built or fails. A missed goal is no failure: the table says so.
pub(crate) fn run(what: &What) -> Result<()> {
    match what {
        What::Engine(Engine { small, large }) => process::run(&mut process::cargo([
            "bench",
            "--package=providerkit",
            "--bench=engine",
            "--",
            &format!("--small={small}"),
            &format!("--large={large}"),
        ])),
        What::Rpc(Rpc { quick, more }) => {
            packages::install(RPC_PACKAGES, &["libvirt-daemon-driver-qemu"])?;
            let mut command = process::cargo(["run", "--release", "--package=rpc-bench", "--"]);
            command.args(quick.then_some("--quick"));
            command.args(more);
            process::run(&mut command)
        }
    }
}
