//! One command a file; here is what they share: how a command ends.

mod check;
mod config;
mod console;
mod describe;
mod doctor;
mod example;
mod inspect;
mod janitor;
mod probe;
mod reference;
mod seed;
mod serve;
mod version;

use std::io;

use anyhow::{Context as _, anyhow};
use libvirt_backend::settings::Settings as Libvirt;
use providerkit_runtime::{client, config::Error};

use crate::{
    cli::{Command, Flags},
    config::{Settings, Substrate},
};

/// How the process ends; the numbers of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    /// The arguments or the configuration are not right.
    Usage = 64,
    /// A host or a provider cannot be reached, or is not as it must be.
    Unavailable = 69,
    /// Anything else.
    Internal = 70,
    /// It may work later.
    Temporary = 75,
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

    pub(crate) fn unavailable(error: impl Into<anyhow::Error>) -> Self {
        let (exit, error) = (Exit::Unavailable, error.into());
        Self { exit, error }
    }

    pub(crate) fn temporary(error: impl Into<anyhow::Error>) -> Self {
        let (exit, error) = (Exit::Temporary, error.into());
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

/// Of a provider that was asked.
impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        match &error {
            client::Error::File { .. } => Self::usage(error),
            _ if error.is_unreachable() => Self::unavailable(error),
            _ if error.is_temporary() => Self::temporary(error),
            _ => Self::internal(error),
        }
    }
}

/// Does what the command line says.
pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Serve { flags } => serve::run(flags),
        Command::Config { what } => config::run(what),
        Command::Check { flags } => check::run(&flags),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Inspect { what } => inspect::run(&what),
        Command::Probe { target, health } => probe::run(&target, health),
        Command::Janitor { dry_run, flags } => janitor::run(&flags, dry_run),
        Command::Seed {
            machine,
            output,
            operation,
            flags,
        } => seed::run(&flags, &machine, operation.as_deref(), &output),
        Command::Console { machine, force, flags } => console::run(&flags, &machine, force),
        Command::Completions { shell } => describe::completions(shell),
        Command::Man => describe::manual(),
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

/// The settings of real hosts.
fn libvirt(settings: Settings) -> Result<Libvirt, Failure> {
    match settings.substrate {
        Substrate::Libvirt(libvirt) => Ok(*libvirt),
        Substrate::Fake(_) => Err(Failure::usage(anyhow!(
            "the hosts are fake and within the provider, so there is none to ask; name hosts with --connect or `hosts`"
        ))),
    }
}

/// Runs what has to wait for others.
fn in_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the asynchronous runtime cannot be started")
        .map_err(Failure::internal)?;
    let done = threads.block_on(work);
    threads.shutdown_background();
    done
}

/// Ends with a line break, for people at a terminal.
fn print_json(value: &impl serde::Serialize) -> Result<Exit, Failure> {
    use io::Write as _;
    let text = serde_json::to_string_pretty(value).map_err(Failure::internal)?;
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(Exit::Success)
}
