//! One command a file; here is what they share: how a command ends.

mod check;
mod config;
mod example;
mod reference;
mod serve;
mod version;

use std::io;

use providerkit_runtime::config::Error;

use crate::{
    cli::{Command, Flags},
    config::Settings,
};

/// How the process ends; the numbers of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    /// The arguments or the configuration are not right.
    Usage = 64,
    /// Anything else.
    Internal = 70,
}

/// Why a command did not do what it was to.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
}

impl Failure {
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        let (exit, error) = (Exit::Usage, error.into());
        Self { exit, error }
    }

    pub(crate) fn internal(error: impl Into<anyhow::Error>) -> Self {
        let (exit, error) = (Exit::Internal, error.into());
        Self { exit, error }
    }

    /// Whether whoever read what we wrote has read enough, such as `head`.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        let source = self.error.downcast_ref::<io::Error>();
        source.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Of writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::internal(error)
    }
}

/// Does what the command line says.
pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Serve { flags } => serve::run(&flags),
        Command::Config { what } => config::run(what),
        Command::Check { flags } => check::run(&flags),
        Command::Version { json } => version::run(json),
    }
}

/// What the command line, the environment and the files come to.
pub(crate) fn settings(flags: &Flags) -> Result<Settings, Failure> {
    let loaded = flags.load(std::env::vars_os());
    loaded
        .finish(Settings::parse)
        .map_err(|error: Error| Failure::usage(error))
}

/// Ends with a line break, for people at a terminal.
fn print_json(value: &impl serde::Serialize) -> Result<Exit, Failure> {
    use io::Write as _;
    let text = serde_json::to_string_pretty(value).map_err(Failure::internal)?;
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(Exit::Success)
}
