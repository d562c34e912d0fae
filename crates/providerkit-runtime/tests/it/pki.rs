//! Certificates, and clients that have them.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    version::TLS13,
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Error;
use tower::service_fn;

use crate::desk::{Client, endpoint};

/// Somebody who signs.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub(crate) struct Leaf {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// For our own port.
    pub(crate) fn server(&self) -> Leaf {
        self.sign(vec![SanType::DnsName("localhost".try_into().unwrap())])
    }

    /// For a client with these URIs.
    pub(crate) fn client(&self, uris: &[&str]) -> Leaf {
        self.sign(
            uris.iter()
                .map(|uri| SanType::URI((*uri).try_into().unwrap()))
                .collect(),
        )
    }

    fn sign(&self, names: Vec<SanType>) -> Leaf {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.subject_alt_names = names;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Leaf { certificate, key }
    }

    /// A client's side, trusting this authority.
    pub(crate) fn trusting(&self, leaf: Option<&Leaf>, version: &'static SupportedProtocolVersion) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match leaf {
            None => config.with_no_client_auth(),
            Some(leaf) => {
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf.key.serialize_der()));
                config
                    .with_client_auth_cert(vec![leaf.certificate.der().clone()], key)
                    .unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }

    /// A client that has called once; its channel never makes a second connection.
    pub(crate) async fn connect(&self, address: SocketAddr, leaf: Option<&Leaf>) -> Result<Client, String> {
        connect(address, self.trusting(leaf, &TLS13)).await
    }
}

pub(crate) async fn connect(address: SocketAddr, config: ClientConfig) -> Result<Client, String> {
    let connector = TlsConnector::from(Arc::new(config));
    let used = Arc::new(AtomicBool::new(false));
    let dial = service_fn(move |_| {
        let (connector, used) = (connector.clone(), Arc::clone(&used));
        async move {
            if used.swap(true, Ordering::SeqCst) {
                return Err(std::io::Error::other("the connection was lost"));
            }
            let name = ServerName::try_from("localhost").unwrap();
            let stream = connector.connect(name, TcpStream::connect(address).await?).await?;
            Ok(TokioIo::new(stream))
        }
    });
    let channel = endpoint(address).connect_with_connector(dial).await;
    let client = Client::over(channel.map_err(|error: Error| format!("{error:?}"))?);
    // In TLS 1.3 a client learns only from the first answer whether its certificate was accepted.
    client.get("m").await.map_err(|status| format!("{status:?}"))?;
    Ok(client)
}

/// A folder with TLS files.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new(leaf: &Leaf) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("tls.crt", &leaf.certificate.pem());
        files.write("tls.key", &leaf.key.serialize_pem());
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The keys that name these files.
    pub(crate) fn keys(&self, ca: Option<&Authority>) -> Vec<(&'static str, String)> {
        let key = |key, name: &str| (key, text(&self.path(name)));
        let mut keys = vec![key("listen.tls.cert", "tls.crt"), key("listen.tls.key", "tls.key")];
        if let Some(ca) = ca {
            self.write("ca.crt", &ca.pem());
            keys.push(key("listen.tls.ca", "ca.crt"));
        }
        keys
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
