//! The commands and what each takes.

use clap::Subcommand;

use super::Flags;

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
