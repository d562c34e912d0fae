//! The connections to one host. Each kind of work has its own, since a daemon serves only five calls of a connection
//! at a time: an agent that does not answer, or an upload, must not hold up the rest (field report F05).

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use libvirt_rpc::{Connection, Observer, Options, transport::tls::client_certificate_not_after};

use crate::host::Facts;

/// How a host is reached other than by URI.
pub trait Dial: Send + Sync + fmt::Debug {
    /// Opens one connection.
    fn dial(
        &self,
        options: Options,
    ) -> Pin<Box<dyn Future<Output = Result<Connection, libvirt_rpc::Error>> + Send + '_>>;
}

/// Where a host's daemon is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Endpoint {
    /// At a URI.
    Uri(String),
    /// Wherever this leads.
    Custom(Arc<dyn Dial>),
}

/// A silent host is given up after this, counted in pings.
const PING: Duration = Duration::from_secs(5);
const PINGS: u32 = 5;
const CONNECT: Duration = Duration::from_secs(20);

impl Endpoint {
    /// Whether it leads to the same place, as far as can be told.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Uri(this), Self::Uri(other)) => this == other,
            (Self::Custom(this), Self::Custom(other)) => Arc::ptr_eq(this, other),
            _ => false,
        }
    }

    /// Until when the certificate holds that it is shown now, if it is shown one.
    pub(crate) fn not_after(&self) -> Result<Option<SystemTime>, libvirt_rpc::Error> {
        match self {
            Self::Uri(uri) => client_certificate_not_after(uri),
            Self::Custom(_) => Ok(None),
        }
    }

    pub(crate) async fn connect(&self, observer: Arc<dyn Observer>) -> Result<Connection, libvirt_rpc::Error> {
        let options = Options::default()
            .keepalive(PING, PINGS)
            .connect_timeout(CONNECT)
            .observer(observer);
        self.connect_with(options).await
    }

    pub(crate) async fn connect_with(&self, options: Options) -> Result<Connection, libvirt_rpc::Error> {
        match self {
            Self::Uri(uri) => Connection::open_with(uri, options).await,
            Self::Custom(dial) => dial.dial(options).await,
        }
    }
}

/// The connections to one host, and what it was found to be when they were opened.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Short calls.
    pub(crate) control: Connection,
    /// Calls that wait for a guest.
    pub(crate) agent: Connection,
    /// Uploads, and calls that copy or delete a lot.
    pub(crate) bulk: Connection,
    pub(crate) facts: Facts,
}
