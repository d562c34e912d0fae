//! The cluster's certificates.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

/// All as PEM.
pub(super) struct Pki {
    pub(super) authority: String,
    /// The kubelet's certificate, and its key after it.
    pub(super) client: String,
    server: (String, String),
}

impl Pki {
    pub(super) fn new(address: &str, node: &str) -> Self {
        let mut params = params("lab-ca", None, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let sign = |mut params: CertificateParams, purpose| {
            params.extended_key_usages = vec![purpose];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            (certificate.pem(), key.serialize_pem())
        };
        let server = sign(
            self::params("kube-apiserver", None, &[address]),
            ExtendedKeyUsagePurpose::ServerAuth,
        );
        let client = sign(
            self::params(&format!("system:node:{node}"), Some("system:nodes"), &[]),
            ExtendedKeyUsagePurpose::ClientAuth,
        );
        Self {
            authority,
            client: client.0 + &client.1,
            server,
        }
    }

    pub(super) fn server(&self) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.authority)).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate(&self.server.0)],
                PrivateKeyDer::from_pem_slice(self.server.1.as_bytes()).unwrap(),
            )
            .unwrap()
    }
}

/// Whom a client's certificate names.
pub(super) fn user(connection: &ServerConnection) -> Option<String> {
    let certificate = connection.peer_certificates()?.first()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}

fn params(common_name: &str, organization: Option<&str>, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}
