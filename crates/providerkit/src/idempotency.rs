//! The idempotency rule (contract §5): a retry of a transition that was accepted gets the operation id it got then.
//!
//! The ids are kept per machine and transition, and are only ever overwritten. One is given again when the machine is
//! now in that transition's running or target state; after FAILED none is.

use providerkit_backend::{OperationId, State, Transition};

/// The last accepted operation of each kind on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations([Option<OperationId>; 4]);

impl Operations {
    /// The last accepted operation of this kind.
    #[must_use]
    pub fn last(&self, transition: Transition) -> Option<OperationId> {
        self.0.get(transition as usize).copied().flatten()
    }

    /// Remembers an accepted operation in place of the one before.
    pub fn accept(&mut self, transition: Transition, id: OperationId) {
        if let Some(last) = self.0.get_mut(transition as usize) {
            *last = Some(id);
        }
    }

    /// The id a call of this kind gets again, if it is a retry.
    #[must_use]
    pub fn replay(&self, transition: Transition, state: State) -> Option<OperationId> {
        let here = state == transition.running() || state == transition.target();
        self.last(transition).filter(|_| here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_known_in_the_running_and_the_target_state_only() {
        for transition in Transition::ALL {
            let mut operations = Operations::default();
            for state in State::ALL {
                assert_eq!(
                    operations.replay(transition, state),
                    None,
                    "never accepted: {transition} in {state}"
                );
            }
            let id = OperationId::mint();
            operations.accept(transition, id);
            for state in State::ALL {
                let expected = [transition.running(), transition.target()]
                    .contains(&state)
                    .then_some(id);
                assert_eq!(
                    operations.replay(transition, state),
                    expected,
                    "{transition} in {state}"
                );
            }
        }
    }

    #[test]
    fn create_and_drain_share_a_target_but_not_an_id() {
        let mut operations = Operations::default();
        let (create, drain) = (OperationId::mint(), OperationId::mint());
        operations.accept(Transition::Create, create);
        assert_eq!(operations.replay(Transition::Drain, State::Idle), None);
        operations.accept(Transition::Drain, drain);
        assert_eq!(operations.replay(Transition::Drain, State::Idle), Some(drain));
        assert_eq!(operations.replay(Transition::Create, State::Idle), Some(create));
    }
}
