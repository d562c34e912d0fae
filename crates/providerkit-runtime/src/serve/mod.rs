//! The life of a provider process: bind, load, serve, leave.
//!
//! The order is what callers notice (contract §11.5: to BigFleet, any error fails a machine for good):
//!
//! 1. The gRPC socket is bound. From here on a caller that connects waits instead of being refused.
//! 2. The work is started: state is loaded, what ran before goes on.
//! 3. Connections are accepted, and the probes say that we serve.
//! 4. A signal: the probes say that we leave, `shutdown.delay` passes, changes are refused, connections are told to
//!    go elsewhere, what runs has `shutdown.grace` to end. The admin port closes last.

mod admin;
mod bind;
mod connection;
mod grpc;
mod health;
mod incoming;
mod observe;
mod signals;
mod systemd;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio_util::task::AbortOnDropHandle;
use tonic::service::Routes;

pub use self::signals::Signals;
use self::{health::Health, signals::Request};
use crate::{
    settings::{Address, Settings},
    status::{self, Board},
    telemetry::{Metrics, names},
    tls::{self, Tls},
};

/// What answers behind the port, and has to be ended in order.
pub trait Work: Send + Sync {
    /// The services it answers with. Asked once.
    fn routes(&self) -> Routes;

    /// Tells it that it is served now, and where: ports may have been left to the system to choose.
    fn serving(&self, grpc: SocketAddr, admin: Option<SocketAddr>) {
        let _ = (grpc, admin);
    }

    /// Reads the configuration again. What comes of it is logged.
    fn reload(&self) -> impl Future<Output = ()> + Send {
        async { tracing::warn!("there is no configuration to read again") }
    }

    /// From now on calls that change something are refused.
    fn refuse_mutations(&self);

    /// Ends it. What runs has this long to end by itself.
    fn stop(&self, grace: Duration) -> impl Future<Output = ()> + Send;
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// In order.
    Orderly,
    /// A second signal came: the process must exit now, whatever still runs.
    AtOnce,
}

/// Why the process cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The TLS files are of no use.
    #[error("TLS cannot be set up")]
    Tls(#[from] tls::Error),
    /// A socket could not be bound.
    #[error("{what} port `{address}` cannot be bound; free it or choose another with `{key}`")]
    Bind {
        /// Which port.
        what: &'static str,
        /// Where it should be.
        address: Address,
        /// The key that says so.
        key: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The work could not be started.
    #[error(transparent)]
    Start(Box<dyn std::error::Error + Send + Sync>),
    /// The gRPC server ended by itself.
    #[error("the gRPC server failed")]
    Server(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    fn bind(what: &'static str, address: &Address, key: &'static str, source: io::Error) -> Self {
        Self::Bind {
            what,
            address: address.clone(),
            key,
            source,
        }
    }

    /// Whether the configuration is to blame, rather than the circumstances.
    #[must_use]
    pub const fn is_configuration(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// Serves until a signal comes. The work is started once the port is bound.
///
/// # Errors
/// When it cannot begin, or cannot go on.
pub async fn serve<W, E>(
    settings: &Settings,
    metrics: Option<Metrics>,
    signals: Signals,
    start: impl Future<Output = Result<W, E>>,
) -> Result<Ended, Error>
where
    W: Work,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    serve_with(settings, metrics, signals, Board::default(), start).await
}

/// The same, with a status page.
pub(crate) async fn serve_with<W, E>(
    settings: &Settings,
    metrics: Option<Metrics>,
    mut signals: Signals,
    board: Board,
    start: impl Future<Output = Result<W, E>>,
) -> Result<Ended, Error>
where
    W: Work,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let tls = settings.listen.tls.clone().map(Tls::load).transpose()?;
    let (listener, address) = bind::bind(&settings.listen.address)
        .await
        .map_err(|error| Error::bind("gRPC", &settings.listen.address, "listen.addr", error))?;
    let health = Health::new().await;
    let upkeep = metrics
        .clone()
        .map(|metrics| spawn(async move { metrics.upkeep().await }));
    let admin = match &settings.admin {
        Some(admin) => admin::Port::open(admin, &health, metrics, &board).await?,
        None => None,
    };
    let work = tokio::select! {
        started = start => started.map_err(|error| Error::Start(error.into()))?,
        signal = signals.end() => {
            tracing::info!(signal, "leaving before everything was loaded");
            return Ok(Ended::Orderly);
        }
    };
    let server = grpc::Server::new(&settings.listen, &health, work.routes());
    let mut server = server.start(listener, tls.map(Arc::new));
    health.serving().await;
    work.serving(address, admin.as_ref().map(admin::Port::address));
    let (tls, provider) = (settings.listen.tls.is_some(), &*settings.provider);
    tracing::info!(%address, tls, provider, "serving");
    let history = spawn(keep_history(board, health.clone()));
    let watchdog = systemd::feed_watchdog().map(spawn);
    loop {
        let request = tokio::select! {
            request = signals.request() => request,
            error = server.failed() => return Err(Error::Server(error)),
        };
        match request {
            Request::Reload => {
                systemd::reloading();
                work.reload().await;
                systemd::reloaded();
            }
            Request::End(signal) => {
                tracing::info!(signal, "leaving; a second signal exits at once");
                break;
            }
        }
    }
    let ended = tokio::select! {
        () = leave(settings, &health, &work, server) => Ended::Orderly,
        signal = signals.end() => {
            tracing::warn!(signal, "exiting at once");
            return Ok(Ended::AtOnce);
        }
    };
    if let Some(admin) = admin {
        admin.close().await;
    }
    drop((upkeep, watchdog, history));
    Ok(ended)
}

/// Never ends by itself.
async fn keep_history(board: Board, health: Health) {
    let mut ticks = tokio::time::interval(status::PACE);
    loop {
        ticks.tick().await;
        if let Some(hosts) = board.sample() {
            health.zones(&hosts).await;
        }
    }
}

async fn leave<W: Work>(settings: &Settings, health: &Health, work: &W, server: grpc::Running) {
    health.stopping().await;
    names::shutdown_phase("delay");
    tokio::time::sleep(settings.shutdown.delay).await;
    work.refuse_mutations();
    names::shutdown_phase("grace");
    let grace = settings.shutdown.grace;
    tokio::join!(server.close(grace), work.stop(grace));
    names::shutdown_phase("closed");
    tracing::info!("left in order");
}

/// A task that ends with its handle.
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> AbortOnDropHandle<T> {
    AbortOnDropHandle::new(tokio::spawn(task))
}
