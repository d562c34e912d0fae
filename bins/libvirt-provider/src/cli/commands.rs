//! The commands and what each takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;
use providerkit_runtime::config::Period;

use super::{Flags, Look, Source, StateArguments, TargetArguments};

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve BigFleet until a signal comes; what is done without a command
    Serve {
        #[command(flatten)]
        flags: Flags,
    },
    /// Show the configuration, its schema, or an example
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// Check the configuration, without touching a host, and say what would be served
    Check {
        #[command(flatten)]
        flags: Flags,
    },
    /// Reach every host and prove each prerequisite, without changing anything there
    Doctor(Doctor),
    /// Show what a provider has: machines, offerings, fences, operations, hosts
    Inspect {
        #[command(subcommand)]
        what: Inspect,
    },
    /// Ask a provider for its health and one List, and say in one line what was seen
    Probe {
        /// Ask for its health only, as the admin port can tell it, too
        #[arg(long)]
        health: bool,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Remove what failed attempts left on the hosts; only what is provably ours
    Janitor {
        /// Only say what would be removed; also while the provider runs
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        flags: Flags,
    },
    /// Write the cloud-init image of a machine to a file, as its guest would get it
    Seed {
        /// The machine
        #[arg(long, value_name = "ID")]
        machine: String,
        /// The file to write
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// The operation that makes the machine, which host name and instance id follow from; a new one when absent
        #[arg(long, value_name = "ID")]
        operation: Option<String>,
        #[command(flatten)]
        flags: Flags,
    },
    /// Show what a machine writes to its serial console, until it stops
    Console {
        /// The machine
        machine: String,
        /// Take the console from whoever has it open
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        flags: Flags,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, in roff
    Man,
    /// Say what this program is
    Version {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// What of the configuration to show.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every key with its value, as TOML that can be read again
    Print {
        /// Where each value came from, too
        #[arg(long)]
        sources: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: Flags,
    },
    /// The JSON schema, for editors and charts
    Schema,
    /// A file with every key, its default and what it does
    Example,
    /// The reference of all keys, as Markdown
    #[command(hide = true)]
    Reference,
}

/// How to examine hosts.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Only hosts of this zone; may be given several times
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Vec<String>,
    /// Try permissions, too: with a tiny volume and a domain never started, both removed at once
    #[arg(long)]
    pub(crate) write: bool,
    /// How long to try again before a host is told to have failed
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub(crate) wait: Period,
    /// How long a host may take for one answer
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) timeout: Period,
    /// How to say it
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: super::Report,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// What to show.
#[derive(Debug, Subcommand)]
pub(crate) enum Inspect {
    /// All machines
    Machines {
        #[command(flatten)]
        look: Look,
        #[command(flatten)]
        source: Source,
    },
    /// One machine, with all there is to say of it
    Machine {
        /// The machine
        id: String,
        #[command(flatten)]
        look: Look,
        #[command(flatten)]
        source: Source,
    },
    /// What is for sale, and how much of it is taken
    Offerings {
        #[command(flatten)]
        look: Look,
        #[command(flatten)]
        source: Source,
    },
    /// The hosts of the configuration, as they answer now
    Hosts {
        #[command(flatten)]
        look: Look,
        #[command(flatten)]
        flags: Flags,
    },
    /// Fence marks, from the state file
    Fences {
        #[command(flatten)]
        look: Look,
        #[command(flatten)]
        state: StateArguments,
    },
    /// Transitions under way and failed, from the state file
    Operations {
        #[command(flatten)]
        look: Look,
        #[command(flatten)]
        state: StateArguments,
    },
}
