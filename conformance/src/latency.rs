//! How long calls took, and which operations they began.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;

/// Upper bounds in microseconds; the last bucket has none.
const BOUNDS: [u64; 19] = [
    100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 204_800, 409_600, 819_200, 1_638_400,
    3_276_800, 6_553_600, 13_107_200, 26_214_400,
];

/// The latencies of each method of a lane.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<BTreeMap<String, Vec<u32>>>);

/// The operation ids that each lane was given.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<BTreeMap<String, BTreeSet<String>>>);

impl Heard {
    pub(crate) fn record(&self, lane: &str, operation: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(lane.to_owned()).or_default().insert(operation.to_owned());
    }

    pub(crate) fn of(&self, lane: &str) -> BTreeSet<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(lane).cloned().unwrap_or_default()
    }
}

/// The latencies of a method.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Histogram {
    /// `core/Get`.
    pub method: String,
    /// How many calls.
    pub count: usize,
    /// Half of the calls took no longer, in milliseconds.
    pub p50_ms: f64,
    /// 90 of 100 took no longer.
    pub p90_ms: f64,
    /// 99 of 100 took no longer.
    pub p99_ms: f64,
    /// None took longer.
    pub max_ms: f64,
    /// How many calls took longer than the bound before and not longer than this, in milliseconds; the last bucket has
    /// no bound.
    pub buckets: Vec<(Option<f64>, usize)>,
}

impl Latencies {
    pub(crate) fn record(&self, lane: &str, method: &str, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(format!("{lane}/{method}")).or_default().push(micros);
    }

    pub(crate) fn histograms(&self) -> Vec<Histogram> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(method, micros)| histogram(method, micros)).collect()
    }
}

fn histogram(method: &str, micros: &[u32]) -> Histogram {
    let mut sorted = micros.to_vec();
    sorted.sort_unstable();
    let at = |percent| f64::from(nearest_rank(&sorted, percent).copied().unwrap_or(0)) / 1e3;
    let mut buckets = Vec::new();
    let mut below = 0;
    for bound in BOUNDS {
        let reached = sorted.partition_point(|value| u64::from(*value) <= bound);
        // invariant: the bounds are small enough to be exact.
        let bound = u32::try_from(bound).map_or(f64::INFINITY, f64::from) / 1e3;
        buckets.push((Some(bound), reached - below));
        below = reached;
    }
    buckets.push((None, sorted.len() - below));
    Histogram {
        method: method.to_owned(),
        count: sorted.len(),
        p50_ms: at(50),
        p90_ms: at(90),
        p99_ms: at(99),
        max_ms: at(100),
        buckets,
    }
}

/// The value that so many of a hundred are not above (nearest rank); the values are sorted.
pub(crate) fn nearest_rank<T>(sorted: &[T], percent: usize) -> Option<&T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_buckets_add_up() {
        let latencies = Latencies::default();
        for millis in 1..=100 {
            latencies.record("core", "Get", Duration::from_millis(millis));
        }
        let [get] = &latencies.histograms()[..] else {
            panic!("one method");
        };
        assert_eq!((get.method.as_str(), get.count), ("core/Get", 100));
        assert_eq!((get.p50_ms, get.p99_ms, get.max_ms), (50.0, 99.0, 100.0));
        assert_eq!(get.buckets.iter().map(|(_, count)| count).sum::<usize>(), 100);
    }
}
