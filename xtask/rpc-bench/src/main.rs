//! What libvirt-rpc costs: beside libvirt's own client on a real daemon, beside the bare pipe on the fake one.
//!
//! `cargo xtask bench rpc` runs it; `docs/performance.md` says what it measures and how. Every measurement is a process
//! of its own, which is this program in one of its roles (or the C client), so that its CPU time is nobody else's.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to the terminal"
)]

mod daemon;
mod machine;
mod plan;
mod process;
mod role;
mod rounds;
mod sample;
mod table;

use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(about = "What libvirt-rpc costs, beside libvirt's own client and the pipe itself")]
struct Cli {
    /// A short run that shows that everything works; its figures mean little
    #[arg(long)]
    quick: bool,
    /// Only these parts of it
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<plan::Part>,
    /// How long each measurement of calls and events lasts
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    milliseconds: Option<u64>,
    /// How large the volume is
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=4096))]
    volume_mib: Option<u64>,
    #[command(subcommand)]
    role: Option<role::Role>,
}

/// What is needed is not here.
const CANNOT: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(role) = cli.role {
        return verdict(role.run());
    }
    if let Err(missing) = machine::check() {
        eprintln!("cannot measure here: {missing}");
        return ExitCode::from(CANNOT);
    }
    let mut plan = plan::Plan::new(cli.quick, cli.only);
    plan.milliseconds = cli.milliseconds.unwrap_or(plan.milliseconds);
    plan.volume_mib = cli.volume_mib.unwrap_or(plan.volume_mib);
    verdict(plan::run(&plan))
}

fn verdict(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rpc-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
