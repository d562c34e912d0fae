//! `serve`: the provider itself.

use anyhow::Context as _;
use providerkit_runtime::{
    serve::{Ended, Signals},
    telemetry::{self, Metrics},
};

use super::{Exit, Failure, settings};
use crate::{cli::Flags, substrate};

/// Before every metric's name, as the reference has it.
const METRICS_PREFIX: &str = "bigfleet_libvirt_";

pub(super) fn run(flags: &Flags) -> Result<Exit, Failure> {
    let settings = settings(flags)?;
    telemetry::init_log(&settings.runtime.log).map_err(Failure::internal)?;
    telemetry::report_panics();
    let metrics = Metrics::install(METRICS_PREFIX, crate::BUILD).map_err(Failure::internal)?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the asynchronous runtime cannot be started")
        .map_err(Failure::internal)?;
    let ended = threads.block_on(async {
        let signals = Signals::of_process()
            .context("signals cannot be received")
            .map_err(Failure::internal)?;
        let ended = substrate::serve(settings, metrics, signals).await;
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
