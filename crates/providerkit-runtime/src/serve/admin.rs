//! The port for probes and metrics. Plaintext: HTTP/1.1 for kubelet and Prometheus, HTTP/2 for gRPC health.

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::health::{Health, Phase};
use crate::telemetry::Metrics;

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers until it is stopped.
pub(super) async fn serve(listener: TcpListener, health: Health, metrics: Option<Metrics>, stop: CancellationToken) {
    let server = axum::serve(listener, router(health, metrics)).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = server.await {
        tracing::warn!(%error, "the admin port failed; probes and metrics are gone");
    }
}

fn router(health: Health, metrics: Option<Metrics>) -> Router {
    Router::new()
        .route_service("/grpc.health.v1.Health/{method}", health.service())
        .route("/livez", get(async || "ok\n"))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(health)
        .route("/metrics", get(render).with_state(metrics))
}

async fn ready(State(health): State<Health>) -> impl IntoResponse {
    let phase = health.phase();
    let code = match phase {
        Phase::Serving => StatusCode::OK,
        Phase::Starting | Phase::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, format!("{}\n", phase.name()))
}

async fn render(State(metrics): State<Option<Metrics>>) -> impl IntoResponse {
    let text = metrics.map(|metrics| metrics.render()).unwrap_or_default();
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text)
}
