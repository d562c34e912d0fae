//! `cargo xtask crash`: the crash test of the suite, with more rounds and in sight.

use anyhow::{Result, bail};
use clap::Args;

use crate::{process, test::Counts};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many times the provider is killed
    #[arg(long, default_value_t = 300)]
    rounds: u32,
    /// Where the randomness starts; without it the test chooses, and says what it chose
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the crash test.
///
/// # Errors
/// When it fails, or when there is no such test.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = process::cargo([
        "test",
        "--package=libvirt-provider",
        "--test=it",
        "crash::",
        "--",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env("LP_CRASH_ROUNDS", arguments.rounds.to_string());
    if let Some(seed) = arguments.seed {
        command.env("LP_CRASH_SEED", seed.to_string());
    }
    let mut counts = Counts::default();
    let succeeded = process::watch(&mut command, |line| counts.read(line))?;
    if !succeeded {
        bail!("the crash test failed; the seed it printed repeats it");
    }
    if counts.passed == 0 {
        bail!("no crash test ran");
    }
    Ok(())
}
