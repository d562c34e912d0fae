//! What is known of machines from their acknowledgements alone.

use std::collections::{BTreeMap, BTreeSet};

use bigfleet_proto::{Machine, MachineState as S};

use super::{crash::Step, shape::invariant};
use crate::{
    Outcome,
    call::{Binding, sketch, state_name},
    outcome::{Stop, ensure},
    walk::bound,
};

/// A call that was sent.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) step: Step,
    pub(super) binding: Binding,
    pub(super) sequence: i64,
    /// None: the answer was lost, and with it whether the call did anything.
    pub(super) operation: Option<String>,
}

/// What is known of one machine.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where it rested when that was last seen.
    pub(super) rest: S,
    /// What it was bound to there.
    pub(super) binding: Binding,
    /// The call since then.
    pub(super) call: Option<Call>,
    /// The greatest sequence that was acknowledged.
    pub(super) mark: Option<i64>,
    /// The last operation of each step.
    pub(super) operations: BTreeMap<Step, String>,
    /// It failed, and is out of the game.
    pub(super) failed: bool,
}

impl Entry {
    pub(super) fn new() -> Self {
        Self {
            rest: S::Speculative,
            binding: Binding::default(),
            call: None,
            mark: None,
            operations: BTreeMap::new(),
            failed: false,
        }
    }

    /// Whether the record is one that the acknowledgements allow, right after a restart.
    pub(super) fn allows(&self, machine: &Machine) -> Outcome {
        invariant(machine)?;
        let state = machine.state();
        let Some(call) = &self.call else {
            let expected = format!("{} as before the kill", state_name(self.rest));
            ensure!(state == self.rest, expected, sketch(machine));
            return self.bound(machine, &self.binding);
        };
        let begun = [call.step.running(), call.step.target(), S::Failed].contains(&state);
        let lost = call.operation.is_none() && state == self.rest;
        ensure!(
            begun || lost,
            format!(
                "what {:?} of a machine at {} leads to (its answer {})",
                call.step,
                state_name(self.rest),
                if call.operation.is_some() {
                    "was received"
                } else {
                    "was lost"
                }
            ),
            sketch(machine)
        );
        match (state, call.step) {
            (S::Configuring | S::Configured, Step::Configure) if !lost || state != self.rest => {
                self.bound(machine, &call.binding)
            }
            _ => self.bound(machine, &self.binding),
        }
    }

    fn bound(&self, machine: &Machine, binding: &Binding) -> Outcome {
        if matches!(machine.state(), S::Configuring | S::Configured | S::Draining) {
            bound(machine, binding)?;
        }
        Ok(())
    }

    /// The machine was seen at rest.
    pub(super) fn rests(&mut self, machine: &Machine) {
        let state = machine.state();
        self.failed = state == S::Failed;
        if let Some(call) = self.call.take() {
            if let Some(operation) = call.operation {
                self.operations.insert(call.step, operation);
            } else if state == call.step.target() {
                // Whether it was done under the lost call is unknown, and so is its id.
                self.operations.remove(&call.step);
            }
            if call.step == Step::Configure && state == S::Configured {
                self.binding = call.binding;
            }
        }
        if state != S::Configured {
            self.binding = Binding::default();
        }
        self.rest = state;
    }
}

/// All operation ids that were ever heard, of whatever machine and process.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeSet<String>);

impl Ids {
    /// An id that must be new.
    pub(super) fn fresh(&mut self, id: &str) -> Outcome {
        if !id.is_empty() && self.0.insert(id.to_owned()) {
            return Ok(());
        }
        Err(Stop::failed(
            "an operation id that was never seen before",
            format!("`{id}`"),
        ))
    }
}
