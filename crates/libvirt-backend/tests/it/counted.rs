//! What the backend counts.

use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

type Counters = Arc<Mutex<HashMap<Key, Arc<AtomicU64>>>>;

/// All counters of the process: each test has a process of its own, or tells its own labels.
static COUNTERS: LazyLock<Counters> = LazyLock::new(|| {
    let counters = Counters::default();
    metrics::set_global_recorder(Counting(Arc::clone(&counters))).unwrap();
    counters
});

struct Counting(Counters);

/// Begins to count; what was counted before is lost.
pub(crate) fn begin() {
    LazyLock::force(&COUNTERS);
}

/// What a counter with these labels among its own has come to.
pub(crate) fn count(name: &str, labels: &[(&str, &str)]) -> u64 {
    let counters = COUNTERS.lock().unwrap();
    let has = |key: &Key, (name, value): &(&str, &str)| {
        key.labels()
            .any(|label| label.key() == *name && label.value() == *value)
    };
    let fitting = counters
        .iter()
        .filter(|(key, _)| key.name() == name && labels.iter().all(|label| has(key, label)));
    fitting.map(|(_, count)| count.load(Ordering::Relaxed)).sum()
}

impl Recorder for Counting {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.0.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(key.clone()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
