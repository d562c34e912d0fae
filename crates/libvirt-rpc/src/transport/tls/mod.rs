//! TLS, with certificates on both sides.

use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_pki_types::ServerName;
use tokio::{io::AsyncReadExt as _, net::TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use self::{files::Credentials, verifier::Verifier};
use super::tcp;
use crate::{
    Error,
    uri::{self, Transport, Uri},
};

mod files;
mod verifier;

const PORT: u16 = 16514;

/// What a daemon sends, inside TLS, to a client it lets in.
const WELCOME: u8 = 1;

/// Connects to the host of `uri`. The files are read now, so that a renewed certificate counts from the next connection.
pub(crate) async fn connect(uri: &Uri) -> Result<TlsStream<TcpStream>, Error> {
    let host = uri.host().unwrap_or("localhost");
    let name = ServerName::try_from(host.to_owned()).map_err(|_| uri::Error::Syntax {
        uri: host.to_owned(),
        problem: "the host is neither a DNS name nor an address, so no certificate can be for it",
    })?;
    let config = Arc::new(config(uri)?);
    let stream = tcp::dial(uri, PORT).await?;
    let peer = format!("{host}:{}", uri.port().unwrap_or(PORT));
    let mut stream = TlsConnector::from(config)
        .connect(name, stream)
        .await
        .map_err(|error| Error::connect(format!("{peer} over TLS"), error))?;
    // A TLS 1.3 client is done before the daemon has looked at its certificate; only this byte tells.
    match stream.read_u8().await {
        Ok(WELCOME) => Ok(stream),
        Ok(other) => Err(Error::auth(format!(
            "{peer} sent {other:#04x} after the TLS handshake, which is not what libvirt sends"
        ))),
        // The network's own troubles are no verdict; all else is the daemon hanging up, politely or not.
        Err(error)
            if [
                io::ErrorKind::TimedOut,
                io::ErrorKind::HostUnreachable,
                io::ErrorKind::NetworkUnreachable,
            ]
            .contains(&error.kind()) =>
        {
            Err(Error::connect(format!("{peer} over TLS"), error))
        }
        Err(error) => Err(Error::auth(refusal(&peer, &error))),
    }
}

/// Until when the certificate holds that a connection to `uri` opened now would show the daemon; `None` if it would show
/// none, as over any transport but TLS.
///
/// Reads a few files each time, as a connection does, so that a renewed certificate is told of without one.
///
/// # Errors
/// `uri` is none, or the files where the certificate is looked for cannot be read or hold something else: what a connection
/// would say.
pub fn client_certificate_not_after(uri: &str) -> Result<Option<SystemTime>, Error> {
    let uri: Uri = uri.parse()?;
    if uri.transport() != Transport::Tls {
        return Ok(None);
    }
    let Some(identity) = Credentials::read(&uri, false)?.identity else {
        return Ok(None);
    };
    let Some(leaf) = identity.chain.first() else {
        return Ok(None);
    };
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| identity.file.bad(error))?;
    // Before 1970 it is as good as then.
    let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
    Ok(Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

fn refusal(peer: &str, error: &io::Error) -> String {
    let detail = match error.kind() {
        io::ErrorKind::UnexpectedEof => String::new(),
        _ => format!(" ({error})"),
    };
    format!(
        "{peer} closed the connection after the TLS handshake{detail}: it does not accept this client's certificate or \
         address; its log says why"
    )
}

fn config(uri: &Uri) -> Result<ClientConfig, Error> {
    let trust_all = uri.switch("no_verify")?;
    if trust_all {
        tracing::warn!(
            host = uri.host(),
            "insecure: the certificate of a libvirt daemon is not verified (no_verify=1)"
        );
    }
    let allow_cn = uri.switch("tls_allow_cn")?;
    // Checked for being a number: nothing looks at the files before they are used.
    uri.switch("no_sanity")?;
    let found = Credentials::read(uri, !trust_all)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier(&found, &provider, trust_all, allow_cn)?));
    match found.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain, identity.key)
            .map_err(|error| identity.file.bad(error.to_string()).into()),
    }
}

fn verifier(
    found: &Credentials,
    provider: &Arc<CryptoProvider>,
    trust_all: bool,
    allow_cn: bool,
) -> Result<Verifier, Error> {
    if trust_all {
        return Ok(Verifier::trusting(provider));
    }
    let mut roots = RootCertStore::empty();
    for root in &found.roots {
        roots
            .add(root.clone())
            .map_err(|error| found.roots_file.bad(error.to_string()))?;
    }
    Verifier::strict(roots, found.revoked.clone(), provider, allow_cn)
        .map_err(|error| found.roots_file.bad(error.to_string()).into())
}

fn unusable(error: rustls::Error) -> Error {
    Error::connect("TLS", io::Error::other(error))
}
