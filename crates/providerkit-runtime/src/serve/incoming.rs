//! Accepting connections, and their TLS handshakes.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::either::Either;

use super::connection::{Connection, Peer};
use crate::{
    telemetry::names,
    tls::{self, Tls},
};

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at once; further clients wait in the socket's backlog.
const HANDSHAKES: usize = 1024;
/// Accepted connections that HTTP/2 has not taken over yet.
const READY: usize = 64;
/// Pause after an accept that failed for want of something, such as file descriptors.
const BREATH: Duration = Duration::from_millis(100);

pub(super) type Incoming = ReceiverStream<io::Result<Connection>>;

/// Accepts until the stream is dropped, which closes the socket.
pub(super) fn incoming(listener: TcpListener, tls: Option<Arc<Tls>>) -> Incoming {
    let (ready, stream) = mpsc::channel(READY);
    let acceptor = Acceptor {
        tls,
        ready: ready.clone(),
        handshakes: Arc::new(Semaphore::new(HANDSHAKES)),
    };
    tokio::spawn(async move {
        tokio::select! {
            () = ready.closed() => {}
            () = acceptor.accept(listener) => {}
        }
    });
    ReceiverStream::new(stream)
}

struct Acceptor {
    tls: Option<Arc<Tls>>,
    ready: mpsc::Sender<io::Result<Connection>>,
    handshakes: Arc<Semaphore>,
}

impl Acceptor {
    async fn accept(&self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => self.take(stream, address).await,
                Err(error) if is_about_one_connection(&error) => {
                    tracing::debug!(%error, "a connection was gone before it was accepted");
                }
                Err(error) => {
                    tracing::warn!(%error, "connections cannot be accepted at the moment");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    async fn take(&self, stream: TcpStream, address: SocketAddr) {
        // Answers are small and awaited: they must not wait to be joined by others.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, %address, "TCP_NODELAY cannot be set");
        }
        let Some(tls) = &self.tls else {
            let peer = Peer { address, caller: None };
            let stream = Either::Right(stream);
            return self.pass_on(Connection { stream, peer }).await;
        };
        // The semaphore is never closed; if it were, going on without a permit would do no harm.
        let permit = Arc::clone(&self.handshakes).acquire_owned().await.ok();
        let (tls, this) = (Arc::clone(tls), self.another());
        tokio::spawn(async move {
            tokio::select! {
                () = this.ready.closed() => {}
                result = handshake(&tls, stream, address) => match result {
                    Ok(connection) => this.pass_on(connection).await,
                    // A load balancer that looks whether the port is open; there are many of these.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        tracing::debug!(%address, "a connection was closed before its TLS handshake");
                    }
                    Err(error) => {
                        metrics::counter!(names::HANDSHAKE_FAILURES).increment(1);
                        tracing::info!(%address, %error, "TLS handshake failed");
                    }
                },
            }
            drop(permit);
        });
    }

    async fn pass_on(&self, connection: Connection) {
        if let Err(unsent) = self.ready.send(Ok(connection)).await {
            tracing::debug!("a connection came too late: the server is stopping");
            drop(unsent);
        }
    }

    fn another(&self) -> Self {
        Self {
            tls: self.tls.clone(),
            ready: self.ready.clone(),
            handshakes: Arc::clone(&self.handshakes),
        }
    }
}

async fn handshake(tls: &Tls, stream: TcpStream, address: SocketAddr) -> io::Result<Connection> {
    let acceptor = TlsAcceptor::from(tls.current());
    let stream = timeout(HANDSHAKE, acceptor.accept(stream))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the client took too long"))??;
    let chain = stream.get_ref().1.peer_certificates();
    let caller = tls.identifies_clients().then(|| tls::caller(chain));
    Ok(Connection {
        peer: Peer { address, caller },
        stream: Either::Left(Box::new(stream)),
    })
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}
