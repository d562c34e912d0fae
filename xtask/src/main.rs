//! The project's own commands. `cargo xtask --help` lists them.

mod codegen;
mod libvirt;
mod workspace;

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
    /// Regenerate the committed Rust from proto/
    Codegen {
        /// Only compare; fail if a file would change
        #[arg(long)]
        check: bool,
        #[command(subcommand)]
        other: Option<libvirt::Codegen>,
    },
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Codegen {
            other: Some(other), ..
        } => other.run(),
        Command::Codegen { check, other: None } => codegen::proto(check),
    }
}
