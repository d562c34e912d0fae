//! From files to a server's configuration.

use std::{fs, path::Path, sync::Arc};

use rustls::{RootCertStore, ServerConfig, crypto::CryptoProvider, server::WebPkiClientVerifier, version::TLS13};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::Error;
use crate::{settings::TlsFiles, telemetry::names};

/// Material that was whole when it was read.
#[derive(Debug)]
pub(super) struct Material {
    pub(super) config: Arc<ServerConfig>,
    /// Seconds since 1970.
    not_after: Option<i64>,
}

impl Material {
    /// Reads all files, from scratch.
    pub(super) fn load(files: &TlsFiles) -> Result<Self, Error> {
        let chain = certificates(&files.cert)?;
        let not_after = chain.first().and_then(not_after);
        let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|source| Error::Missing {
            path: files.key.clone(),
            wanted: "private key",
            source: Some(source),
        })?;
        let unusable = |source| Error::Unusable {
            cert: files.cert.clone(),
            key: files.key.clone(),
            source,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?;
        let builder = match &files.ca {
            None => builder.with_no_client_auth(),
            Some(ca) => builder.with_client_cert_verifier(authorities(ca, provider)?),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            not_after,
        })
    }

    /// Shows when the certificate expires.
    pub(super) fn publish(&self) {
        if let Some(seconds) = self.not_after {
            #[allow(clippy::cast_precision_loss, reason = "exact until the year 285 million")]
            metrics::gauge!(names::CERTIFICATE_NOT_AFTER, "listener" => "grpc").set(seconds as f64);
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let missing = |source| Error::Missing {
        path: path.to_owned(),
        wanted: "certificate",
        source,
    };
    let pem = read(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|source| missing(Some(source)))?;
    if chain.is_empty() {
        Err(missing(None))
    } else {
        Ok(chain)
    }
}

fn authorities(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Error> {
    let unusable = |source| Error::Authorities {
        path: path.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(error.into()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unusable(error.into()))
}

fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}
