//! Logs, traces, metrics and panics: what a process tells about itself.

use std::sync::OnceLock;

mod log;
mod metrics;
pub(crate) mod names;
mod panics;
mod prefix;
pub(crate) mod trace;

pub use self::{
    metrics::{BuildInfo, Metrics},
    panics::report as report_panics,
};

use crate::settings::{Log, Settings};

/// Decides what the process logs.
static LEVEL: OnceLock<log::Level> = OnceLock::new();

/// Begins to log to standard error and, where an OTLP endpoint is named, to send traces, for the whole process. Must be
/// called within a tokio runtime. The service is what traces call the program.
///
/// # Errors
/// When it was begun before, or traces cannot be sent as the configuration wants it.
pub fn init(settings: &Settings, service: &'static str, build: BuildInfo) -> Result<Tracing, Error> {
    let exporter = trace::Exporter::of(settings, service, build)?;
    let layer = exporter.as_ref().map(trace::Exporter::layer);
    let (subscriber, level) = log::subscriber(&settings.log, layer);
    tracing::subscriber::set_global_default(subscriber).map_err(|error| Error::new("logging", error))?;
    if LEVEL.set(level).is_err() {
        tracing::debug!("the log's level is somebody else's to set");
    }
    Ok(Tracing(exporter))
}

/// Changes what the process logs; how lines look stays.
pub(crate) fn set_log_level(log: &Log) {
    if let Some(level) = LEVEL.get()
        && let Err(error) = level.set(log)
    {
        tracing::warn!(%error, "the log's level cannot be changed");
    }
}

/// Logs and traces that have begun.
#[derive(Debug)]
#[must_use = "the last spans are sent by `flush`"]
pub struct Tracing(Option<trace::Exporter>);

impl Tracing {
    /// Sends what is left of the traces; takes some seconds at most.
    pub async fn flush(self) {
        if let Some(exporter) = self.0 {
            exporter.flush().await;
        }
    }
}

/// Logs or metrics were set up twice in one process.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be set up")]
pub struct Error {
    what: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Error {
    fn new(what: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            what,
            source: source.into(),
        }
    }
}
