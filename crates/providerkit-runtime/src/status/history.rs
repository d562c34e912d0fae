//! The last hour, in few numbers.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use providerkit::{State, Status};
use serde::Serialize;

use super::report::millis;
use crate::HostStatus;

/// An hour of samples.
const SAMPLES: usize = 720;

/// Samples, the oldest first; the oldest makes room.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<VecDeque<Sample>>);

/// One moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// Milliseconds since 1970.
    at: u64,
    /// Machines by state, in the order of [`State::ALL`].
    states: [usize; State::ALL.len()],
    /// Transitions under way.
    running: usize,
    /// Hosts that can be reached.
    up: usize,
    /// Hosts.
    hosts: usize,
}

impl Sample {
    pub(super) fn of(status: &Status, hosts: &[HostStatus]) -> Self {
        let count = |state| status.machines.values().filter_map(|zone| zone.get(&state)).sum();
        Self {
            at: millis(SystemTime::now()),
            states: State::ALL.map(count),
            running: status.running,
            up: hosts.iter().filter(|host| host.down.is_none()).count(),
            hosts: hosts.len(),
        }
    }
}

impl History {
    pub(super) fn add(&self, sample: Sample) {
        let mut samples = self.lock();
        if samples.len() >= SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    pub(super) fn all(&self) -> Vec<Sample> {
        self.lock().iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let history = History::default();
        for at in 0..1000 {
            let sample = Sample::of(&Status::default(), &[]);
            history.add(Sample { at, ..sample });
        }
        let all = history.all();
        assert_eq!((all.len(), all[0].at, all[SAMPLES - 1].at), (SAMPLES, 280, 999));
    }
}
