//! How a connection behaves.

use std::{sync::Arc, time::Duration};

#[cfg(feature = "sasl")]
use crate::sasl::credentials::Credentials;
use crate::{connection::observer::Observer, transport::ssh::Ssh};

/// Settings of a connection; the defaults suit a daemon with libvirt's own defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    pub(crate) read_only: bool,
    pub(crate) window: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) stream_buffer: usize,
    pub(crate) event_queue: usize,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    #[cfg(feature = "sasl")]
    pub(crate) credentials: Option<Credentials>,
    pub(crate) ssh: Ssh,
    #[cfg(feature = "russh")]
    pub(crate) passphrase: Option<Passphrase>,
    #[cfg(feature = "russh")]
    pub(crate) agent: Option<std::path::PathBuf>,
}

/// What a private key is encrypted with.
#[cfg(feature = "russh")]
#[derive(Clone)]
pub(crate) struct Passphrase(String);

#[cfg(feature = "russh")]
impl Passphrase {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(feature = "russh")]
impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// When to ask a silent peer whether it lives, and how often before it counts as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive {
    pub(crate) interval: Duration,
    pub(crate) count: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            window: 4,
            deadline: Some(Duration::from_secs(60)),
            connect_timeout: Duration::from_secs(30),
            keepalive: Some(Keepalive {
                interval: Duration::from_secs(5),
                count: 5,
            }),
            stream_buffer: 4 << 20,
            event_queue: 1024,
            observer: None,
            #[cfg(feature = "sasl")]
            credentials: None,
            ssh: Ssh::default(),
            #[cfg(feature = "russh")]
            passphrase: None,
            #[cfg(feature = "russh")]
            agent: None,
        }
    }
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the connection for reading only; on this machine that is the `-ro` socket, which needs no authentication.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How many calls the daemon may be working on at a time; the last slot is never given to calls that may wait.
    ///
    /// A daemon stops reading a connection with five calls in work (`max_client_requests`): nothing gets through then,
    /// not even a ping. Therefore 4. Raise it only with the daemon's setting.
    #[must_use]
    pub fn window(mut self, calls: usize) -> Self {
        self.window = calls.max(1);
        self
    }

    /// How long a call may take, waiting for its turn included; `None` is for ever. 60 seconds by default.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// How long everything up to the open connection may take. 30 seconds by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Who to log in as, where the daemon asks with SASL. Without, libvirt's `auth.conf` files are asked.
    #[cfg(feature = "sasl")]
    #[must_use]
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(Credentials::new(user, password));
        self
    }

    /// Who speaks ssh, where the URI wants it; with feature `russh` this library itself, unless this says otherwise.
    #[must_use]
    pub fn ssh(mut self, ssh: Ssh) -> Self {
        self.ssh = ssh;
        self
    }

    /// Where the ssh agent listens, if not where the environment says (`SSH_AUTH_SOCK`).
    #[cfg(feature = "russh")]
    #[must_use]
    pub fn ssh_agent(mut self, socket: impl Into<std::path::PathBuf>) -> Self {
        self.agent = Some(socket.into());
        self
    }

    /// What the private key that ssh logs in with is encrypted with.
    #[cfg(feature = "russh")]
    #[must_use]
    pub fn passphrase(mut self, passphrase: impl Into<String>) -> Self {
        self.passphrase = Some(Passphrase(passphrase.into()));
        self
    }

    /// Asks a silent peer every `interval` whether it lives, and gives it up after `count` questions without answer.
    #[must_use]
    pub fn keepalive(mut self, interval: Duration, count: u32) -> Self {
        self.keepalive = Some(Keepalive {
            interval: interval.max(Duration::from_millis(1)),
            count,
        });
        self
    }

    /// Never asks; the peer's own pings are answered all the same.
    #[must_use]
    pub fn without_keepalive(mut self) -> Self {
        self.keepalive = None;
        self
    }

    /// Who is told of every call, for metrics.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// How many bytes of a stream are kept for a reader that is slow. 4 MiB by default.
    #[must_use]
    pub fn stream_buffer(mut self, bytes: usize) -> Self {
        self.stream_buffer = bytes.max(1);
        self
    }

    /// How many events are kept for a subscriber that is slow. 1024 by default.
    #[must_use]
    pub fn event_queue(mut self, events: usize) -> Self {
        self.event_queue = events.max(1);
        self
    }
}
