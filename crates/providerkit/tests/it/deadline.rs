//! Timeouts, failures, late results.

use std::{sync::Arc, time::Duration};

use bigfleet_proto::MachineState::{Configuring, Failed, Idle};
use providerkit::{FailedSlots, Options, Transition, store::Memory};
use tokio::time::Instant;
use tonic::Code;

use crate::{
    client::{Provider, options, refused},
    scripted::{Act, Scripted, Step},
};

const CONFIGURE: Step = Step::Do(Transition::Configure);

fn keep() -> Options {
    let mut options = options();
    options.failed_slots = FailedSlots::Keep;
    options
}

async fn failing(step: Step, act: Act) -> (Arc<Scripted>, Provider) {
    let backend = Arc::new(Scripted::new(1));
    backend.act(step, act);
    let p = Provider::start_with(keep(), Memory::default(), Arc::clone(&backend)).await;
    p.idle("m-0").await;
    p.configure("m-0", "c", None).await.unwrap();
    (backend, p)
}

#[tokio::test(start_paused = true)]
async fn a_failed_machine_keeps_its_binding_and_says_why_for_ever() {
    let (_, p) = failing(CONFIGURE, Act::Fail("the join was refused")).await;
    let failed = p.reach("m-0", Failed).await;
    assert_eq!((&*failed.last_error, &*failed.cluster), ("the join was refused", "c"));
    assert!(failed.host.is_some());
    refused(p.configure("m-0", "c", None).await, Code::Aborted, &["FAILED"]);
    assert_eq!(p.get("m-0").await.unwrap(), failed);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_backend_fails_the_machine_only() {
    let (_, p) = failing(CONFIGURE, Act::Panic).await;
    assert!(p.reach("m-0", Failed).await.last_error.contains("panic"));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_the_acks_and_covers_the_readiness_gate() {
    let begun = Instant::now();
    let (backend, p) = failing(CONFIGURE, Act::After(Duration::from_secs(200))).await;
    backend.act(Step::Ready, Act::UntilCancelled);
    let asked = backend.wait_asked(Step::Ready, 1).await;
    assert_eq!(p.get("m-0").await.unwrap().state(), Configuring);
    assert!(asked.budget <= Duration::from_secs(100), "{asked:?}");
    let failed = p.reach("m-0", Failed).await;
    let took = begun.elapsed();
    assert!((299..302).contains(&took.as_secs()), "{took:?}");
    for part in ["Configure", "300s", "Ready", "context deadline exceeded"] {
        assert!(failed.last_error.contains(part), "{}", failed.last_error);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_success_changes_nothing() {
    let (backend, p) = failing(CONFIGURE, Act::After(Duration::from_secs(301))).await;
    let failed = p.reach("m-0", Failed).await;
    let cursor = p.list(&[]).await.revision;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(p.get("m-0").await.unwrap(), failed);
    assert_eq!(p.list(&cursor).await.machines, []);
    assert_eq!(
        backend.asked(Step::Ready).len(),
        1,
        "the attempt really went on after the deadline"
    );
}

#[tokio::test(start_paused = true)]
async fn cleanup_waits_for_the_cancelled_attempt_to_end_but_not_for_ever() {
    for (act, expected) in [
        (Act::UntilCancelled, 300.0),
        (Act::After(Duration::from_secs(310)), 310.0),
        (Act::Never, 330.0),
    ] {
        let backend = Arc::new(Scripted::new(1));
        backend.act(Step::Do(Transition::Create), act);
        backend.act(Step::Cleanup, Act::Never);
        let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
        let begun = Instant::now();
        let (id, _) = p.create("m-0", None).await.unwrap();
        let asked = backend.wait_asked(Step::Cleanup, 1).await;
        // A deadline is of the real clock, which goes on a little while virtual time stands still.
        let elapsed = begun.elapsed().as_secs_f64().round();
        assert_eq!((asked.operation.to_string(), elapsed), (id, expected));
        assert_eq!(backend.under_way(), 1, "nothing but the cleanup itself is under way");
        assert_eq!(p.get("m-0").await.unwrap().state(), Failed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_hangs_up_does_not_stop_the_work() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let call = p.create("m-0", None);
    // One poll hands the command over; then the caller is gone.
    assert!(tokio::time::timeout(Duration::ZERO, call).await.is_err());
    p.reach("m-0", Idle).await;
}
