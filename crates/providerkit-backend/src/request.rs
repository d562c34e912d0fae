//! What a backend is asked, and what it answers.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{ClusterId, HostRef, Machine, Operation, Profile, Transition};

/// Make the machine real.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreateRequest {
    /// The operation it belongs to.
    pub operation: Operation,
    /// The machine as it is now: CREATING, without host.
    pub machine: Machine,
}

/// A machine was made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Created {
    /// What it runs on; neither part empty.
    pub host: HostRef,
    /// Set when what came out differs from what was offered.
    pub profile: Option<Arc<Profile>>,
}

impl Created {
    /// A machine made as offered.
    #[must_use]
    pub fn new(host: HostRef) -> Self {
        Self { host, profile: None }
    }

    /// Says that what came out differs from what was offered.
    #[must_use]
    pub fn profile(mut self, profile: impl Into<Arc<Profile>>) -> Self {
        self.profile = Some(profile.into());
        self
    }
}

/// Boot the machine into a cluster.
#[derive(Clone)]
#[non_exhaustive]
pub struct ConfigureRequest {
    /// The operation it belongs to.
    pub operation: Operation,
    /// The machine as it is now: CONFIGURING, bound to the cluster.
    pub machine: Machine,
    /// The cluster to join.
    pub cluster: ClusterId,
    /// What the machine needs to join; secret.
    pub bootstrap: Bytes,
}

impl fmt::Debug for ConfigureRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigureRequest")
            .field("operation", &self.operation)
            .field("machine", &self.machine)
            .field("cluster", &self.cluster)
            .field("bootstrap", &format_args!("<{} bytes>", self.bootstrap.len()))
            .finish()
    }
}

impl ConfigureRequest {
    /// BigFleet's notes on the binding; opaque.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.machine.metadata
    }
}

/// Wait until the machine's node is Ready in its cluster (ADR-0056).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadyRequest {
    /// The Configure it belongs to; its budget is what Configure left.
    pub operation: Operation,
    /// The machine as it is now: CONFIGURING, bound to the cluster.
    pub machine: Machine,
    /// The cluster the node must be Ready in.
    pub cluster: ClusterId,
}

/// Take the machine out of its cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrainRequest {
    /// The operation it belongs to.
    pub operation: Operation,
    /// The machine as it is now: DRAINING, bound to the cluster it leaves.
    pub machine: Machine,
    /// How long workloads may take to leave. Independent of the operation's budget.
    pub grace: Duration,
}

/// Give the machine back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeleteRequest {
    /// The operation it belongs to.
    pub operation: Operation,
    /// The machine as it is now: DELETING, with its host.
    pub machine: Machine,
}

/// Remove what a failed transition left behind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CleanupRequest {
    /// The operation that failed.
    pub operation: Operation,
    /// The machine as it is now: FAILED, with the host and cluster it had.
    pub machine: Machine,
    /// What the operation was.
    pub transition: Transition,
}

macro_rules! constructor {
    ($name:ident { $($field:ident: $type:ty),* }) => {
        impl $name {
            /// The request of these parts, as the engine makes it and a backend's test may.
            #[must_use]
            pub fn new($($field: $type),*) -> Self {
                Self { $($field),* }
            }
        }
    };
}

constructor!(CreateRequest {
    operation: Operation,
    machine: Machine
});
constructor!(ConfigureRequest {
    operation: Operation,
    machine: Machine,
    cluster: ClusterId,
    bootstrap: Bytes
});
constructor!(ReadyRequest {
    operation: Operation,
    machine: Machine,
    cluster: ClusterId
});
constructor!(DrainRequest {
    operation: Operation,
    machine: Machine,
    grace: Duration
});
constructor!(DeleteRequest {
    operation: Operation,
    machine: Machine
});
constructor!(CleanupRequest {
    operation: Operation,
    machine: Machine,
    transition: Transition
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapacityType, MachineId, OperationId};

    #[test]
    fn the_bootstrap_blob_is_not_shown() {
        let profile = Profile::new("t", "z", CapacityType::OnDemand);
        let request = ConfigureRequest::new(
            Operation::new(OperationId::mint(), Duration::from_secs(1)),
            Machine::new(MachineId::new("m").unwrap(), profile),
            ClusterId::new("c").unwrap(),
            Bytes::from_static(b"token-abcdef"),
        );
        let shown = format!("{request:?}");
        assert!(shown.contains("<12 bytes>") && !shown.contains("abcdef"), "{shown}");
    }
}
