//! TLS, with certificates where libvirt keeps them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _,
};
use tokio::{io::AsyncReadExt as _, net::TcpStream};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    },
};

use super::tcp;
use crate::{Error, uri::Uri};

const PORT: u16 = 16514;
/// What the daemon sends when it has accepted our certificate and address.
const ACCEPTED: u8 = 1;

/// Connects, shakes hands and waits until the daemon has judged us.
pub(crate) async fn connect(uri: &Uri) -> Result<TlsStream<TcpStream>, Error> {
    let host = uri.host().unwrap_or("localhost").to_owned();
    let peer = format!("{host} (tls)");
    let failed = |error| Error::connect(&peer, error);
    let files = Files::find(uri.parameter("pkipath").map(Path::new), |path| path.exists());
    let config = config(&files, uri.switch("no_verify")?)?;
    let name = ServerName::try_from(host).map_err(|error| failed(io::Error::other(error)))?;
    let socket = tcp::dial(uri, PORT).await?;
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
        .map_err(failed)?;
    // With TLS 1.3 the handshake is over on our side before the daemon has looked at our certificate.
    let refused = || {
        failed(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the daemon does not accept our certificate or address",
        ))
    };
    match stream.read_u8().await {
        Ok(ACCEPTED) => Ok(stream),
        Ok(_) => Err(refused()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(refused()),
        Err(error) => Err(failed(error)),
    }
}

/// Where the certificates are.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    authority: PathBuf,
    revoked: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    /// All in one folder when the URI names it; else the user's, file by file, before the machine's.
    fn find(folder: Option<&Path>, exists: impl Fn(&Path) -> bool) -> Self {
        let within = |folder: &Path| Self {
            authority: folder.join("cacert.pem"),
            revoked: folder.join("cacrl.pem"),
            certificate: folder.join("clientcert.pem"),
            key: folder.join("clientkey.pem"),
        };
        if let Some(folder) = folder {
            return within(folder);
        }
        let mut files = Self {
            authority: "/etc/pki/CA/cacert.pem".into(),
            revoked: "/etc/pki/CA/cacrl.pem".into(),
            certificate: "/etc/pki/libvirt/clientcert.pem".into(),
            key: "/etc/pki/libvirt/private/clientkey.pem".into(),
        };
        if rustix::process::getuid().is_root() {
            return files;
        }
        let Some(home) = std::env::var_os("HOME") else {
            return files;
        };
        let own = within(&Path::new(&home).join(".pki/libvirt"));
        if exists(&own.authority) {
            files.authority = own.authority;
        }
        if exists(&own.revoked) {
            files.revoked = own.revoked;
        }
        // A certificate is nothing without its key.
        if exists(&own.certificate) && exists(&own.key) {
            (files.certificate, files.key) = (own.certificate, own.key);
        }
        files
    }
}

fn config(files: &Files, trusts_all: bool) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::connect("tls", io::Error::other(error)))?
        .dangerous();
    let verifier: Arc<dyn ServerCertVerifier> = if trusts_all {
        Arc::new(TrustsAll(provider))
    } else {
        authority(files, provider)?
    };
    let builder = builder.with_custom_certificate_verifier(verifier);
    if !files.certificate.exists() {
        return Ok(builder.with_no_client_auth());
    }
    let chain = pem(&files.certificate, |path| {
        CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()
    })?;
    let key = pem(&files.key, |path| PrivateKeyDer::from_pem_file(path))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| unusable(&files.certificate, error))
}

/// Trusts what libvirt's certificate authority has signed and not revoked.
fn authority(files: &Files, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in pem(&files.authority, |path| {
        CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()
    })? {
        roots
            .add(certificate)
            .map_err(|error| unusable(&files.authority, error))?;
    }
    let mut builder = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
    if files.revoked.exists() {
        let lists = pem(&files.revoked, |path| {
            CertificateRevocationListDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()
        })?;
        builder = builder.with_crls(lists).allow_unknown_revocation_status();
    }
    let verifier = builder.build().map_err(|error| unusable(&files.authority, error))?;
    Ok(verifier)
}

fn pem<T, E: std::error::Error + Send + Sync + 'static>(
    path: &Path,
    read: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, Error> {
    read(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::connect(
        format!("a tls daemon: {} cannot be used", path.display()),
        io::Error::other(error),
    )
}

/// For `no_verify=1`, which gives the connection to whoever answers.
#[derive(Debug)]
struct TrustsAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustsAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, tokio_rustls::rustls::Error> {
        tracing::warn!(host = ?name, "insecure: the certificate of a libvirt daemon is not verified (no_verify=1)");
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_uri_is_the_only_one() {
        let files = Files::find(Some(Path::new("/pki")), |_| true);
        assert_eq!(files.key, Path::new("/pki/clientkey.pem"));
        assert_eq!(files.authority, Path::new("/pki/cacert.pem"));
    }
}
