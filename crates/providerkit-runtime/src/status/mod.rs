//! What a person sees of the process on the admin port: a page, and the JSON it is drawn from.
//!
//! Everything is read from memory and summed up, so that it is as small for ten thousand machines as for ten.

mod history;
mod page;
mod report;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use providerkit::Engine;

use self::{
    history::{History, Sample},
    report::Report,
};
use crate::{HostStatus, Operator, telemetry::BuildInfo};

pub(crate) use self::page::{CONTENT_POLICY, PAGE};

/// Between two samples of the history.
pub(crate) const PACE: Duration = Duration::from_secs(5);
/// Transitions under way that are listed one by one.
const OLDEST: usize = 20;

/// Where the page's content comes from; cheap to clone. Empty until the engine runs.
#[derive(Clone, Default)]
pub(crate) struct Board(Arc<Inner>);

#[derive(Default)]
struct Inner {
    source: OnceLock<Source>,
    history: History,
}

struct Source {
    provider: Arc<str>,
    build: Option<BuildInfo>,
    engine: Engine,
    operator: Arc<dyn Operator>,
    started: SystemTime,
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

impl Board {
    /// Shows these from now on.
    pub(crate) fn show(
        &self,
        provider: &Arc<str>,
        build: Option<BuildInfo>,
        engine: &Engine,
        operator: &Arc<dyn Operator>,
    ) {
        let source = Source {
            provider: Arc::clone(provider),
            build,
            engine: engine.clone(),
            operator: Arc::clone(operator),
            started: SystemTime::now(),
        };
        if self.0.source.set(source).is_err() {
            tracing::debug!("the status page shows another engine already");
        }
    }

    /// The hosts, as far as somebody knows of any.
    pub(crate) fn hosts(&self) -> Vec<HostStatus> {
        let source = self.0.source.get();
        source.map(|source| source.operator.hosts()).unwrap_or_default()
    }

    /// The page's content as JSON.
    pub(crate) fn json(&self, phase: &'static str) -> String {
        let report = match self.0.source.get() {
            Some(source) => Report::of(source, phase, &self.0.history),
            None => Report::empty(phase),
        };
        serde_json::to_string(&report).unwrap_or_else(|error| {
            tracing::warn!(%error, "the status cannot be written as JSON");
            "{}".to_owned()
        })
    }

    /// Adds a moment to the history; the hosts of that moment, once there is anything to show. To be called every
    /// [`PACE`].
    pub(crate) fn sample(&self) -> Option<Vec<HostStatus>> {
        let source = self.0.source.get()?;
        let hosts = source.operator.hosts();
        self.0.history.add(Sample::of(&source.engine.status(0), &hosts));
        Some(hosts)
    }
}
