//! What a person wants to see of an engine: numbers, what is under way, what went wrong. Read from memory, and no more
//! work for a large fleet than for a small one.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use providerkit_backend::{MachineId, OperationId, State, Transition};

use crate::engine::{Engine, record::Record, view::View};

/// Errors that are remembered.
const ERRORS: usize = 50;

/// A moment of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Machines by zone and state.
    pub machines: BTreeMap<Arc<str>, BTreeMap<State, usize>>,
    /// SPECULATIVE machines that no List shows, by zone.
    pub withheld: BTreeMap<Arc<str>, usize>,
    /// How many transitions are under way.
    pub running: usize,
    /// The oldest of them, the oldest first.
    pub oldest: Vec<UnderWay>,
    /// Why transitions failed last, the newest first.
    pub errors: Vec<Failed>,
}

/// A transition under way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnderWay {
    /// Of which machine.
    pub machine: MachineId,
    /// Where that is.
    pub zone: Arc<str>,
    /// Which.
    pub transition: Transition,
    /// Its id.
    pub operation: OperationId,
    /// How often it was driven.
    pub attempt: u32,
    /// When it was accepted.
    pub accepted: SystemTime,
    /// When it will be given up.
    pub deadline: SystemTime,
}

/// A transition that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// Of which machine.
    pub machine: MachineId,
    /// Where that is.
    pub zone: Arc<str>,
    /// Which.
    pub transition: Transition,
    /// When.
    pub at: SystemTime,
    /// Why: the machine's `last_error`.
    pub error: Arc<str>,
}

/// The last errors, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Errors(Mutex<VecDeque<Failed>>);

impl Errors {
    /// Those of the machines that were FAILED at start.
    pub(crate) fn of(view: &View) -> Self {
        let mut failed: Vec<_> = view.machines.values().filter_map(|record| failed(record)).collect();
        failed.sort_by_key(|failed| failed.at);
        let skipped = failed.len().saturating_sub(ERRORS);
        Self(Mutex::new(failed.into_iter().skip(skipped).collect()))
    }

    /// Remembers how a machine failed, if it did.
    pub(crate) fn note(&self, record: &Record) {
        let Some(failed) = failed(record) else { return };
        let mut errors = self.lock();
        if errors.len() >= ERRORS {
            errors.pop_front();
        }
        errors.push_back(failed);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Failed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(record: &Record) -> Option<Failed> {
    let failure = record.failure.as_deref()?;
    Some(Failed {
        machine: record.machine.id.clone(),
        zone: Arc::clone(&record.shape.zone),
        transition: failure.transition,
        at: failure.at,
        error: record.machine.last_error.clone().unwrap_or_default(),
    })
}

impl Engine {
    /// What there is now, with so many of the transitions under way.
    #[must_use]
    pub fn status(&self, oldest: usize) -> Status {
        let mut status = Status::default();
        {
            let view = self.0.view();
            for ((state, zone, _), count) in &view.tally {
                let zone = status.machines.entry(Arc::clone(zone)).or_default();
                *zone.entry(*state).or_default() += count;
            }
            let withheld = view.withheld.iter().filter(|(_, count)| **count > 0);
            status.withheld = withheld.map(|(zone, count)| (Arc::clone(zone), *count)).collect();
            status.running = view.under_way.len();
            status.oldest = view.under_way.values().filter_map(|record| under_way(record)).collect();
        }
        status.oldest.sort_by_key(|running| running.accepted);
        status.oldest.truncate(oldest);
        status.errors = self.0.errors.lock().iter().rev().cloned().collect();
        status
    }
}

fn under_way(record: &Record) -> Option<UnderWay> {
    let running = record.running.as_deref()?;
    Some(UnderWay {
        machine: record.machine.id.clone(),
        zone: Arc::clone(&record.shape.zone),
        transition: running.transition,
        operation: running.id,
        attempt: running.attempt,
        accepted: running.accepted,
        deadline: running.deadline,
    })
}
