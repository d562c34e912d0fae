//! Logs, metrics and panics: what a process tells about itself.

mod log;
mod metrics;
pub(crate) mod names;
mod panics;
mod prefix;

pub use self::{
    log::init as init_log,
    metrics::{BuildInfo, Metrics},
    panics::report as report_panics,
};

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
