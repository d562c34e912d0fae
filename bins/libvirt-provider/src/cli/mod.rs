//! The command line: which command, and what it was told.

mod commands;
mod flags;
mod shared;

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

pub(crate) use self::{
    commands::{Command, ConfigCommand, Doctor, Inspect},
    flags::{CONFIGURATION, ENVIRONMENT_PREFIX, FLAGS, Flags},
    shared::{Look, Output, Report, Source, StateArguments, TargetArguments},
};

/// BigFleet capacity provider for libvirt/QEMU/KVM hosts.
///
/// Without a command it serves. Flags come after the command. Every flag of the configuration sets a key of it; files
/// and variables such as LIBVIRT_PROVIDER__LISTEN__ADDR set the same keys. Flags win over variables, variables over
/// files, later files over earlier ones.
#[derive(Debug, Parser)]
#[command(
    name = "libvirt-provider",
    disable_help_subcommand = true,
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    override_usage = "libvirt-provider [COMMAND] [OPTIONS]"
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Check the configuration and end, as the command check does
    #[arg(long)]
    check_config: bool,
    #[command(flatten)]
    flags: Flags,
}

/// The parser, for what describes it: completions and the manual.
pub(crate) fn command() -> clap::Command {
    Arguments::command().version(crate::VERSION)
}

/// Reads a command line.
///
/// # Errors
/// What clap prints: a mistake, or the help or version that was asked for.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(with_two_dashes(arguments, &command.clone()))?;
    let Arguments {
        command,
        check_config,
        flags,
    } = Arguments::from_arg_matches(&matches)?;
    Ok(match command {
        Some(command) => command,
        None if check_config => Command::Check { flags },
        None => Command::Serve { flags },
    })
}

/// Go takes `-addr` for `--addr`. We have no short flags of more than a letter, so that nothing is lost by it.
fn with_two_dashes(arguments: impl IntoIterator<Item = OsString>, command: &clap::Command) -> Vec<OsString> {
    let double = |argument: OsString| match argument.to_str() {
        Some(text) if !text.starts_with("--") => {
            let name = text.strip_prefix('-').and_then(|flag| flag.split('=').next());
            let known = name.is_some_and(|name| is_long(command, name) || ["help", "version"].contains(&name));
            if known { format!("-{text}").into() } else { argument }
        }
        _ => argument,
    };
    arguments.into_iter().map(double).collect()
}

/// Whether some command has this flag.
fn is_long(command: &clap::Command, name: &str) -> bool {
    let mut arguments = command.get_arguments();
    arguments.any(|argument| argument.get_long() == Some(name))
        || command.get_subcommands().any(|command| is_long(command, name))
}

#[cfg(test)]
mod tests;
