//! The project's own commands. `cargo xtask --help` lists them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to the terminal"
)]

mod bench;
mod certify;
mod chart;
mod codegen;
mod crash;
mod demo;
mod image;
mod interrupt;
mod lab;
mod libvirt;
mod packages;
mod pinned;
mod process;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's own commands", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the provider, start it, and walk machines through their whole life over gRPC
    Demo(demo::Arguments),
    /// Private libvirt hosts on this machine, with a golden image, to try the provider on
    Lab {
        #[command(subcommand)]
        what: lab::What,
    },
    /// Certify the provider with the conformance harness: on fake hosts, or on guests that boot
    Certify(certify::Arguments),
    /// Pass every check there is: format, tests, doc tests, lints
    Test,
    /// Check layers, file sizes, manifests, words and generated code
    Tidy,
    /// Measure in a release build; prints one table
    Bench {
        #[command(subcommand)]
        what: bench::What,
    },
    /// Kill the provider at random moments and hold it to every answer it gave
    Crash(crash::Arguments),
    /// Regenerate what of the chart is generated: the schema of its values, and their table
    Chart(chart::Arguments),
    /// Build the static binary of the provider's image, for its tests or as it is released
    Image(image::Arguments),
    /// Install a program that checks need, pinned by its hash, and print where it is
    Tool {
        #[arg(value_enum)]
        which: pinned::Pinned,
    },
    /// Regenerate the committed Rust from proto/
    Codegen {
        /// Only compare; fail if a file would change
        #[arg(long)]
        check: bool,
        #[command(subcommand)]
        other: Option<libvirt::Codegen>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Lab { what } => lab::run(&what),
        Command::Certify(arguments) => certify::run(&arguments),
        Command::Test => test::run(),
        Command::Tidy => tidy::run(),
        Command::Bench { what } => bench::run(&what),
        Command::Crash(arguments) => crash::run(&arguments),
        Command::Chart(arguments) => chart::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Tool { which } => {
            println!("{}", which.ensure()?.display());
            Ok(())
        }
        Command::Codegen { other: Some(other), .. } => other.run(),
        Command::Codegen { check, other: None } => codegen::proto(check),
    }
}
