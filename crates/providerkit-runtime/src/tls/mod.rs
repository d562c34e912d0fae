//! TLS for the gRPC port: TLS 1.3 with ALPN `h2`, client certificates where an authority is given, and material that
//! is read again when its files change.

mod look;
mod material;
mod peer;
mod reload;

use std::{path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use rustls::ServerConfig;

use self::{material::Material, reload::Stamp};
use crate::settings::TlsFiles;

pub use self::look::{Certificate, look};
pub(crate) use self::peer::caller;

/// How often the files are looked at.
const POLL: Duration = Duration::from_secs(1);

/// The material in use. Connections keep what they began with; new ones get the latest that was whole.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
    loaded: Stamp,
}

impl Tls {
    /// Reads the files for the first time.
    pub(crate) fn load(files: TlsFiles) -> Result<Self, Error> {
        let loaded = Stamp::of(&files);
        let material = Material::load(&files)?;
        material.publish();
        Ok(Self {
            files,
            current: ArcSwap::new(material.config),
            loaded,
        })
    }

    /// What the next connection is to be accepted with.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Whether clients must have a certificate.
    pub(crate) fn identifies_clients(&self) -> bool {
        self.files.ca.is_some()
    }

    /// Follows the files until it is dropped.
    pub(crate) async fn watch(&self) {
        reload::watch(self, POLL).await;
    }
}

/// Material that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("TLS file `{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("TLS file `{}` holds no {wanted}; it must be PEM", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        wanted: &'static str,
        /// Why, if it was there but damaged.
        source: Option<rustls_pki_types::pem::Error>,
    },
    /// The certificate and the key are not a pair, or of no use to TLS.
    #[error("certificate `{}` and key `{}` cannot be used together", cert.display(), key.display())]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authorities for client certificates are of no use.
    #[error("client authorities `{}` cannot be used", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
