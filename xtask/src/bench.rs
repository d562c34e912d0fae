//! `cargo xtask bench`: figures, in a release build.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    lab::{self, Image},
    packages::{self, Package},
    process,
};

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// The contract engine: durable acks, lists, restart, memory
    Engine(Engine),
    /// libvirt-rpc beside libvirt's own client, a bare echo and prepared packets: calls, streams, events
    Rpc(Rpc),
    /// From Create to IDLE beside a shell script with virsh and qemu-img; as root on Debian
    Create(Create),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// How often one machine is made by each
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// How many are made at once
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=64))]
    machines: u32,
    /// How often they are
    #[arg(long, default_value_t = 1)]
    parallel_rounds: u32,
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
        What::Create(Create {
            rounds,
            machines,
            parallel_rounds,
        }) => {
            lab::prepare()?;
            packages::install(&[("genisoimage", "genisoimage")], &[])?;
            let image = Image::Tiny.ensure()?;
            process::run(
                process::cargo([
                    "bench",
                    "--package=libvirt-backend",
                    "--bench=create",
                    "--",
                    &format!("--rounds={rounds}"),
                    &format!("--machines={machines}"),
                    &format!("--parallel-rounds={parallel_rounds}"),
                ])
                .env("LIBVIRT_PROVIDER_TINY_IMAGE", image),
            )
        }
        What::Rpc(Rpc { quick, more }) => {
            packages::install(RPC_PACKAGES, &["libvirt-daemon-driver-qemu"])?;
            let mut command = process::cargo(["run", "--release", "--package=rpc-bench", "--"]);
            command.args(quick.then_some("--quick"));
            command.args(more);
            process::run(&mut command)
        }
    }
}
