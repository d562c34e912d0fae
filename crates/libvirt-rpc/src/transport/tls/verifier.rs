//! Whether the daemon is who it should be.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        VerifierBuilderError, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use x509_parser::{extensions::GeneralName, prelude::*};

/// libvirt's rules, which are those of the web but for two switches.
#[derive(Debug)]
pub(super) struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` trusts everybody.
    inner: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates of old fleets name their host in the CN only.
    allow_cn: bool,
}

impl Verifier {
    /// Asks nothing of the daemon's certificate: `no_verify=1`.
    pub(super) fn trusting(provider: &Arc<CryptoProvider>) -> Self {
        Self {
            provider: Arc::clone(provider),
            inner: None,
            allow_cn: false,
        }
    }

    /// Wants a chain to one of the roots and the host's name.
    pub(super) fn strict(
        roots: RootCertStore,
        revoked: Vec<CertificateRevocationListDer<'static>>,
        provider: &Arc<CryptoProvider>,
        allow_cn: bool,
    ) -> Result<Self, VerifierBuilderError> {
        // As GnuTLS does: a list says who is revoked, its silence about an issuer says nothing.
        let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider))
            .with_crls(revoked)
            .allow_unknown_revocation_status()
            .build()?;
        Ok(Self {
            provider: Arc::clone(provider),
            inner: Some(inner),
            allow_cn,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        match inner.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The chain is checked before the name, so that only the name is in question here.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.allow_cn && names_in_cn(certificate, &name.to_str()) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a certificate without any alternative name for a host has `host` as its CN.
fn names_in_cn(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let Ok(alternative) = certificate.subject_alternative_name() else {
        return false;
    };
    let is_host = |name: &GeneralName<'_>| matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_));
    if alternative.is_some_and(|names| names.value.general_names.iter().any(is_host)) {
        return false;
    }
    let mut names = certificate.subject().iter_common_name();
    // With several, which one counts is not agreed upon.
    match (names.next().map(|name| name.as_str()), names.next()) {
        (Some(Ok(name)), None) => name.eq_ignore_ascii_case(host),
        _ => false,
    }
}
