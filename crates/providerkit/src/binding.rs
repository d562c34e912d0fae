//! What a transition does to a machine's record (contract §§6–8): host, binding and error follow the state.
//!
//! | moment | host | cluster and metadata | last error |
//! |---|---|---|---|
//! | Create ends | set | – | – |
//! | Configure is accepted | kept | set from the request | – |
//! | Drain ends | kept | cleared together | – |
//! | Delete ends | cleared | – | – |
//! | any of them fails | kept | kept | set |

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use providerkit_backend::{ClusterId, HostRef, Machine, State, Transition};

/// BigFleet's notes on a binding.
pub type Metadata = Arc<BTreeMap<String, String>>;

static UNBOUND: LazyLock<Metadata> = LazyLock::new(Metadata::default);

/// The metadata of a machine that is not bound: one map for all.
pub(crate) fn unbound() -> Metadata {
    Arc::clone(&UNBOUND)
}

/// A cluster and BigFleet's notes, as a Configure brings them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The cluster to join.
    pub cluster: ClusterId,
    /// Stored and echoed, never interpreted.
    pub metadata: Metadata,
}

/// The machine enters the transition's running state; Configure binds it at once.
pub fn begin(machine: &mut Machine, transition: Transition, binding: Option<Binding>) {
    machine.state = transition.running();
    if let Some(binding) = binding {
        machine.cluster = Some(binding.cluster);
        machine.metadata = binding.metadata;
    }
}

/// The machine reaches the transition's target. `host` is what a Create made.
pub fn succeed(machine: &mut Machine, transition: Transition, host: Option<HostRef>) {
    machine.state = transition.target();
    match transition {
        Transition::Create => machine.host = host,
        Transition::Configure => {}
        Transition::Drain => {
            machine.cluster = None;
            machine.metadata = unbound();
        }
        Transition::Delete => machine.host = None,
    }
}

/// The machine becomes FAILED and keeps what it had.
pub fn fail(machine: &mut Machine, error: impl Into<Arc<str>>) {
    let error = error.into();
    machine.state = State::Failed;
    machine.last_error = Some(if error.is_empty() {
        "the backend gave no reason".into()
    } else {
        error
    });
}

#[cfg(test)]
mod tests {
    use providerkit_backend::{CapacityType, MachineId, Profile};

    use super::*;

    fn machine() -> Machine {
        Machine::new(
            MachineId::new("m").unwrap(),
            Profile::new("t", "z", CapacityType::OnDemand),
        )
    }

    fn shape(machine: &Machine) -> (State, bool, bool, bool) {
        assert_eq!(
            machine.cluster.is_none(),
            machine.metadata.is_empty(),
            "metadata never outlives the binding"
        );
        (
            machine.state,
            machine.host.is_some(),
            machine.cluster.is_some(),
            machine.last_error.is_some(),
        )
    }

    #[test]
    fn every_state_of_a_cycle_has_the_shape_the_shard_demands() {
        let mut m = machine();
        let binding = Binding {
            cluster: ClusterId::new("c").unwrap(),
            metadata: Arc::new([("k\0".to_owned(), String::new())].into()),
        };
        begin(&mut m, Transition::Create, None);
        assert_eq!(shape(&m), (State::Creating, false, false, false));
        succeed(&mut m, Transition::Create, Some(HostRef::new("p", "h")));
        assert_eq!(shape(&m), (State::Idle, true, false, false));
        begin(&mut m, Transition::Configure, Some(binding));
        assert_eq!(shape(&m), (State::Configuring, true, true, false));
        succeed(&mut m, Transition::Configure, None);
        assert_eq!(shape(&m), (State::Configured, true, true, false));
        begin(&mut m, Transition::Drain, None);
        assert_eq!(shape(&m), (State::Draining, true, true, false));
        succeed(&mut m, Transition::Drain, None);
        assert_eq!(shape(&m), (State::Idle, true, false, false));
        begin(&mut m, Transition::Delete, None);
        assert_eq!(shape(&m), (State::Deleting, true, false, false));
        succeed(&mut m, Transition::Delete, None);
        assert_eq!(shape(&m), (State::Speculative, false, false, false));
        assert_eq!(m, machine());
    }

    #[test]
    fn a_failed_machine_always_says_why() {
        let mut m = machine();
        fail(&mut m, "");
        assert!(!m.last_error.as_deref().unwrap().is_empty());
    }
}
