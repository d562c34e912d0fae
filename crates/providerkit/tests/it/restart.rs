//! What a restart finds (contract §6).

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bigfleet_proto::MachineState::{
    self, Configured, Configuring, Creating, Deleting, Draining, Failed, Idle, Speculative,
};
use providerkit::{OnRestart, Transition, store::Memory};
use tonic::Code;

use crate::{
    client::{Provider, options, refused},
    scripted::{Act, Scripted, Step},
};

/// Starts a transition that hangs, and stops the provider in the middle of it.
async fn interrupted(transition: Transition, store: &Memory) -> String {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(store.clone(), Arc::clone(&backend)).await;
    match transition {
        Transition::Create => {}
        Transition::Configure | Transition::Delete => p.idle("m-0").await,
        Transition::Drain => p.configured("m-0", "c").await,
    }
    backend.act(Step::Do(transition), Act::Never);
    let token = Some(("s", 4, 4));
    let (id, _) = match transition {
        Transition::Create => p.create("m-0", token).await,
        Transition::Configure => {
            p.configure_with("m-0", "c", b"secret", [("k".into(), "v".into())].into(), token)
                .await
        }
        Transition::Drain => p.drain("m-0", 17, token).await,
        Transition::Delete => p.delete("m-0", token).await,
    }
    .unwrap();
    backend.wait_asked(Step::Do(transition), 1).await;
    p.stop().await;
    id
}

fn running(transition: Transition) -> MachineState {
    [Creating, Configuring, Draining, Deleting][transition as usize]
}

fn target(transition: Transition) -> MachineState {
    [Idle, Configured, Idle, Speculative][transition as usize]
}

#[tokio::test(start_paused = true)]
async fn a_running_transition_goes_on_under_its_own_id() {
    for transition in Transition::ALL {
        let store = Memory::default();
        let id = interrupted(transition, &store).await;
        let backend = Arc::new(Scripted::new(1));
        backend.act(Step::Do(transition), Act::Gate);
        let p = Provider::start(store, Arc::clone(&backend)).await;
        let machine = p.get("m-0").await.unwrap();
        assert_eq!(machine.state(), running(transition));
        if transition == Transition::Configure {
            assert_eq!((&*machine.cluster, &*machine.shard_metadata["k"]), ("c", "v"));
        }
        let asked = backend.wait_asked(Step::Do(transition), 1).await;
        assert_eq!((asked.operation.to_string(), asked.attempt), (id.clone(), 2));
        refused(p.create("m-0", Some(("s", 4, 4))).await, Code::FailedPrecondition, &[]);
        backend.open_gate();
        p.reach("m-0", target(transition)).await;
        let (again, _) = match transition {
            Transition::Create => p.create("m-0", None).await,
            Transition::Configure => p.configure("m-0", "c", None).await,
            Transition::Drain => p.drain("m-0", 17, None).await,
            Transition::Delete => p.delete("m-0", None).await,
        }
        .unwrap();
        assert_eq!(again, id);
    }
}

#[tokio::test(start_paused = true)]
async fn told_to_fail_a_restart_fails_what_it_finds_before_anybody_looks() {
    for transition in Transition::ALL {
        let store = Memory::default();
        interrupted(transition, &store).await;
        let backend = Arc::new(Scripted::new(1));
        let mut fail = options();
        fail.on_restart = OnRestart::Fail;
        let p = Provider::start_with(fail, store, Arc::clone(&backend)).await;
        let machine = p.get("m-0").await.unwrap();
        assert_eq!(machine.state(), Failed);
        for part in [transition.name(), "interrupted by a provider restart"] {
            assert!(machine.last_error.contains(part), "{}", machine.last_error);
        }
        assert_eq!(backend.asked(Step::Do(transition)), []);
        backend.wait_asked(Step::Cleanup, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_while_nobody_ran_ends_the_transition_without_beginning_it_again() {
    let store = Memory::default();
    let backend = Arc::new(Scripted::new(1));
    backend.act(Step::Do(Transition::Create), Act::Never);
    let mut short = options();
    short.timeouts.create = Duration::from_millis(1);
    let p = Provider::start_with(short.clone(), store.clone(), Arc::clone(&backend)).await;
    p.create("m-0", None).await.unwrap();
    let deadline = SystemTime::now() + Duration::from_millis(2);
    // Dropped before its own, virtual deadline can end it.
    p.stop().await;
    let asked = backend.asked(Step::Do(Transition::Create)).len();
    // Stored deadlines are of the real clock, which virtual time does not move.
    while SystemTime::now() < deadline {
        std::thread::yield_now();
    }
    let p = Provider::start_with(short, store, Arc::clone(&backend)).await;
    assert!(
        p.reach("m-0", Failed)
            .await
            .last_error
            .contains("Create did not end within")
    );
    assert_eq!(backend.asked(Step::Do(Transition::Create)).len(), asked);
}

#[tokio::test(start_paused = true)]
async fn cursors_stay_exact() {
    let store = Memory::default();
    let p = Provider::start(store.clone(), Arc::new(Scripted::new(3))).await;
    p.idle("m-0").await;
    let cursor = p.list(&[]).await.revision;
    p.idle("m-1").await;
    let head = p.list(&cursor).await.revision;
    p.stop().await;
    let p = Provider::start(store, Arc::new(Scripted::new(3))).await;
    assert_eq!(p.list(&head).await.machines, []);
    let changed = p.list(&cursor).await.machines;
    assert_eq!(changed.iter().map(|machine| &*machine.id).collect::<Vec<_>>(), ["m-1"]);

    let other = Provider::start(Memory::default(), Arc::new(Scripted::new(2))).await;
    assert_eq!(
        other.list(&head).await.machines.len(),
        2,
        "another state's cursor gets the full list"
    );
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_what_ends_in_time_and_refuses_what_comes() {
    let store = Memory::default();
    let backend = Arc::new(Scripted::new(2));
    backend.act(Step::Do(Transition::Create), Act::After(Duration::from_secs(3)));
    let p = Provider::start(store.clone(), Arc::clone(&backend)).await;
    p.create("m-0", None).await.unwrap();
    p.engine.refuse_mutations();
    refused(p.create("m-1", None).await, Code::Unavailable, &["nothing was changed"]);
    let stopped = p.engine.stop(Duration::from_secs(10)).await.unwrap();
    assert_eq!(stopped.left_running, 0);
    let p = Provider::start(store, backend).await;
    assert_eq!(p.get("m-0").await.unwrap().state(), Idle);
}
