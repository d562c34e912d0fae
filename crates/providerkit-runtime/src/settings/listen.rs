//! The gRPC port.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Address, present};
use crate::config::Findings;

/// The gRPC port, as configured.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct ListenConfig {
    /// `host:port`, or `:port` for every interface.
    pub addr: String,
    /// Whether callers may ask for the services and their messages (gRPC reflection).
    pub reflection: bool,
    /// Transport security; without it the port speaks plaintext.
    pub tls: TlsConfig,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            addr: ":9000".into(),
            reflection: true,
            tls: TlsConfig::default(),
        }
    }
}

/// Transport security, as configured. The files are read again whenever they change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TlsConfig {
    /// PEM file with the server's certificate and its chain.
    pub cert: Option<PathBuf>,
    /// PEM file with the certificate's key.
    pub key: Option<PathBuf>,
    /// PEM file with the authorities of client certificates; given, every client must have one.
    pub ca: Option<PathBuf>,
}

/// The gRPC port.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listen {
    /// Where it listens.
    pub address: Address,
    /// Whether reflection is served.
    pub reflection: bool,
    /// Transport security; absent means plaintext.
    pub tls: Option<TlsFiles>,
}

/// Where the material for TLS is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub cert: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// The authorities of client certificates.
    pub ca: Option<PathBuf>,
}

impl TlsFiles {
    /// A certificate and its key; clients need none.
    #[must_use]
    pub fn new(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            cert: cert.into(),
            key: key.into(),
            ca: None,
        }
    }

    /// Demands that clients have a certificate of these authorities.
    #[must_use]
    pub fn ca(mut self, ca: impl Into<PathBuf>) -> Self {
        self.ca = Some(ca.into());
        self
    }
}

impl Listen {
    pub(super) fn parse(config: ListenConfig, findings: &mut Findings) -> Self {
        Self {
            address: super::address("listen.addr", &config.addr, findings),
            reflection: config.reflection,
            tls: tls(config.tls, findings),
        }
    }
}

/// Half a configuration is refused, because taking it for plaintext would be worse than not starting.
fn tls(config: TlsConfig, findings: &mut Findings) -> Option<TlsFiles> {
    match (present(config.cert), present(config.key), present(config.ca)) {
        (None, None, None) => None,
        (Some(cert), Some(key), ca) => Some(TlsFiles { cert, key, ca }),
        (Some(_), None, _) => {
            findings.refuse("listen.tls.cert", "is given without its key; add `listen.tls.key`");
            None
        }
        (None, Some(_), _) => {
            findings.refuse(
                "listen.tls.key",
                "is given without its certificate; add `listen.tls.cert`",
            );
            None
        }
        (None, None, Some(_)) => {
            let problem = "is given without a certificate of our own; add `listen.tls.cert` and `listen.tls.key`";
            findings.refuse("listen.tls.ca", problem);
            None
        }
    }
}
