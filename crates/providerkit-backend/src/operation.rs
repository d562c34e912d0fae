//! Operations: one accepted transition of one machine.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::State;

/// Names one accepted transition, everywhere and for ever (contract §5): two providers, or one whose state was lost,
/// never mint the same. The same id is in the ack, in every call to the backend for it, and after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId(Uuid);

impl OperationId {
    /// A fresh id (UUIDv7, so that ids sort by the time they were minted).
    #[must_use]
    pub fn mint() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id's 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl FromStr for OperationId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The four transitions (contract §2).
///
/// Exhaustive: these are the four mutating calls of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Transition {
    /// SPECULATIVE to IDLE.
    Create = 0,
    /// IDLE to CONFIGURED.
    Configure = 1,
    /// CONFIGURED to IDLE.
    Drain = 2,
    /// IDLE to SPECULATIVE.
    Delete = 3,
}

impl Transition {
    /// All transitions, by number.
    pub const ALL: [Self; 4] = [Self::Create, Self::Configure, Self::Drain, Self::Delete];

    /// The only state it may start from.
    #[must_use]
    pub const fn start(self) -> State {
        match self {
            Self::Create => State::Speculative,
            Self::Configure | Self::Delete => State::Idle,
            Self::Drain => State::Configured,
        }
    }

    /// The state while it runs.
    #[must_use]
    pub const fn running(self) -> State {
        match self {
            Self::Create => State::Creating,
            Self::Configure => State::Configuring,
            Self::Drain => State::Draining,
            Self::Delete => State::Deleting,
        }
    }

    /// The state it ends in when it succeeds.
    #[must_use]
    pub const fn target(self) -> State {
        match self {
            Self::Create | Self::Drain => State::Idle,
            Self::Configure => State::Configured,
            Self::Delete => State::Speculative,
        }
    }

    /// The name of the call, such as `Create`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Configure => "Configure",
            Self::Drain => "Drain",
            Self::Delete => "Delete",
        }
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The operation a request to the backend belongs to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Operation {
    /// Its id, the same at every attempt. Use it to find what an earlier attempt made.
    pub id: OperationId,
    /// 1 at first; one more each time a restarted provider drives the operation on.
    pub attempt: u32,
    /// What was left of the operation's own deadline when this attempt began.
    pub budget: Duration,
    /// Cancelled when the result is no longer wanted. The future is dropped some time after that, so a backend that
    /// must not be cut off in the middle of something watches this.
    pub cancellation: CancellationToken,
}

impl Operation {
    /// A first attempt with a fresh cancellation token.
    #[must_use]
    pub fn new(id: OperationId, budget: Duration) -> Self {
        Self {
            id,
            attempt: 1,
            budget,
            cancellation: CancellationToken::new(),
        }
    }

    /// Says which attempt this is.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Uses a token that somebody else may cancel.
    #[must_use]
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_round_trip() {
        let ids: std::collections::BTreeSet<_> = (0..10_000).map(|_| OperationId::mint()).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids.iter().take(10) {
            assert_eq!(id.to_string().parse::<OperationId>().unwrap(), *id);
            assert_eq!(OperationId::from_bytes(*id.as_bytes()), *id);
        }
    }
}
