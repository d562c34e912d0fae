//! What goes wrong, with all libvirt says about it.

use std::{fmt, io, sync::Arc, time::Duration};

use crate::{
    connection::Reason,
    uri,
    wire::{
        self,
        constant::error::{ErrorDomain, ErrorNumber},
        net::MessageError,
    },
};

/// What every call of this library may fail with.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

/// The sort of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The daemon answered with an error; [`Error::daemon`] has it.
    Daemon,
    /// The connection is gone; [`Error::maybe_executed`] says whether the request had left.
    Disconnected,
    /// The deadline passed; the daemon may still be working.
    Deadline,
    /// The URI or one of its parameters cannot be honoured.
    Uri,
    /// No connection could be made.
    Connect,
    /// The daemon does not let us in.
    Auth,
    /// The host is not the one that is known; `Error::host_key` says why. Feature `russh` has it.
    HostKey,
    /// An argument breaks a limit of the protocol; nothing was sent.
    Argument,
    /// The daemon sent something that is not the protocol.
    Protocol,
    /// A stream was not read or written as far as it had to be.
    Stream,
}

#[derive(Debug, Clone)]
enum Inner {
    Daemon {
        call: &'static str,
        error: DaemonError,
    },
    Disconnected {
        reason: Reason,
        sent: bool,
    },
    Deadline {
        call: &'static str,
        after: Duration,
        sent: bool,
    },
    Uri(uri::Error),
    Connect {
        peer: String,
        source: Arc<io::Error>,
    },
    Auth(String),
    #[cfg(feature = "russh")]
    HostKey(Box<crate::transport::ssh::HostKeyError>),
    Argument {
        call: &'static str,
        source: wire::Error,
    },
    Protocol {
        call: &'static str,
        source: wire::Error,
    },
    Stream {
        what: String,
        source: Option<Arc<io::Error>>,
    },
}

impl Error {
    pub(crate) fn daemon_said(call: &'static str, error: MessageError) -> Self {
        Self(Box::new(Inner::Daemon {
            call,
            error: DaemonError::new(error),
        }))
    }

    pub(crate) fn disconnected(reason: Reason, sent: bool) -> Self {
        Self(Box::new(Inner::Disconnected { reason, sent }))
    }

    pub(crate) fn deadline(call: &'static str, after: Duration, sent: bool) -> Self {
        Self(Box::new(Inner::Deadline { call, after, sent }))
    }

    pub(crate) fn connect(peer: impl Into<String>, source: io::Error) -> Self {
        Self(Box::new(Inner::Connect {
            peer: peer.into(),
            source: Arc::new(source),
        }))
    }

    pub(crate) fn auth(what: impl Into<String>) -> Self {
        Self(Box::new(Inner::Auth(what.into())))
    }

    #[cfg(feature = "russh")]
    pub(crate) fn untrusted(error: Box<crate::transport::ssh::HostKeyError>) -> Self {
        Self(Box::new(Inner::HostKey(error)))
    }

    pub(crate) fn argument(call: &'static str, source: wire::Error) -> Self {
        Self(Box::new(Inner::Argument { call, source }))
    }

    pub(crate) fn protocol(call: &'static str, source: wire::Error) -> Self {
        Self(Box::new(Inner::Protocol { call, source }))
    }

    pub(crate) fn stream(what: impl Into<String>, source: Option<io::Error>) -> Self {
        Self(Box::new(Inner::Stream {
            what: what.into(),
            source: source.map(Arc::new),
        }))
    }

    /// The sort of error this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &*self.0 {
            Inner::Daemon { .. } => Kind::Daemon,
            Inner::Disconnected { .. } => Kind::Disconnected,
            Inner::Deadline { .. } => Kind::Deadline,
            Inner::Uri(_) => Kind::Uri,
            Inner::Connect { .. } => Kind::Connect,
            Inner::Auth(_) => Kind::Auth,
            #[cfg(feature = "russh")]
            Inner::HostKey(_) => Kind::HostKey,
            Inner::Argument { .. } => Kind::Argument,
            Inner::Protocol { .. } => Kind::Protocol,
            Inner::Stream { .. } => Kind::Stream,
        }
    }

    /// What the daemon answered.
    #[must_use]
    pub fn daemon(&self) -> Option<&DaemonError> {
        match &*self.0 {
            Inner::Daemon { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Why the key of the host is not trusted.
    #[cfg(feature = "russh")]
    #[must_use]
    pub fn host_key(&self) -> Option<&crate::transport::ssh::HostKeyError> {
        match &*self.0 {
            Inner::HostKey(error) => Some(error),
            _ => None,
        }
    }

    /// The daemon's error number.
    #[must_use]
    pub fn code(&self) -> Option<ErrorNumber> {
        self.daemon().map(DaemonError::code)
    }

    /// Whether the object the call names does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is_one_of(&[
            ErrorNumber::ERR_NO_DOMAIN,
            ErrorNumber::ERR_NO_NETWORK,
            ErrorNumber::ERR_NO_STORAGE_POOL,
            ErrorNumber::ERR_NO_STORAGE_VOL,
            ErrorNumber::ERR_NO_NODE_DEVICE,
            ErrorNumber::ERR_NO_INTERFACE,
            ErrorNumber::ERR_NO_SECRET,
            ErrorNumber::ERR_NO_NWFILTER,
            ErrorNumber::ERR_NO_NWFILTER_BINDING,
            ErrorNumber::ERR_NO_DOMAIN_SNAPSHOT,
            ErrorNumber::ERR_NO_DOMAIN_CHECKPOINT,
            ErrorNumber::ERR_NO_DOMAIN_BACKUP,
            ErrorNumber::ERR_NO_NETWORK_PORT,
            ErrorNumber::ERR_NO_DOMAIN_METADATA,
            ErrorNumber::ERR_NO_NETWORK_METADATA,
        ])
    }

    /// Whether the daemon or its hypervisor driver does not know the call, so that an older one may be tried.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.is_one_of(&[
            ErrorNumber::ERR_NO_SUPPORT,
            ErrorNumber::ERR_OPERATION_UNSUPPORTED,
            ErrorNumber::ERR_CONFIG_UNSUPPORTED,
            ErrorNumber::ERR_ARGUMENT_UNSUPPORTED,
        ])
    }

    /// Whether the daemon or driver has never heard of the call, so that its predecessor may be asked.
    pub(crate) fn is_unknown_procedure(&self) -> bool {
        self.is_one_of(&[ErrorNumber::ERR_NO_SUPPORT])
    }

    /// Whether the guest agent is the one that did not answer.
    #[must_use]
    pub fn is_agent_unavailable(&self) -> bool {
        self.is_one_of(&[
            ErrorNumber::ERR_AGENT_UNRESPONSIVE,
            ErrorNumber::ERR_AGENT_UNSYNCED,
            ErrorNumber::ERR_AGENT_COMMAND_TIMEOUT,
        ])
    }

    /// Whether the same call may succeed later: a busy object, a silent agent, a lost connection.
    ///
    /// This says nothing about whether it was executed already; see [`maybe_executed`](Self::maybe_executed).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let transient = [
            ErrorNumber::ERR_OPERATION_TIMEOUT,
            ErrorNumber::ERR_RESOURCE_BUSY,
            ErrorNumber::ERR_AGENT_UNRESPONSIVE,
            ErrorNumber::ERR_AGENT_UNSYNCED,
            ErrorNumber::ERR_AGENT_COMMAND_TIMEOUT,
        ];
        matches!(self.kind(), Kind::Disconnected | Kind::Deadline | Kind::Connect) || self.is_one_of(&transient)
    }

    /// Whether the daemon may have done what was asked although no answer came.
    #[must_use]
    pub fn maybe_executed(&self) -> bool {
        match &*self.0 {
            Inner::Disconnected { sent, .. } | Inner::Deadline { sent, .. } => *sent,
            Inner::Protocol { .. } => true,
            _ => false,
        }
    }

    fn is_one_of(&self, codes: &[ErrorNumber]) -> bool {
        self.code().is_some_and(|code| codes.contains(&code))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Inner::Daemon { call, error } => write!(f, "{call}: {error}"),
            Inner::Disconnected { reason, sent } => {
                let left = if *sent {
                    "after the request was sent"
                } else {
                    "before the request was sent"
                };
                write!(f, "connection lost {left}: {reason}")
            }
            Inner::Deadline { call, after, sent } => {
                let left = if *sent {
                    ""
                } else {
                    "; it was never sent, earlier calls hold the window"
                };
                write!(f, "{call}: no answer within {after:?}{left}")
            }
            Inner::Uri(error) => error.fmt(f),
            Inner::Connect { peer, .. } => write!(f, "cannot connect to {peer}"),
            Inner::Auth(what) => f.write_str(what),
            #[cfg(feature = "russh")]
            Inner::HostKey(error) => error.fmt(f),
            Inner::Argument { call, .. } => write!(f, "{call}: the arguments cannot be sent"),
            Inner::Protocol { call, .. } => {
                write!(f, "{call}: the daemon's answer is not understood")
            }
            Inner::Stream { what, .. } => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Inner::Connect { source, .. } => Some(&**source),
            Inner::Stream { source, .. } => source.as_deref().map(|e| e as _),
            Inner::Argument { source, .. } | Inner::Protocol { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<uri::Error> for Error {
    fn from(error: uri::Error) -> Self {
        Self(Box::new(Inner::Uri(error)))
    }
}

/// libvirt's own error, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonError(MessageError);

impl DaemonError {
    fn new(mut error: MessageError) -> Self {
        // A daemon too old for a procedure says so in words only; libvirt's own client maps them the same way.
        let from_rpc = [ErrorDomain::RPC.0, ErrorDomain::REMOTE.0].contains(&error.domain);
        let says_unknown = error
            .message
            .as_ref()
            .is_some_and(|m| m.as_bytes().starts_with(b"unknown procedure"));
        if error.code == ErrorNumber::ERR_RPC.0 && from_rpc && says_unknown {
            error.code = ErrorNumber::ERR_NO_SUPPORT.0;
        }
        Self(error)
    }

    /// What went wrong.
    #[must_use]
    pub fn code(&self) -> ErrorNumber {
        ErrorNumber(self.0.code)
    }

    /// Which part of libvirt says so.
    #[must_use]
    pub fn domain(&self) -> ErrorDomain {
        ErrorDomain(self.0.domain)
    }

    /// What happened, for people.
    #[must_use]
    pub fn message(&self) -> std::borrow::Cow<'_, str> {
        self.0
            .message
            .as_ref()
            .map_or_else(|| "no message".into(), wire::xdr::Text::to_string_lossy)
    }

    /// The operating system's error, when that was the cause.
    #[must_use]
    pub fn os_error(&self) -> Option<io::Error> {
        (self.code() == ErrorNumber::ERR_SYSTEM_ERROR && self.0.int1 > 0)
            .then(|| io::Error::from_raw_os_error(self.0.int1))
    }

    /// The error as it was sent.
    #[must_use]
    pub fn as_wire(&self) -> &MessageError {
        &self.0
    }
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}, {:?})", self.message(), self.code(), self.domain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(code: i32, domain: i32, message: &str) -> Error {
        Error::daemon_said(
            "domain_create",
            MessageError {
                code,
                domain,
                message: Some(message.into()),
                int1: 28,
                ..MessageError::default()
            },
        )
    }

    #[test]
    fn an_unknown_procedure_is_unsupported_and_an_unknown_program_is_not() {
        assert!(daemon(39, 7, "unknown procedure: 350").is_unsupported());
        assert!(!daemon(39, 7, "Cannot find program 7 version 1").is_unsupported());
        assert!(!daemon(39, 10, "unknown procedure: 350").is_unsupported());
        assert!(!daemon(1, 7, "x: unknown procedure: 350").is_unsupported());
    }

    #[test]
    fn predicates_follow_the_numbers() {
        assert!(daemon(42, 10, "no domain").is_not_found());
        assert!(daemon(86, 10, "agent").is_agent_unavailable());
        assert!(daemon(68, 10, "cannot acquire state change lock").is_retryable());
        assert!(!daemon(74, 10, "not configured").is_retryable());
        assert_eq!(
            daemon(38, 10, "disk")
                .daemon()
                .unwrap()
                .os_error()
                .unwrap()
                .raw_os_error(),
            Some(28)
        );
        assert!(daemon(1, 10, "x").daemon().unwrap().os_error().is_none());
    }
}
