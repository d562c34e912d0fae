//! `libvirt-provider`: a BigFleet capacity provider for libvirt/QEMU/KVM hosts.
//!
//! This file composes: arguments and configuration become settings, and what they name is served.

mod cli;
mod config;
mod fake;
mod operate;
mod substrate;

use std::process::exit;

use anyhow::Context as _;
use providerkit_runtime::{
    config::Loaded,
    serve::{Ended, Signals},
    telemetry::{self, BuildInfo, Metrics},
};

use crate::{
    cli::Invocation,
    config::{Config, Settings},
    operate::Operation,
};

/// Before every metric's name, as the reference has it.
const METRICS_PREFIX: &str = "bigfleet_libvirt_";
/// What traces call this program.
const SERVICE: &str = "libvirt-provider";
const ENVIRONMENT_PREFIX: &str = "LIBVIRT_PROVIDER";

const BUILD: BuildInfo = BuildInfo::new(
    env!("CARGO_PKG_VERSION"),
    env!("LIBVIRT_PROVIDER_REVISION"),
    env!("LIBVIRT_PROVIDER_RUSTC"),
);

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (revision ",
    env!("LIBVIRT_PROVIDER_REVISION"),
    ", rustc ",
    env!("LIBVIRT_PROVIDER_RUSTC"),
    ")"
);

/// How the process ends, besides 0.
#[derive(Clone, Copy)]
enum Failure {
    /// The arguments or the configuration are not right (`EX_USAGE`).
    Usage = 64,
    /// Anything else (`EX_SOFTWARE`).
    Internal = 70,
}

fn main() {
    let invocation = match cli::parse(std::env::args_os(), VERSION) {
        Ok(invocation) => invocation,
        Err(error) => {
            let code = if error.use_stderr() { Failure::Usage as i32 } else { 0 };
            // Nobody is left to tell that nobody reads.
            drop(error.print());
            exit(code);
        }
    };
    match run(invocation) {
        Ok(Ended::AtOnce) => exit(Failure::Internal as i32),
        Ok(_) => {}
        Err((failure, error)) => {
            complain(&error);
            exit(failure as i32);
        }
    }
}

fn run(invocation: Invocation) -> Result<Ended, (Failure, anyhow::Error)> {
    let usage = |error| (Failure::Usage, error);
    let internal = |error| (Failure::Internal, error);
    let loaded: Loaded<Config> = invocation.load(ENVIRONMENT_PREFIX, std::env::vars_os());
    let operation = Operation::new(invocation, loaded.config().clone());
    let settings = loaded.finish(Settings::parse).map_err(|error| usage(error.into()))?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the asynchronous runtime cannot be started")
        .map_err(internal)?;
    let ended = threads.block_on(async {
        let tracing = telemetry::init(&settings.runtime, SERVICE, BUILD).map_err(|error| internal(error.into()))?;
        telemetry::report_panics();
        let metrics = Metrics::install(METRICS_PREFIX, BUILD).map_err(|error| internal(error.into()))?;
        let signals = Signals::of_process()
            .context("signals cannot be received")
            .map_err(internal)?;
        let ended = substrate::serve(settings, metrics, signals, operation).await;
        tracing.flush().await;
        ended.map_err(|error| match error.is_configuration() {
            true => usage(error.into()),
            false => internal(error.into()),
        })
    });
    // A task that hangs must not keep a process that is done.
    threads.shutdown_background();
    ended
}

/// For people, who may not have a log yet: the whole chain of causes.
#[allow(clippy::print_stderr, reason = "the last words of the process")]
fn complain(error: &anyhow::Error) {
    eprintln!("libvirt-provider: {error:#}");
}
