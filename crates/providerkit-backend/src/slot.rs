//! What a substrate has to offer.

use std::{collections::BTreeMap, sync::Arc};

use crate::{ClusterId, HostRef, Machine, MachineId, OperationId, Profile};

/// What the engine knows of one slot, as it tells [`Backend::describe`](crate::Backend::describe).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Known {
    /// The slot's name, as the backend gave it.
    pub slot: Arc<str>,
    /// Its present machine.
    pub machine: Machine,
    /// The operation under way or, for a FAILED machine whose cleanup has not succeeded yet, the one that failed: the
    /// operation that what is on the substrate may belong to.
    pub operation: Option<OperationId>,
}

impl Known {
    /// A slot whose machine has nothing under way.
    #[must_use]
    pub fn new(slot: impl Into<Arc<str>>, machine: Machine) -> Self {
        Self {
            slot: slot.into(),
            machine,
            operation: None,
        }
    }

    /// Says which operation is under way, or failed and is not cleaned up after.
    #[must_use]
    pub fn operation(mut self, id: OperationId) -> Self {
        self.operation = Some(id);
        self
    }
}

/// A host that is gone for good.
///
/// It is named, because the machine may have another one by the time this is heard: a Delete and a Create may end while
/// the backend looks. So a reference should not come twice: where the substrate reuses names, put its unique id in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The host, as the machine has it.
    pub host: HostRef,
    /// What is known of its end, for logs.
    pub reason: Arc<str>,
}

/// A machine that the substrate has for a slot, as an earlier life of the provider left it: what was written on it when
/// it was made and bound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// The id BigFleet knows it by.
    pub machine: MachineId,
    /// What it runs on.
    pub host: HostRef,
    /// The cluster it is bound to: with one it begins CONFIGURED, without IDLE.
    pub cluster: Option<ClusterId>,
    /// BigFleet's notes on the binding. Without a cluster there is none, and they are dropped.
    pub metadata: BTreeMap<String, String>,
}

impl Adopted {
    /// A machine that belongs to no cluster.
    #[must_use]
    pub fn new(machine: MachineId, host: HostRef) -> Self {
        Self {
            machine,
            host,
            cluster: None,
            metadata: BTreeMap::new(),
        }
    }

    /// Says which cluster it is bound to.
    #[must_use]
    pub fn cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Adds BigFleet's notes on the binding.
    #[must_use]
    pub fn metadata(mut self, metadata: BTreeMap<String, String>) -> Self {
        self.metadata = metadata;
        self
    }
}

/// One place for one machine, as [`Backend::describe`](crate::Backend::describe) reports it.
///
/// The engine gives the slot a machine id: at first the slot's name, and after the machine failed or its host was
/// lost, a fresh one (contract §11.4).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Slot {
    /// Stable and unique within the provider, the same at every boot.
    pub name: Arc<str>,
    /// What is for sale.
    pub profile: Arc<Profile>,
    /// Set for a slot that has its host from the start (bare metal): its machine begins IDLE. Ignored for machines
    /// that are known already: the store wins (contract §10). Once that host was [lost](Self::lost), the slot's next
    /// machine begins IDLE on another one named here, or else SPECULATIVE.
    pub host: Option<HostRef>,
    /// Set when a host is gone for good. If it is still the host of the slot's machine, and that rests in IDLE or
    /// CONFIGURED, the machine is retired; a transition that runs is left to its own end.
    pub lost: Option<Lost>,
    /// Set while the slot cannot be created, with the reason: no room, say. Its machine, while SPECULATIVE, is then in
    /// no List, so that BigFleet does not ask for it, and a Create of it is refused with `RESOURCE_EXHAUSTED` and the
    /// reason. In any other state it makes no difference. Said anew by every look, in the same words as long as
    /// nothing changed: other words are a write to the store. See the crate's page for how long it holds.
    pub withheld: Option<Arc<str>>,
    /// Set when the substrate has a machine of ours in the slot. If the slot is not known, because the state is fresh or
    /// was lost, the machine begins with that. For a known slot it is ignored: the store wins (contract §10). A backend
    /// that cannot see whether a slot is in use leaves the slot out until it can.
    pub adopted: Option<Adopted>,
}

impl Slot {
    /// A slot that could be created.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, profile: impl Into<Arc<Profile>>) -> Self {
        Self {
            name: name.into(),
            profile: profile.into(),
            host: None,
            lost: None,
            withheld: None,
            adopted: None,
        }
    }

    /// Says that the slot has its host already.
    #[must_use]
    pub fn host(mut self, host: HostRef) -> Self {
        self.host = Some(host);
        self
    }

    /// Says that the slot cannot be created now.
    #[must_use]
    pub fn withheld(mut self, reason: impl Into<Arc<str>>) -> Self {
        self.withheld = Some(reason.into());
        self
    }

    /// Says that the substrate has a machine of ours in the slot.
    #[must_use]
    pub fn adopted(mut self, adopted: Adopted) -> Self {
        self.adopted = Some(adopted);
        self
    }

    /// Says that a host of the slot is gone for good.
    #[must_use]
    pub fn lost(mut self, host: HostRef, reason: impl Into<Arc<str>>) -> Self {
        self.lost = Some(Lost {
            host,
            reason: reason.into(),
        });
        self
    }
}
