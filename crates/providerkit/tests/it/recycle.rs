//! FAILED slots come back (contract §11.4).

use std::{sync::Arc, time::Duration};

use bigfleet_proto::MachineState::{Failed, Idle, Speculative};
use providerkit::{FailedSlots, HostRef, Slot, Transition, store::Memory};
use tokio::time::Instant;
use tonic::Code;

use crate::{
    client::{Provider, options, refused},
    scripted::{Act, Scripted, Step, profile},
};

const CREATE: Step = Step::Do(Transition::Create);

#[tokio::test(start_paused = true)]
async fn a_failed_slot_is_cleaned_shown_and_comes_back_under_a_fresh_id() {
    let backend = Arc::new(Scripted::new(2));
    backend.act(CREATE, Act::Fail("no space"));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let begun = Instant::now();
    p.create("m-0", Some(("s", 7, 7))).await.unwrap();
    p.reach("m-0", Failed).await;
    backend.wait_asked(Step::Cleanup, 1).await;
    backend.act(CREATE, Act::Succeed);
    let cursor = p.list(&[]).await.revision;
    while p.get("m-0").await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((600..603).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    let list = p.list(&[]).await;
    assert_eq!(list.machines.len(), 2);
    let fresh = p.get("m-0-r2").await.unwrap();
    assert_eq!(
        (fresh.state(), fresh.host.clone(), &*fresh.last_error),
        (Speculative, None, "")
    );
    assert_eq!(p.list(&cursor).await.machines, [fresh]);
    // The old id is a ghost now, and still fenced.
    refused(p.create("m-0", Some(("s", 7, 7))).await, Code::FailedPrecondition, &[]);
    refused(p.create("m-0", Some(("s", 7, 8))).await, Code::NotFound, &["`m-0`"]);
    p.create("m-0-r2", Some(("s", 1, 1))).await.unwrap();
    p.reach("m-0-r2", Idle).await;
    assert_eq!(backend.asked(Step::Cleanup).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cleanup_is_tried_until_it_works() {
    let backend = Arc::new(Scripted::new(1));
    backend.act(CREATE, Act::Fail("no space"));
    backend.act(Step::Cleanup, Act::Fail("host is down"));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.create("m-0", None).await.unwrap();
    let last = backend.wait_asked(Step::Cleanup, 12).await;
    assert_eq!(last.attempt, 12);
    assert_eq!(
        p.get("m-0").await.unwrap().state(),
        Failed,
        "not before the substrate is clean"
    );
    backend.act(Step::Cleanup, Act::Succeed);
    p.reach_listed("m-0-r2").await;
}

#[tokio::test(start_paused = true)]
async fn kept_slots_stay_as_they_are() {
    let backend = Arc::new(Scripted::new(1));
    backend.act(CREATE, Act::Fail("no space"));
    let mut keep = options();
    keep.failed_slots = FailedSlots::Keep;
    let p = Provider::start_with(keep, Memory::default(), Arc::clone(&backend)).await;
    p.create("m-0", None).await.unwrap();
    let failed = p.reach("m-0", Failed).await;
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert_eq!(p.get("m-0").await.unwrap(), failed);
    assert_eq!(backend.asked(Step::Cleanup), []);
}

#[tokio::test(start_paused = true)]
async fn what_was_being_recycled_goes_on_after_a_restart() {
    let store = Memory::default();
    let backend = Arc::new(Scripted::new(1));
    backend.act(CREATE, Act::Fail("no space"));
    backend.act(Step::Cleanup, Act::Never);
    let p = Provider::start(store.clone(), Arc::clone(&backend)).await;
    p.create("m-0", None).await.unwrap();
    backend.wait_asked(Step::Cleanup, 1).await;
    p.stop().await;

    backend.act(Step::Cleanup, Act::Succeed);
    let p = Provider::start(store.clone(), Arc::clone(&backend)).await;
    backend.wait_asked(Step::Cleanup, 2).await;
    assert_eq!(p.get("m-0").await.unwrap().state(), Failed);
    p.stop().await;

    let p = Provider::start(store, Arc::clone(&backend)).await;
    p.reach_listed("m-0-r2").await;
    assert_eq!(backend.asked(Step::Cleanup).len(), 2, "clean is remembered");
}

#[tokio::test(start_paused = true)]
async fn a_slot_with_its_own_host_comes_back_idle() {
    let backend = Scripted::new(0);
    let metal = Slot::new("metal", profile()).host(HostRef::new("scripted", "rack-1"));
    *backend.slots.lock().unwrap() = Ok(vec![metal]);
    backend.act(Step::Do(Transition::Configure), Act::Fail("no luck"));
    let p = Provider::start(Memory::default(), Arc::new(backend)).await;
    assert_eq!(p.get("metal").await.unwrap().state(), Idle);
    p.configure("metal", "c", None).await.unwrap();
    p.reach("metal", Failed).await;
    tokio::time::sleep(Duration::from_secs(601)).await;
    let fresh = p.reach("metal-r2", Idle).await;
    assert_eq!(fresh.host.unwrap().r#ref, "rack-1");
    assert!(fresh.cluster.is_empty());
}
