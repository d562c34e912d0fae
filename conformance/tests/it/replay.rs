//! The same seed makes the same arguments.

use std::collections::BTreeMap;

use conformance::{Status, reference::Place};

use crate::{options, run};

async fn draws(seed: u64, jobs: usize) -> BTreeMap<String, u64> {
    let mut options = options(None, Place::Wire, "B312,PF");
    (options.seed, options.jobs) = (seed, jobs);
    let report = run(options).await;
    let ran = report
        .rows
        .into_iter()
        .filter(|row| row.status != Status::NotImplemented);
    ran.map(|row| {
        assert_eq!(row.status, Status::Passed, "{row:?}");
        (row.id, row.draws)
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_replays_whatever_runs_beside_it() {
    let first = draws(7, 48).await;
    assert_eq!(first.len(), 6);
    assert!(first.values().all(|draws| *draws != 0), "{first:?}");
    assert_eq!(draws(7, 1).await, first);
    let other = draws(8, 48).await;
    for (id, draws) in &first {
        assert_ne!(other[id], *draws, "{id}");
    }
}
