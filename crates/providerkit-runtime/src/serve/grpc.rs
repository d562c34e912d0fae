//! The gRPC server.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{net::TcpListener, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{service::Routes, transport};
use tonic_reflection::server::Builder;

use super::{health::Health, incoming::incoming, observe::Observe, spawn};
use crate::{settings::Listen, tls::Tls};

/// Pings of our own on a quiet connection, and how long an answer may take (contract §1.4).
const PING: Duration = Duration::from_secs(2 * 60 * 60);
const PONG: Duration = Duration::from_secs(20);
/// Calls at once on one connection. BigFleet has one connection and up to hundreds of workers.
const STREAMS: u32 = 4096;
/// Calls that may be cancelled before we came to them. HTTP/2 takes more for an attack and ends the connection, and
/// with it every other call on it.
const RESETS: usize = 4096;
/// A full List of a large fleet is tens of megabytes; a bootstrap blob may be some.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A server that does not accept yet.
pub(super) struct Server {
    routes: Routes,
}

impl Server {
    /// The services, health and, if wanted, reflection.
    pub(super) fn new(listen: &Listen, health: &Health, routes: Routes) -> Self {
        let routes = routes.add_service(health.service());
        let routes = if listen.reflection { reflected(routes) } else { routes };
        Self { routes }
    }

    /// Begins to accept.
    pub(super) fn start(self, listener: TcpListener, tls: Option<Arc<Tls>>) -> Running {
        let stop = CancellationToken::new();
        let watch = tls.clone().map(|tls| spawn(async move { tls.watch().await }));
        let serving = transport::Server::builder()
            .http2_keepalive_interval(Some(PING))
            .http2_keepalive_timeout(Some(PONG))
            .max_concurrent_streams(STREAMS)
            .http2_max_pending_accept_reset_streams(Some(RESETS))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .layer(Observe)
            .serve_with_incoming_shutdown(self.routes, incoming(listener, tls), stop.clone().cancelled_owned());
        Running {
            stop,
            server: spawn(serving),
            _watch: watch,
        }
    }
}

/// A server that accepts.
pub(super) struct Running {
    stop: CancellationToken,
    server: AbortOnDropHandle<Result<(), transport::Error>>,
    _watch: Option<AbortOnDropHandle<()>>,
}

impl Running {
    /// Answers only if the server ends by itself.
    pub(super) async fn failed(&mut self) -> Failure {
        match pin!(&mut self.server).await {
            Ok(Ok(())) => "it stopped accepting".into(),
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// Accepts no more, tells every connection to go elsewhere, and lets calls under way end.
    pub(super) async fn close(self, grace: Duration) {
        self.stop.cancel();
        if timeout(grace, self.server).await.is_err() {
            tracing::warn!("calls under way were cut off, after {grace:?}");
        }
    }
}

fn reflected(routes: Routes) -> Routes {
    let builder = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(bigfleet_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Both versions: older clients know the alpha only.
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(alpha)) => routes.add_service(v1).add_service(alpha),
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!(%error, "reflection is not served: the descriptors are damaged");
            routes
        }
    }
}
