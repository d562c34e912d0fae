//! What a machine is.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{ClusterId, MachineId};

/// Where a machine is in its life (contract §2). The numbers are the wire's.
///
/// Exhaustive: an unknown state makes BigFleet drop a whole List, so a new one is a breaking change everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum State {
    /// Could be created; has no host.
    Speculative = 1,
    /// A Create runs.
    Creating = 2,
    /// Has a host, belongs to no cluster.
    Idle = 3,
    /// A Configure runs; bound to its cluster.
    Configuring = 4,
    /// Its node is Ready in its cluster.
    Configured = 5,
    /// A Drain runs; still bound.
    Draining = 6,
    /// A Delete runs; still has its host.
    Deleting = 7,
    /// A transition failed. No call leaves this state.
    Failed = 8,
}

impl State {
    /// All states, in wire order.
    pub const ALL: [Self; 8] = [
        Self::Speculative,
        Self::Creating,
        Self::Idle,
        Self::Configuring,
        Self::Configured,
        Self::Draining,
        Self::Deleting,
        Self::Failed,
    ];

    /// The state with this number on the wire.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as i32 == number)
    }

    /// The name BigFleet's documents use, such as `SPECULATIVE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Speculative => "SPECULATIVE",
            Self::Creating => "CREATING",
            Self::Idle => "IDLE",
            Self::Configuring => "CONFIGURING",
            Self::Configured => "CONFIGURED",
            Self::Draining => "DRAINING",
            Self::Deleting => "DELETING",
            Self::Failed => "FAILED",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a machine is paid for; decides how long BigFleet keeps it idle (contract §8). The numbers are the wire's.
///
/// Exhaustive: the wire's enum is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum CapacityType {
    /// Owned hardware; BigFleet never deletes it.
    BareMetal = 1,
    /// Paid for in advance; BigFleet never deletes it.
    Reserved = 2,
    /// Paid by use; deleted after ten idle minutes.
    OnDemand = 3,
    /// Paid by use and may be taken away; deleted after one idle minute.
    Spot = 4,
}

impl CapacityType {
    /// All capacity types, in wire order.
    pub const ALL: [Self; 4] = [Self::BareMetal, Self::Reserved, Self::OnDemand, Self::Spot];

    /// The name used in configuration, such as `on-demand`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BareMetal => "bare-metal",
            Self::Reserved => "reserved",
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The real thing behind a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostRef {
    /// The provider's name; the same for a machine through all its cycles.
    pub provider: Arc<str>,
    /// The substrate's own id; becomes the node's provider id.
    pub reference: Arc<str>,
}

impl HostRef {
    /// A host by its provider's name and the substrate's id.
    #[must_use]
    pub fn new(provider: impl Into<Arc<str>>, reference: impl Into<Arc<str>>) -> Self {
        Self {
            provider: provider.into(),
            reference: reference.into(),
        }
    }
}

/// What is for sale: everything about a slot that many slots may share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// For example `c5.large` or `libvirt-4c-16g`.
    pub instance_type: String,
    /// Failure domain.
    pub zone: String,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Any one currency; finite, not negative. 0 for bare metal.
    pub price_per_hour: f64,
    /// Chance of being taken away, within [0, 1]; above 0 for spot.
    pub interruption_probability: f64,
    /// What the machine is: Kubernetes quantities by resource name.
    pub resources: BTreeMap<String, String>,
    /// What kubelet will report as allocatable; empty means the same as `resources`.
    pub allocatable: BTreeMap<String, String>,
    /// Scheduling labels.
    pub labels: BTreeMap<String, String>,
}

impl Profile {
    /// A profile that costs nothing and is never interrupted; the rest is set by the methods below.
    #[must_use]
    pub fn new(instance_type: impl Into<String>, zone: impl Into<String>, capacity_type: CapacityType) -> Self {
        Self {
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type,
            price_per_hour: 0.0,
            interruption_probability: 0.0,
            resources: BTreeMap::new(),
            allocatable: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    /// Sets the price an hour.
    #[must_use]
    pub fn price_per_hour(mut self, price: f64) -> Self {
        self.price_per_hour = price;
        self
    }

    /// Sets the chance of interruption.
    #[must_use]
    pub fn interruption_probability(mut self, probability: f64) -> Self {
        self.interruption_probability = probability;
        self
    }

    /// Adds a resource, both as what the machine is and as what is allocatable.
    #[must_use]
    pub fn resource(mut self, name: impl Into<String>, quantity: impl Into<String>) -> Self {
        let (name, quantity) = (name.into(), quantity.into());
        self.allocatable.insert(name.clone(), quantity.clone());
        self.resources.insert(name, quantity);
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}

/// A machine as the engine keeps it and BigFleet sees it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Machine {
    /// BigFleet's id of it.
    pub id: MachineId,
    /// Where it is in its life.
    pub state: State,
    /// Absent in SPECULATIVE and CREATING.
    pub host: Option<HostRef>,
    /// What is for sale.
    pub profile: Arc<Profile>,
    /// Set from CONFIGURING until DRAINING ends.
    pub cluster: Option<ClusterId>,
    /// BigFleet's own notes on the binding; opaque.
    pub metadata: Arc<BTreeMap<String, String>>,
    /// Why it is FAILED; empty in every other state.
    pub last_error: Option<Arc<str>>,
}

impl Machine {
    /// A SPECULATIVE machine.
    #[must_use]
    pub fn new(id: MachineId, profile: impl Into<Arc<Profile>>) -> Self {
        Self {
            id,
            state: State::Speculative,
            host: None,
            profile: profile.into(),
            cluster: None,
            metadata: Arc::default(),
            last_error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_numbers_of_the_wire() {
        let numbers: Vec<i32> = State::ALL.into_iter().map(|state| state as i32).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
        for state in State::ALL {
            assert_eq!(State::from_number(state as i32), Some(state));
        }
        for unknown in [0, 9, -1, i32::MAX] {
            assert_eq!(State::from_number(unknown), None);
        }
    }

    #[test]
    fn names_of_states_survive_serde() {
        for state in State::ALL {
            assert_eq!(format!("\"{state}\""), serde_json::to_string(&state).unwrap());
        }
    }
}
