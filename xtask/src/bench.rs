//! `cargo xtask bench`: figures, in a release build.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// The contract engine: durable acks, lists, restart, memory
    Engine(Engine),
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
    }
}
