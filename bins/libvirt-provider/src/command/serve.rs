//! `serve`: the provider itself.

use anyhow::Context as _;
use providerkit_runtime::{
    config::Error,
    serve::{Ended, Signals},
    telemetry::{self, Metrics},
};

use super::{Exit, Failure};
use crate::{
    cli::Flags,
    config::{Config, Settings},
    operate::Operation,
    substrate,
};

/// Before every metric's name, as the reference has it.
const METRICS_PREFIX: &str = "bigfleet_libvirt_";
/// What traces call this program.
const SERVICE: &str = "libvirt-provider";

pub(super) fn run(flags: Flags) -> Result<Exit, Failure> {
    let loaded = flags.load(std::env::vars_os());
    let started: Config = loaded.config().clone();
    let settings = loaded
        .finish(Settings::parse)
        .map_err(|error: Error| Failure::usage(error))?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the asynchronous runtime cannot be started")
        .map_err(Failure::internal)?;
    let ended = threads.block_on(async {
        let tracing = telemetry::init(&settings.runtime, SERVICE, crate::BUILD).map_err(Failure::internal)?;
        telemetry::report_panics();
        let metrics = Metrics::install(METRICS_PREFIX, crate::BUILD).map_err(Failure::internal)?;
        let signals = Signals::of_process()
            .context("signals cannot be received")
            .map_err(Failure::internal)?;
        let operation = Operation::new(flags, started);
        let ended = Box::pin(substrate::serve(settings, metrics, signals, operation)).await;
        tracing.flush().await;
        ended.map_err(|error| match error.is_configuration() {
            true => Failure::usage(error),
            false => Failure::internal(error),
        })
    });
    // A task that hangs must not keep a process that is done.
    threads.shutdown_background();
    Ok(match ended? {
        Ended::AtOnce => Exit::Internal,
        _ => Exit::Success,
    })
}
