//! Traces: spans of calls, transitions and what is done for them, sent by OTLP where somebody said to.

use std::{env, time::Duration};

use http::HeaderMap;
use opentelemetry::{
    KeyValue,
    propagation::{Extractor, TextMapPropagator as _},
    trace::TracerProvider as _,
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing::{Level, Metadata, Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, Registry, filter::FilterFn};

use super::{BuildInfo, Error};
use crate::settings::Settings;

/// What switches traces on, beside the configuration.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// Libraries whose spans tell nobody anything, or are about sending spans.
const NOISE: [&str; 7] = ["h2", "hyper", "opentelemetry", "russh", "rustls", "tonic", "tower"];
/// How long sending the last spans may take.
const FLUSH: Duration = Duration::from_secs(5);

/// What sends spans.
#[derive(Clone, Debug)]
pub(super) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// One, if an endpoint was named. All else, such as sampling, is `OTEL_…`'s to say. Must be called within a tokio
    /// runtime.
    pub(super) fn of(settings: &Settings, service: &'static str, build: BuildInfo) -> Result<Option<Self>, Error> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let named = settings.traces.endpoint.is_some() || ENDPOINTS.iter().any(|name| variable(name).is_some());
        let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        if !named || off {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_tonic();
        let exporter = match &settings.traces.endpoint {
            Some(endpoint) => exporter.with_endpoint(endpoint),
            None => exporter,
        };
        let exporter = exporter.build().map_err(|error| Error::new("sending traces", error))?;
        let resource = Resource::builder().with_attributes([
            KeyValue::new("service.version", build.version),
            KeyValue::new("service.instance.id", settings.provider.to_string()),
        ]);
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|list| list.contains("service.name="));
        let resource = if is_named {
            resource
        } else {
            resource.with_service_name(service)
        };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Some(Self(provider)))
    }

    /// What turns our spans into its own.
    pub(super) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("providerkit"))
            .with_threads(false)
            .with_location(false);
        let wanted = FilterFn::new(is_wanted).with_max_level_hint(LevelFilter::DEBUG);
        Box::new(layer.with_filter(wanted))
    }

    /// Sends what is left.
    pub(super) async fn flush(self) {
        let sent = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(FLUSH)).await;
        if let Ok(Err(error)) = sent {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

fn is_wanted(metadata: &Metadata<'_>) -> bool {
    let noisy = NOISE.iter().any(|noise| metadata.target().starts_with(noise));
    !noisy && (metadata.is_span() || *metadata.level() <= Level::INFO)
}

/// Makes a call's span a part of the caller's trace, if its headers name one (W3C `traceparent`).
pub(crate) fn continue_trace(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() || !headers.contains_key("traceparent") {
        return;
    }
    let caller = TraceContextPropagator::new().extract(&Headers(headers));
    if let Err(error) = span.set_parent(caller) {
        tracing::debug!(%error, "the caller's trace is not continued");
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
