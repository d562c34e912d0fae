//! What may be called certified.

use conformance::{Mapping, Status, Verdict, reference::Place};

use crate::{options, run};

fn without(names: &str) -> Mapping {
    Mapping::parse(&format!("timeout_factor = 0.3\n[claims]\nwithout = [{names}]\n")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_checked_leaves_the_verdict_open() {
    let mut options = options(Some("delete-unsupported"), Place::Wire, "*");
    (options.filter, options.lanes) = (None, None);
    options.skip_baseline = true;
    options = options.profiles("cloud").unwrap();
    let report = run(options).await;
    assert_eq!(report.verdict, Verdict::Incomplete, "{:?}", report.rows);
    let skipped: Vec<_> = report.rows.iter().filter(|row| row.status == Status::Skipped).collect();
    assert_eq!(skipped.len(), 3);
    for row in skipped {
        assert!(row.reason.as_ref().unwrap().contains("claims.without"), "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_claimed_is_not_asked_for() {
    let mut options = options(Some("delete-unsupported"), Place::Wire, "*");
    (options.filter, options.lanes) = (None, None);
    options.skip_baseline = true;
    options.mapping = without("\"delete\"");
    options = options.profiles("cloud").unwrap();
    let report = run(options).await;
    assert_eq!(report.verdict, Verdict::Certified, "{:?}", report.rows);
    let left_out = report.rows.iter().filter(|row| !row.required).count();
    assert_eq!(left_out, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_without_its_provider_leaves_the_verdict_open() {
    let mut options = options(None, Place::Fault, "*");
    (options.filter, options.lanes) = (None, None);
    options.mapping.fault.command = None;
    let report = run(options).await;
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert!(
        report.rows.iter().all(|row| row.status == Status::Skipped),
        "{:?}",
        report.rows
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_does_not_start_has_failed() {
    let mut options = options(None, Place::Wire, "B801");
    options.source = conformance::Source::Command("false".into());
    let report = run(options).await;
    assert_eq!(report.verdict, Verdict::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_run_is_an_error() {
    let options = options(None, Place::Wire, "B9999");
    assert!(conformance::run(options, |_| {}).await.is_err());
}

/// A pool of few machines is used again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_dozen_machines_are_enough() {
    let mut options = options(None, Place::Wire, "LC,FE,CI");
    options.seed_count = 12;
    let report = run(options).await;
    assert!(report.all_run_passed(), "{:?}", report.rows);
    let passed = report.rows.iter().filter(|row| row.status == Status::Passed).count();
    assert!(passed > 28, "{passed}");
}

/// Each behaviour of the durable lane keeps its machines until all are ready for the kill.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_too_small_for_the_durable_lane_is_told_and_not_waited_for() {
    let mut options = options(None, Place::Process, "B10*");
    options.lanes = Some(vec![conformance::Lane::Durable]);
    options.mapping.flags.seed_count = "--seed-count=4".into();
    let report = run(options).await;
    let ran: Vec<_> = report
        .rows
        .iter()
        .filter(|row| row.status != Status::NotImplemented)
        .collect();
    assert!(!ran.is_empty());
    for row in ran {
        assert_eq!(row.status, Status::Skipped, "{row:?}");
        assert!(
            row.reason.as_ref().unwrap().contains("the provider offers 4"),
            "{row:?}"
        );
    }
}
