//! The four transitions (contract §2).

use bigfleet_proto::{MachineState as S, TransitionAck};
use tonic::Status;

use super::{Binding, Client, Token};

/// A transition that a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Create,
    Configure,
    Drain,
    Delete,
}

impl Step {
    pub(crate) const ALL: [Self; 4] = [Self::Create, Self::Configure, Self::Drain, Self::Delete];

    /// The only state it may start from.
    pub(crate) fn start(self) -> S {
        match self {
            Self::Create => S::Speculative,
            Self::Configure | Self::Delete => S::Idle,
            Self::Drain => S::Configured,
        }
    }

    /// The state while it runs.
    pub(crate) fn running(self) -> S {
        match self {
            Self::Create => S::Creating,
            Self::Configure => S::Configuring,
            Self::Drain => S::Draining,
            Self::Delete => S::Deleting,
        }
    }

    /// The state it ends in.
    pub(crate) fn target(self) -> S {
        match self {
            Self::Create | Self::Drain => S::Idle,
            Self::Configure => S::Configured,
            Self::Delete => S::Speculative,
        }
    }

    /// Asks for it; the binding matters to a Configure only.
    pub(crate) async fn call(
        self,
        client: &Client,
        id: &str,
        binding: &Binding,
        token: &Token,
    ) -> Result<TransitionAck, Status> {
        match self {
            Self::Create => client.create(id, token).await,
            Self::Configure => client.configure(id, binding, token).await,
            Self::Drain => client.drain(id, 0, token).await,
            Self::Delete => client.delete(id, token).await,
        }
    }
}
