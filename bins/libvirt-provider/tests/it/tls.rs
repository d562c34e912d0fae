//! TLS, and who may speak for a shard (contract §1.4, ADR-0048).

use std::{fs, path::PathBuf, sync::Arc};

use bigfleet_proto::MachineState as S;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::{Code, transport::Endpoint};
use tower::service_fn;

use crate::harness::{Client, Launch, Provider, Shard, Token, expect_ok, expect_status, operation};

/// A certificate and its key.
pub(crate) struct Leaf {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

/// A CA, and the files a provider is given.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            directory: TempDir::new().unwrap(),
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn sign(&self, names: Vec<SanType>) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf { certificate, key }
    }

    /// A certificate for these names and addresses, from one year to another.
    pub(crate) fn server(&self, names: &[&str], years: std::ops::Range<i32>) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf { certificate, key }
    }

    /// A client certificate with these URIs.
    pub(crate) fn client(&self, uris: &[&str]) -> Leaf {
        self.sign(
            uris.iter()
                .map(|uri| SanType::URI((*uri).try_into().unwrap()))
                .collect(),
        )
    }

    pub(crate) fn write(&self, name: &str, pem: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, pem).unwrap();
        path
    }

    /// Puts a new certificate that expires in that year in the place of the one that [`launch`](Self::launch) gave;
    /// says when that is, in seconds since 1970.
    pub(crate) fn renew(&self, year: i32) -> f64 {
        self.issue(&["localhost"], year, ["tls.crt", "tls.key"])
    }

    /// Writes a certificate that expires on the first of a year, and its key; says when that is.
    fn issue(&self, names: &[&str], year: i32, files: [&str; 2]) -> f64 {
        let leaf = self.server(names, 2020..year);
        self.write(files[0], &leaf.certificate.pem());
        self.write(files[1], &leaf.key.serialize_pem());
        rcgen::date_time_ymd(year, 1, 1).unix_timestamp() as f64
    }

    /// A folder with what libvirt's clients look for, with a client certificate of a few years.
    pub(crate) fn pki(&self) -> PathBuf {
        fs::create_dir_all(self.directory.path().join("pki")).unwrap();
        self.write("pki/cacert.pem", &self.certificate.pem());
        self.renew_client(2101);
        self.directory.path().join("pki")
    }

    /// Puts a client certificate there that is valid to the first of a year; says when that is, in seconds since 1970.
    pub(crate) fn renew_client(&self, year: i32) -> f64 {
        self.issue(&[], year, ["pki/clientcert.pem", "pki/clientkey.pem"])
    }

    /// A launch with a server certificate for `localhost`.
    pub(crate) fn launch(&self) -> Launch {
        let leaf = self.sign(vec![SanType::DnsName("localhost".try_into().unwrap())]);
        let certificate = self.write("tls.crt", &leaf.certificate.pem());
        let key = self.write("tls.key", &leaf.key.serialize_pem());
        Launch::new()
            .flag(format!("--tls-cert={}", certificate.display()))
            .flag(format!("--tls-key={}", key.display()))
    }

    /// The same, and clients must have a certificate of this CA.
    pub(crate) fn mutual(&self) -> Launch {
        let ca = self.write("ca.crt", &self.certificate.pem());
        self.launch().flag(format!("--tls-ca={}", ca.display()))
    }

    /// Its own certificate, in a file.
    pub(crate) fn file(&self) -> PathBuf {
        self.write("ca.crt", &self.certificate.pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        roots
    }

    /// A client's side of TLS.
    fn config(&self, leaf: Option<&Leaf>, version: &'static SupportedProtocolVersion) -> ClientConfig {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(self.roots());
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

    pub(crate) async fn connect(&self, provider: &Provider, leaf: Option<&Leaf>) -> Client {
        let client = try_connect(provider, self.config(leaf, &TLS13)).await;
        Client::over(client.unwrap())
    }
}

/// A channel through TLS.
async fn try_connect(
    provider: &Provider,
    config: ClientConfig,
) -> Result<tonic::transport::Channel, tonic::transport::Error> {
    let (address, connector) = (provider.address(), TlsConnector::from(Arc::new(config)));
    let service = service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").unwrap();
            connector.connect(name, stream).await.map(TokioIo::new)
        }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(service)
        .await
}

#[tokio::test]
async fn without_a_client_ca_any_client_is_served_over_tls() {
    let authority = Authority::new();
    let provider = authority.launch().start().await;
    let client = authority.connect(&provider, None).await;
    let id = client.idle().await;
    operation(client.create(&id, &Shard::new("anyone").at(1, 1)).await);
}

/// ADR-0048, the good case.
#[tokio::test]
async fn a_shard_speaks_for_itself() {
    let authority = Authority::new();
    let provider = authority.mutual().start().await;
    let leaf = authority.client(&["bigfleet://shard/alpha"]);
    let client = authority.connect(&provider, Some(&leaf)).await;
    let (id, shard) = (client.pick_one().await, Shard::new("alpha"));
    operation(client.create(&id, &shard.at(1, 1)).await);
    client.reach(&id, S::Idle).await;
}

/// ADR-0048, the bad ones: another shard, none, and the unfenced call that names no shard.
#[tokio::test]
async fn a_shard_does_not_speak_for_another_and_nothing_is_changed() {
    let authority = Authority::new();
    let provider = authority.mutual().start().await;
    let leaf = authority.client(&["bigfleet://shard/alpha"]);
    let client = authority.connect(&provider, Some(&leaf)).await;
    let id = client.pick_one().await;
    let before = client.get(&id).await;
    let beta = Shard::new("beta");
    let binding = crate::harness::Binding::to("c");
    for token in [beta.at(9, 9), Token::unfenced()] {
        expect_status(&client.create(&id, &token).await, Code::PermissionDenied);
        expect_status(&client.configure(&id, &binding, &token).await, Code::PermissionDenied);
        expect_status(&client.drain(&id, 0, &token).await, Code::PermissionDenied);
        expect_status(&client.delete(&id, &token).await, Code::PermissionDenied);
    }
    assert_eq!(client.get(&id).await, before);

    // The refused calls of the impostor built no mark for the real one.
    let real = authority.client(&["bigfleet://shard/beta"]);
    let real = authority.connect(&provider, Some(&real)).await;
    operation(real.create(&id, &beta.at(1, 1)).await);
}

#[tokio::test]
async fn a_certificate_must_name_exactly_one_shard() {
    let authority = Authority::new();
    let provider = authority.mutual().start().await;
    let strange: [&[&str]; 5] = [
        &[],
        &["bigfleet://shard/alpha", "bigfleet://shard/beta"],
        &["bigfleet://provider/alpha"],
        &["spiffe://shard/alpha"],
        &["bigfleet://shard/"],
    ];
    for uris in strange {
        let leaf = authority.client(uris);
        let client = authority.connect(&provider, Some(&leaf)).await;
        let id = client.pick_one().await;
        let answer = client.create(&id, &Shard::new("alpha").at(1, 1)).await;
        expect_status(&answer, Code::PermissionDenied);
        assert_eq!(client.state(&id).await, S::Speculative, "{uris:?}");
    }
    let leaf = authority.client(&["bigfleet://shard/alpha", "https://elsewhere/x"]);
    let client = authority.connect(&provider, Some(&leaf)).await;
    let id = client.pick_one().await;
    expect_ok(client.create(&id, &Shard::new("alpha").at(1, 1)).await);
}

#[tokio::test]
async fn with_a_client_ca_nobody_else_gets_in() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let provider = authority.mutual().start().await;
    let theirs = stranger.client(&["bigfleet://shard/alpha"]);
    for leaf in [None, Some(&theirs)] {
        // In TLS 1.3 a client hears of its refusal only when it reads.
        if let Ok(channel) = try_connect(&provider, authority.config(leaf, &TLS13)).await {
            Client::over(channel).try_get("x").await.unwrap_err();
        }
        let plain = Endpoint::from_shared(format!("http://{}", provider.address())).unwrap();
        if let Ok(channel) = plain.connect().await {
            Client::over(channel).try_get("x").await.unwrap_err();
        }
    }
}

#[tokio::test]
async fn tls_1_2_is_refused() {
    let authority = Authority::new();
    let provider = authority.launch().start().await;
    assert!(try_connect(&provider, authority.config(None, &TLS12)).await.is_err());
}

#[tokio::test]
async fn half_of_a_tls_configuration_is_a_usage_error() {
    let authority = Authority::new();
    let leaf = authority.sign(Vec::new());
    let certificate = authority.write("a.crt", &leaf.certificate.pem());
    let key = authority.write("a.key", &leaf.key.serialize_pem());
    let ca = authority.write("ca.crt", &authority.certificate.pem());
    let halves = [
        format!("--tls-cert={}", certificate.display()),
        format!("--tls-key={}", key.display()),
        format!("--tls-ca={}", ca.display()),
    ];
    for half in halves {
        let exit = Launch::new().flag(half).run().await;
        assert_eq!(exit.code(), Some(64), "{}", exit.output);
        assert!(exit.output.contains("tls"), "{}", exit.output);
    }
}

/// Rotation: new connections see the new certificate, and nobody restarts anything.
#[tokio::test]
async fn a_new_certificate_is_taken_while_running() {
    let authority = Authority::new();
    let provider = authority.launch().start().await;
    drop(authority.connect(&provider, None).await);
    let renewed = Authority::new();
    let leaf = renewed.sign(vec![SanType::DnsName("localhost".try_into().unwrap())]);
    authority.write("tls.key", &leaf.key.serialize_pem());
    authority.write("tls.crt", &leaf.certificate.pem());
    crate::harness::eventually("the new certificate", crate::harness::AWAIT, async || {
        try_connect(&provider, renewed.config(None, &TLS13)).await.is_ok()
    })
    .await;
}
