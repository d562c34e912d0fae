//! Why a step did not work, and whether it may be tried again on a new connection.

use std::fmt;

use providerkit_backend::Error;

/// Why a step did not work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The host said no, or could not be asked.
    Host {
        /// What was being done, to what.
        doing: String,
        /// What the host said.
        source: libvirt_rpc::Error,
    },
    /// What was found is not right; the text says what to do.
    Told(String),
}

impl Failure {
    /// A failure that says all by itself.
    pub(crate) fn told(text: impl Into<String>) -> Self {
        Self::Told(text.into())
    }

    /// Whether it says nothing about the step, only that the connection to the host was lost or too slow.
    pub(crate) fn is_connection(&self) -> bool {
        use libvirt_rpc::Kind;
        match self {
            Self::Host { source, .. } => {
                matches!(source.kind(), Kind::Disconnected | Kind::Deadline | Kind::Connect)
            }
            Self::Told(_) => false,
        }
    }

    /// Whether the guest's agent did not answer: it is busy, restarts, or its guest does.
    pub(crate) fn is_agent(&self) -> bool {
        self.source().is_some_and(libvirt_rpc::Error::is_agent_unavailable)
    }

    /// Whether agent and daemon lost step with each other, after an answer that came too late.
    pub(crate) fn is_out_of_step(&self) -> bool {
        let daemon = self.source().and_then(libvirt_rpc::Error::daemon);
        daemon.is_some_and(|daemon| daemon.message().contains("JSON parse error"))
    }

    /// Whether the agent knows nothing of a program that was started: it told already, or has restarted (F59).
    pub(crate) fn is_forgotten(&self) -> bool {
        let daemon = self.source().and_then(libvirt_rpc::Error::daemon);
        daemon.is_some_and(|daemon| daemon.message().contains("Invalid parameter 'pid'"))
    }

    /// What the host said.
    pub(crate) fn source(&self) -> Option<&libvirt_rpc::Error> {
        match self {
            Self::Host { source, .. } => Some(source),
            Self::Told(_) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { doing, .. } => write!(f, "could not {doing}"),
            Self::Told(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Host { source, .. } => Some(source),
            Self::Told(_) => None,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        match failure {
            Failure::Host { source, .. } => Self::new(text).with_source(source),
            Failure::Told(_) => Self::new(text),
        }
    }
}

/// Says what a call was for.
pub(crate) trait Doing<T> {
    /// Finishes the sentence "could not …".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T> Doing<T> for Result<T, libvirt_rpc::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|source| Failure::Host { doing: what(), source })
    }
}

/// `None` where the thing is not there.
pub(crate) trait Absent<T> {
    fn absent(self) -> Result<Option<T>, libvirt_rpc::Error>;
}

impl<T> Absent<T> for Result<T, libvirt_rpc::Error> {
    fn absent(self) -> Result<Option<T>, libvirt_rpc::Error> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
