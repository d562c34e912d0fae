//! The metrics of the process, rendered for Prometheus.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use metrics::gauge;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

use super::{Error, names, prefix::Prefixed};

/// How often what was recorded is folded together; a histogram grows in between.
const UPKEEP: Duration = Duration::from_secs(5);

/// What a binary knows about how it was built.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BuildInfo {
    /// Version of the release.
    pub version: &'static str,
    /// Commit it was built from.
    pub revision: &'static str,
    /// Compiler it was built with.
    pub rustc: &'static str,
}

impl BuildInfo {
    /// A build by version, commit and compiler.
    #[must_use]
    pub const fn new(version: &'static str, revision: &'static str, rustc: &'static str) -> Self {
        Self {
            version,
            revision,
            rustc,
        }
    }
}

/// Reads what was recorded through the `metrics` facade.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
    process: Collector,
    build: Option<BuildInfo>,
    before: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Begins to record, for the whole process. All names but `process_…` get the prefix, such as `bigfleet_libvirt_`.
    ///
    /// # Errors
    /// When recording was begun before.
    pub fn install(prefix: &'static str, build: BuildInfo) -> Result<Self, Error> {
        let failed = |error| Error::new("metrics", error);
        let (recorder, mut metrics) = Self::new(prefix).map_err(|error| failed(error.into()))?;
        metrics::set_global_recorder(recorder)
            .map_err(|error| failed(Box::<dyn std::error::Error + Send + Sync>::from(error.to_string())))?;
        metrics.begin(build);
        metrics.build = Some(build);
        Ok(metrics)
    }

    fn new(prefix: &'static str) -> Result<(impl metrics::Recorder, Self), BuildError> {
        let mut builder = PrometheusBuilder::new().set_buckets(names::OTHER)?;
        for (name, buckets) in names::BUCKETS {
            builder = builder.set_buckets_for_metric(Matcher::Suffix((*name).to_owned()), buckets)?;
        }
        let recorder = builder.build_recorder();
        let metrics = Self {
            handle: recorder.handle(),
            process: Collector::default(),
            build: None,
            before: Arc::default(),
        };
        Ok((Prefixed::new(prefix, recorder), metrics))
    }

    fn begin(&self, build: BuildInfo) {
        names::describe();
        self.process.describe();
        gauge!(
            names::BUILD_INFO,
            "version" => build.version, "revision" => build.revision, "rustc" => build.rustc
        )
        .set(1);
    }

    /// How the process was built.
    pub(crate) fn build(&self) -> Option<BuildInfo> {
        self.build
    }

    /// Gives somebody the chance to set gauges before they are read. The first to ask has it.
    pub(crate) fn before_render(&self, set: impl Fn() + Send + Sync + 'static) {
        if self.before.set(Box::new(set)).is_err() {
            tracing::debug!("gauges are set by somebody else already");
        }
    }

    /// Everything recorded so far, in Prometheus' text format 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        self.process.collect();
        if let Some(set) = self.before.get() {
            set();
        }
        self.handle.render()
    }

    /// Keeps memory bounded while nobody scrapes. Never ends by itself.
    pub async fn upkeep(&self) {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            self.handle.run_upkeep();
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics::{counter, histogram};

    use super::*;

    fn rendered(record: impl FnOnce()) -> String {
        let (recorder, metrics) = Metrics::new("bigfleet_libvirt_").unwrap();
        metrics::with_local_recorder(&recorder, || {
            metrics.begin(BuildInfo::new("1.2.3", "abc", "1.95"));
            record();
            metrics.render()
        })
    }

    fn has_line(text: &str, line: &str) -> bool {
        text.lines().any(|found| found == line)
    }

    #[test]
    fn names_get_the_providers_prefix_once_and_the_process_keeps_its_own() {
        let text = rendered(|| {
            counter!("transitions_total", "outcome" => "ok").increment(2);
            counter!("bigfleet_libvirt_whole_total").increment(1);
        });
        assert!(
            has_line(&text, "bigfleet_libvirt_transitions_total{outcome=\"ok\"} 2"),
            "{text}"
        );
        assert!(has_line(&text, "bigfleet_libvirt_whole_total 1"), "{text}");
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    }

    #[test]
    fn what_runs_and_that_nothing_panicked_is_shown_from_the_start() {
        let text = rendered(|| ());
        let build = r#"bigfleet_libvirt_build_info{version="1.2.3",revision="abc",rustc="1.95"} 1"#;
        assert!(has_line(&text, build), "{text}");
        assert!(has_line(&text, "bigfleet_libvirt_panics_total 0"), "{text}");
        assert!(
            text.contains("# HELP bigfleet_libvirt_panics_total Panics anywhere"),
            "{text}"
        );
    }

    #[test]
    fn every_duration_has_buckets_of_its_size() {
        let text = rendered(|| {
            histogram!("transition_duration_seconds", "transition" => "create").record(700.0);
            histogram!("grpc_request_duration_seconds").record(0.0004);
            histogram!("anything").record(1.0);
        });
        for line in [
            r#"bigfleet_libvirt_transition_duration_seconds_bucket{transition="create",le="900"} 1"#,
            r#"bigfleet_libvirt_grpc_request_duration_seconds_bucket{le="0.00025"} 0"#,
            r#"bigfleet_libvirt_anything_bucket{le="+Inf"} 1"#,
        ] {
            assert!(has_line(&text, line), "{line} in {text}");
        }
        assert!(!text.contains("quantile"), "{text}");
    }
}
