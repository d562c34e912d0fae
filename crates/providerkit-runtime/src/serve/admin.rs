//! The port for probes, metrics and the status page. Plaintext: HTTP/1.1 for kubelet and Prometheus, HTTP/2 for gRPC health.

use std::{future::IntoFuture as _, io, net::SocketAddr, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
    },
    response::IntoResponse,
    routing::get,
};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Error,
    bind::bind,
    health::{Health, Phase},
    spawn,
};
use crate::{
    settings::Admin,
    status::{Board, CONTENT_POLICY, PAGE},
    telemetry::Metrics,
};

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The open port.
pub(super) struct Port {
    address: SocketAddr,
    stop: CancellationToken,
    server: AbortOnDropHandle<io::Result<()>>,
}

impl Port {
    /// How long probes and scrapes under way may take at the end.
    const GRACE: Duration = Duration::from_secs(1);

    /// Opens it; none if it is taken and nobody insists on it.
    pub(super) async fn open(
        admin: &Admin,
        health: &Health,
        metrics: Option<Metrics>,
        board: &Board,
    ) -> Result<Option<Self>, Error> {
        let (listener, address) = match bind(&admin.address).await {
            Ok(bound) => bound,
            Err(error) if admin.required => {
                return Err(Error::bind("admin", &admin.address, "admin.addr", error));
            }
            Err(error) => {
                let address = &admin.address;
                tracing::warn!(%address, %error, "the admin port cannot be bound; going on without probes and metrics");
                return Ok(None);
            }
        };
        let stop = CancellationToken::new();
        let server = axum::serve(listener, router(health.clone(), metrics, board.clone()))
            .with_graceful_shutdown(stop.clone().cancelled_owned());
        Ok(Some(Self {
            address,
            stop,
            server: spawn(server.into_future()),
        }))
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes it, once what is asked is answered.
    pub(super) async fn close(self) {
        self.stop.cancel();
        if timeout(Self::GRACE, self.server).await.is_err() {
            tracing::debug!("the admin port was cut off");
        }
    }
}

fn router(health: Health, metrics: Option<Metrics>, board: Board) -> Router {
    Router::new()
        .route_service("/grpc.health.v1.Health/{method}", health.service())
        .route("/livez", get(async || "ok\n"))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/", get(page))
        .route("/status", get(page))
        .route("/status.json", get(status))
        .with_state((health, board))
        .route("/metrics", get(render).with_state(metrics))
}

/// Hosts that are down do not make us unready: those of other zones serve. With `?verbose` they are named.
async fn ready(State((health, board)): State<(Health, Board)>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let phase = health.phase();
    let code = match phase {
        Phase::Serving => StatusCode::OK,
        Phase::Starting | Phase::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut text = format!("{}\n", phase.name());
    if query.is_some_and(|query| {
        query
            .split('&')
            .any(|word| word == "verbose" || word.starts_with("verbose="))
    }) {
        for host in board.hosts() {
            let (mark, state) = match (&host.down, &host.closed) {
                (Some(reason), _) => ("-", format!("down: {reason}")),
                (None, Some(reason)) => ("+", format!("up, closed: {reason}")),
                (None, None) => ("+", "up".to_owned()),
            };
            text.push_str(&format!("[{mark}] host {} of zone {}: {state}\n", host.name, host.zone));
        }
    }
    (code, text)
}

async fn page() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY.as_str()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, PAGE)
}

async fn status(State((health, board)): State<(Health, Board)>) -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, board.json(health.phase().name()))
}

async fn render(State(metrics): State<Option<Metrics>>) -> impl IntoResponse {
    let text = metrics.map(|metrics| metrics.render()).unwrap_or_default();
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text)
}
