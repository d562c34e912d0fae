//! What is known of one machine, from its acknowledgements alone.

use std::collections::{BTreeMap, BTreeSet};

use bigfleet_proto::{Machine, MachineState as S, TransitionAck};

use crate::harness::{Metadata, Step};

/// A cluster and its notes; both empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) cluster: String,
    pub(super) metadata: Metadata,
}

impl Bound {
    pub(super) fn of(machine: &Machine) -> Self {
        Self {
            cluster: machine.cluster.clone(),
            metadata: machine.shard_metadata.clone(),
        }
    }
}

/// A call that was sent. Without an ack it was lost: whether it did anything is unknown.
#[derive(Clone, Debug)]
struct Call {
    step: Step,
    wanted: Bound,
    begun: u64,
    ack: Option<Ack>,
}

#[derive(Clone, Debug)]
struct Ack {
    operation: String,
    machine: Machine,
    ended: u64,
}

/// A machine at rest, after a restart was verified.
#[derive(Clone, Debug)]
struct Rest {
    state: S,
    bound: Bound,
}

/// What the machine's last transition may have been.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// None: it rests where it rested.
    pub(super) step: Option<Step>,
    /// None: a lost call made it, so the id was never heard.
    pub(super) operation: Option<String>,
    states: Vec<S>,
    /// What it may be bound to in a state that is bound.
    bounds: Vec<Bound>,
}

impl Candidate {
    pub(super) fn fits(&self, machine: &Machine) -> bool {
        let state = machine.state();
        let bound = Bound::of(machine);
        let is_bound = matches!(state, S::Configuring | S::Configured | S::Draining);
        let bound_fits = if is_bound {
            self.bounds.contains(&bound)
        } else {
            bound == Bound::default()
        };
        self.states.contains(&state) && bound_fits
    }
}

/// The calls made on a machine since it was last seen at rest.
#[derive(Clone, Debug)]
pub(super) struct Book {
    /// Only one caller touches it, one call after the other, so that everything is known exactly.
    pub(super) exclusive: bool,
    rest: Rest,
    calls: BTreeMap<u64, Call>,
    /// The last operation id of each transition.
    operations: BTreeMap<Step, String>,
    /// Ids that were known when the machine was last seen at rest.
    old: BTreeSet<String>,
}

impl Book {
    /// Of a machine as it was seeded.
    pub(super) fn new(exclusive: bool) -> Self {
        Self {
            exclusive,
            rest: Rest {
                state: S::Speculative,
                bound: Bound::default(),
            },
            calls: BTreeMap::new(),
            operations: BTreeMap::new(),
            old: BTreeSet::new(),
        }
    }

    /// The last transition known, and the state it leads to.
    fn last(&self) -> (Option<Step>, S) {
        let fresh = self.calls.values().rev().find(|call| self.is_fresh(call));
        fresh.map_or((None, self.rest.state), |call| (Some(call.step), call.step.target()))
    }

    fn is_fresh(&self, call: &Call) -> bool {
        call.ack.as_ref().is_some_and(|ack| {
            let first = self
                .calls
                .values()
                .find(|other| other.ack.as_ref().is_some_and(|other| other.operation == ack.operation));
            !self.old.contains(&ack.operation) && first.is_some_and(|first| first.begun == call.begun)
        })
    }

    /// The transitions that may begin where the last one leads to.
    pub(super) fn legal(&self) -> Vec<Step> {
        let (_, state) = self.last();
        Step::ALL.into_iter().filter(|step| step.start() == state).collect()
    }

    pub(super) fn begin(&mut self, begun: u64, step: Step, wanted: Bound) {
        let call = Call {
            step,
            wanted,
            begun,
            ack: None,
        };
        self.calls.insert(begun, call);
    }

    /// The call was fenced, or lost with a token that would have been.
    pub(super) fn fenced(&mut self, begun: u64) {
        self.calls.remove(&begun);
    }

    /// The call passed the fence and did nothing.
    pub(super) fn refused(&mut self, begun: u64) -> Result<(), String> {
        let call = self.calls.remove(&begun).unwrap();
        let (last, _) = self.last();
        if self.exclusive && last == Some(call.step) {
            return Err(format!("a replay of {:?} was refused", call.step));
        }
        Ok(())
    }

    /// The call was acknowledged; `known` says whether the operation id was seen before.
    pub(super) fn acked(&mut self, begun: u64, ended: u64, ack: TransitionAck, known: bool) -> Result<(), String> {
        let Some(machine) = ack.machine else {
            return Err("an ack without a machine".into());
        };
        let (_, state) = self.last();
        let (step, wanted) = {
            let call = self.calls.get_mut(&begun).unwrap();
            call.ack = Some(Ack {
                operation: ack.operation_id.clone(),
                machine: machine.clone(),
                ended,
            });
            (call.step, call.wanted.clone())
        };
        if ![step.running(), step.target()].contains(&machine.state()) {
            return Err(format!("an ack of {step:?} shows {:?}", machine.state()));
        }
        let previous = self.operations.insert(step, ack.operation_id.clone());
        if !self.exclusive {
            return Ok(());
        }
        if step.target() == state {
            if previous.as_ref() != Some(&ack.operation_id) {
                return Err(format!(
                    "a replay of {step:?} has {}, it was {previous:?}",
                    ack.operation_id
                ));
            }
        } else if step.start() != state {
            return Err(format!("{step:?} was accepted in {state:?}"));
        } else if known {
            return Err(format!("{step:?} has the old operation id {}", ack.operation_id));
        } else if machine.state() != step.running() {
            return Err(format!("a new {step:?} shows {:?}", machine.state()));
        } else if step == Step::Configure && Bound::of(&machine) != wanted {
            return Err(format!(
                "a new Configure shows {:?}, not {wanted:?}",
                Bound::of(&machine)
            ));
        }
        Ok(())
    }

    /// Whether a transition was acknowledged that began after this moment.
    pub(super) fn changed_after(&self, tick: u64) -> bool {
        self.calls
            .values()
            .any(|call| self.began(call) > tick && self.is_fresh(call))
    }

    /// When the transition of an acknowledged call may have begun at the earliest: the call that began it may be one
    /// that was lost, and the ack we have a replay of it.
    fn began(&self, call: &Call) -> u64 {
        let same = self.lost().filter(|lost| lost.step == call.step).map(|lost| lost.begun);
        same.chain([call.begun]).min().unwrap()
    }

    fn lost(&self) -> impl Iterator<Item = &Call> {
        self.calls.values().filter(|call| call.ack.is_none())
    }

    /// Everything the machine may be bound to while it is drained.
    fn bounds(&self) -> Vec<Bound> {
        let mut bounds = vec![self.rest.bound.clone()];
        let configures = self.calls.values().filter(|call| call.step == Step::Configure);
        bounds.extend(configures.map(|call| match &call.ack {
            Some(ack) => Bound::of(&ack.machine),
            None => call.wanted.clone(),
        }));
        if self.exclusive {
            bounds.split_off(bounds.len() - 1)
        } else {
            bounds
        }
    }

    /// What the last transition may have been. Callers on one machine overlap: a transition is surely not the last
    /// when another began after its ack.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let acked: Vec<(&Call, &Ack)> = self
            .calls
            .values()
            .filter_map(|call| call.ack.as_ref().map(|ack| (call, ack)))
            .filter(|(_, ack)| !self.old.contains(&ack.operation))
            .collect();
        let superseded = |(_, ack): &(&Call, &Ack)| {
            acked
                .iter()
                .any(|(other, newer)| newer.operation != ack.operation && self.began(other) > ack.ended)
        };
        let mut candidates: Vec<_> = acked
            .iter()
            .filter(|acked| !superseded(acked))
            .map(|(call, ack)| self.candidate(call, Some(ack)))
            .collect();
        let (_, state) = self.last();
        candidates.extend(
            self.lost()
                .filter(|call| !self.exclusive || call.step.start() == state)
                .map(|call| self.candidate(call, None)),
        );
        if acked.is_empty() {
            candidates.push(Candidate {
                step: None,
                operation: None,
                states: vec![self.rest.state],
                bounds: vec![self.rest.bound.clone()],
            });
        }
        candidates
    }

    fn candidate(&self, call: &Call, ack: Option<&Ack>) -> Candidate {
        let bounds = match (call.step, ack) {
            (Step::Configure, Some(ack)) => vec![Bound::of(&ack.machine)],
            (Step::Configure, None) => vec![call.wanted.clone()],
            (Step::Drain, Some(ack)) if ack.machine.state() == S::Draining => vec![Bound::of(&ack.machine)],
            (Step::Drain, _) => self.bounds(),
            _ => Vec::new(),
        };
        Candidate {
            step: Some(call.step),
            operation: ack.map(|ack| ack.operation.clone()),
            states: vec![call.step.running(), call.step.target()],
            bounds,
        }
    }

    /// The last operation id of a transition, as far as it was acknowledged.
    pub(super) fn operation(&self, step: Step) -> Option<&String> {
        self.operations.get(&step)
    }

    /// The machine was verified, and rests.
    pub(super) fn settle(&mut self, machine: &Machine, replays: BTreeMap<Step, String>) {
        self.rest = Rest {
            state: machine.state(),
            bound: Bound::of(machine),
        };
        self.old.extend(
            self.calls
                .values()
                .filter_map(|call| Some(call.ack.as_ref()?.operation.clone())),
        );
        self.old.extend(replays.values().cloned());
        self.operations.extend(replays);
        self.calls.clear();
    }
}
