//! The process: state, sockets, TLS (contract §1.4, §12.2, ADR-0048).

use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bigfleet_proto::{CapacityProviderServer, FILE_DESCRIPTOR_SET, SERVICE_NAME};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status,
    transport::{Server, server::Connected},
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::{
    Flags, Rules,
    engine::Shared,
    service::Service,
    world::{Store, World},
};
use crate::error::Error;

/// Serves until it is killed.
///
/// # Errors
/// A state file that is somebody else's or cannot be read, an address that cannot be listened on, half of a TLS
/// configuration.
pub async fn serve(flags: Flags) -> Result<SocketAddr, Error> {
    let rules = Rules(flags.mutant.clone());
    let tls = tls(&flags, &rules)?;
    let mut world = World::seeded(&flags.provider, flags.seed_count, &rules);
    let mut store = None;
    if let Some(path) = &flags.state {
        let name = path.display().to_string();
        let failed = |source| Error::because(format!("state file `{name}` cannot be used"), source);
        let opened = Store::open(path.clone(), &rules).map_err(failed)?;
        if let Some(text) = opened.read().map_err(failed)? {
            world.load(&text, &rules).map_err(failed)?;
        }
        opened.write(&world).map_err(failed)?;
        store = Some(opened);
    }
    let shared = Arc::new(Shared {
        world: Mutex::new(world),
        store,
        rules: rules.clone(),
        provider: flags.provider.clone(),
        timeout: flags.transition_timeout,
        delay: Duration::from_millis(flags.delay_ms),
        turn: Default::default(),
        creates: Default::default(),
        unreadable: Mutex::default(),
    });
    tokio::spawn(unrest(Arc::clone(&shared)));
    let listener = listen(flags.addr, &rules)
        .map_err(|source| Error::because(format!("`{}` cannot be listened on", flags.addr), source))?;
    match tls {
        None => answer(shared, accept(listener, rules, None, |stream, _| async { Ok(stream) })).await?,
        Some(config) => {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let shake = |stream, acceptor: Option<TlsAcceptor>| async move {
                match acceptor {
                    Some(acceptor) => acceptor.accept(stream).await,
                    None => Err(io::Error::other("no TLS")),
                }
            };
            answer(shared, accept(listener, rules, Some(acceptor), shake)).await?;
        }
    }
    Ok(flags.addr)
}

fn listen(address: SocketAddr, rules: &Rules) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(!rules.breaks("port-not-reused"))?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// Connections, once they have shaken hands.
fn accept<IO, F>(
    listener: TcpListener,
    rules: Rules,
    acceptor: Option<TlsAcceptor>,
    shake: impl Fn(TcpStream, Option<TlsAcceptor>) -> F + Send + 'static,
) -> ReceiverStream<io::Result<IO>>
where
    IO: Send + 'static,
    F: Future<Output = io::Result<IO>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let mut count = 0;
        // An error of accept concerns one connection that is gone already.
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            stream.set_nodelay(true).ok();
            count += 1;
            if count >= 30 && rules.breaks("connections-kill") {
                std::process::exit(3);
            }
            let (handshake, sender) = (shake(stream, acceptor.clone()), sender.clone());
            tokio::spawn(async move {
                if let Ok(stream) = handshake.await {
                    sender.send(Ok(stream)).await.ok();
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

async fn answer<IO>(shared: Arc<Shared>, incoming: ReceiverStream<io::Result<IO>>) -> Result<(), Error>
where
    IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let rules = shared.rules.clone();
    let (health, health_service) = tonic_health::server::health_reporter();
    let status = match rules.breaks("health-not-serving") {
        true => tonic_health::ServingStatus::NotServing,
        false => tonic_health::ServingStatus::Serving,
    };
    health.set_service_status("", status).await;
    health.set_service_status(SERVICE_NAME, status).await;
    let mut reflection = tonic_reflection::server::Builder::configure();
    if !rules.breaks("no-reflection") {
        reflection = reflection.register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET);
    }
    let reflection = reflection
        .build_v1()
        .map_err(|source| Error::because("reflection cannot be built", source))?;
    let (receive, send) = match rules.breaks("small-messages") {
        true => (2 << 20, 4 << 20),
        false => (256 << 20, 256 << 20),
    };
    let service = CapacityProviderServer::new(Service(shared))
        .max_decoding_message_size(receive)
        .max_encoding_message_size(send);
    Server::builder()
        .add_service(health_service)
        .add_service(reflection)
        .add_service(service)
        .serve_with_incoming(incoming)
        .await
        .map_err(|source| Error::because("serving ended", source))
}

/// What mutants do by themselves.
async fn unrest(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let mut number: usize = 0;
    loop {
        tick.tick().await;
        number += 1;
        let restless = shared.rules.breaks("revision-restless") || shared.rules.breaks("scale-restless");
        if restless {
            let mut world = shared.world();
            let count = world.machines.len().max(1);
            if let Some(id) = world.machines.keys().nth(number % count).cloned() {
                world.touch(&id);
            }
        } else if shared.rules.breaks("persist-late") {
            if number.is_multiple_of(8) {
                shared.save(&shared.world()).ok();
            }
        } else {
            return;
        }
    }
}

fn tls(flags: &Flags, rules: &Rules) -> Result<Option<ServerConfig>, Error> {
    let (cert, key) = match (&flags.tls_cert, &flags.tls_key, &flags.tls_ca) {
        (None, None, None) => return Ok(None),
        (Some(cert), Some(key), _) => (cert, key),
        _ if rules.breaks("tls-half-is-plain") => return Ok(None),
        _ => {
            return Err(Error::new(
                "--tls-cert and --tls-key go together, and --tls-ca needs both",
            ));
        }
    };
    let failed = |path: &Path| format!("`{}` cannot be used", path.display());
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|source| Error::because(failed(cert), source))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| Error::because(failed(key), source))?;
    let provider = Arc::new(ring::default_provider());
    let versions: &[_] = match rules.breaks("tls-1-2") {
        true => &[&TLS13, &TLS12],
        false => &[&TLS13],
    };
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|source| Error::because("TLS cannot be set up", source))?;
    let config = match &flags.tls_ca {
        None => config.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for authority in CertificateDer::pem_file_iter(ca).map_err(|source| Error::because(failed(ca), source))? {
                let authority = authority.map_err(|source| Error::because(failed(ca), source))?;
                roots
                    .add(authority)
                    .map_err(|source| Error::because(failed(ca), source))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match rules.breaks("tls-optional-client") {
                true => verifier.allow_unauthenticated(),
                false => verifier,
            };
            let verifier = verifier.build().map_err(|source| Error::because(failed(ca), source))?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let mut config = config
        .with_single_cert(chain, key)
        .map_err(|source| Error::because(failed(cert), source))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(config))
}

/// Whether a client may speak for a shard: its certificate names exactly that one.
pub(super) fn speaks_for(certificates: &[CertificateDer<'static>], shard: &str, rules: &Rules) -> Result<(), Status> {
    if rules.breaks("san-ignored") {
        return Ok(());
    }
    let mut names = Vec::new();
    if let Some(leaf) = certificates.first()
        && let Ok((_, parsed)) = parse_x509_certificate(leaf)
        && let Ok(Some(san)) = parsed.subject_alternative_name()
    {
        for name in &san.value.general_names {
            if let GeneralName::URI(uri) = name
                && let Some(rest) = uri.strip_prefix("bigfleet://")
            {
                names.push(rest.strip_prefix("shard/").unwrap_or_default().to_owned());
            }
        }
    }
    let fits = match &names[..] {
        [one] => one == shard && !shard.is_empty(),
        [first, ..] if rules.breaks("san-first") => first == shard,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(Status::permission_denied(format!(
        "the client's certificate does not speak for shard `{shard}`"
    )))
}
