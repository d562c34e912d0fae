//! One machine through its life, and every call at the wrong time.

use std::sync::Arc;

use bigfleet_proto::MachineState::{
    self, Configured, Configuring, Creating, Deleting, Draining, Failed, Idle, Speculative,
};
use providerkit::{DeleteSupport, Slot, Transition, store::Memory};
use tonic::Code;

use crate::{
    client::{Provider, refused},
    scripted::{Act, Scripted, Step, profile},
};

#[tokio::test(start_paused = true)]
async fn a_machine_goes_round_and_every_operation_has_its_own_id() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let mut ids = Vec::new();
    for round in 0..2 {
        let (id, machine) = p.create("m-0", None).await.unwrap();
        assert_eq!(
            (machine.state(), machine.host),
            (Creating, None),
            "an instant backend changes no ack"
        );
        ids.push(id);
        assert!(p.reach("m-0", Idle).await.host.is_some());
        for cluster in ["c-1", "c-2"] {
            let notes = [("k\0".to_owned(), "v".to_owned())].into();
            let (id, machine) = p.configure_with("m-0", cluster, b"x", notes, None).await.unwrap();
            assert_eq!((machine.state(), &*machine.cluster), (Configuring, cluster));
            assert_eq!(machine.shard_metadata["k\0"], "v");
            ids.push(id);
            p.reach("m-0", Configured).await;
            let (id, machine) = p.drain("m-0", 5, None).await.unwrap();
            assert_eq!((machine.state(), &*machine.cluster), (Draining, cluster));
            ids.push(id);
            let idle = p.reach("m-0", Idle).await;
            assert!(idle.cluster.is_empty() && idle.shard_metadata.is_empty() && idle.host.is_some());
        }
        let (id, machine) = p.delete("m-0", None).await.unwrap();
        assert_eq!(machine.state(), Deleting);
        assert!(machine.host.is_some());
        ids.push(id);
        assert_eq!(p.reach("m-0", Speculative).await.host, None);
        assert_eq!(backend.asked(Step::Do(Transition::Create)).len(), round + 1);
    }
    let asked: Vec<_> = Transition::ALL
        .into_iter()
        .flat_map(|t| backend.asked(Step::Do(t)))
        .collect();
    assert!(
        asked.iter().all(|asked| ids.contains(&asked.operation.to_string())),
        "the backend gets the ack's id"
    );
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

/// Brings m-0 into a state and holds it there.
async fn held_in(state: MachineState) -> (Arc<Scripted>, Provider) {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let hold = |transition| backend.act(Step::Do(transition), Act::Gate);
    match state {
        Creating => hold(Transition::Create),
        Configuring => hold(Transition::Configure),
        Draining => hold(Transition::Drain),
        Deleting => hold(Transition::Delete),
        Failed => backend.act(Step::Do(Transition::Create), Act::Fail("no luck")),
        _ => {}
    }
    match state {
        Speculative => {}
        Creating | Failed => drop(p.create("m-0", None).await.unwrap()),
        _ => p.idle("m-0").await,
    }
    if matches!(state, Configuring | Configured | Draining) {
        p.configure("m-0", "c", None).await.unwrap();
    }
    if matches!(state, Configured | Draining) {
        p.reach("m-0", Configured).await;
    }
    match state {
        Draining => drop(p.drain("m-0", 0, None).await.unwrap()),
        Deleting => drop(p.delete("m-0", None).await.unwrap()),
        _ => {}
    }
    p.reach("m-0", state).await;
    (backend, p)
}

#[tokio::test(start_paused = true)]
async fn a_call_in_the_wrong_state_is_aborted_and_changes_nothing() {
    use Transition::{Configure, Create, Delete, Drain};
    let states = [
        Speculative,
        Creating,
        Idle,
        Configuring,
        Configured,
        Draining,
        Deleting,
        Failed,
    ];
    for state in states {
        for transition in Transition::ALL {
            let (_backend, p) = held_in(state).await;
            let before = p.list(&[]).await;
            let result = match transition {
                Create => p.create("m-0", Some(("s", 1, 1))).await,
                Configure => p.configure("m-0", "other", Some(("s", 1, 1))).await,
                Drain => p.drain("m-0", 0, Some(("s", 1, 1))).await,
                Delete => p.delete("m-0", Some(("s", 1, 1))).await,
            };
            let replay = matches!(
                (transition, state),
                (Create, Creating | Idle)
                    | (Configure, Configuring | Configured)
                    | (Drain, Draining)
                    | (Delete, Deleting)
            );
            if state as i32 == transition.start() as i32 {
                result.unwrap();
            } else if replay {
                let (_, machine) = result.unwrap();
                assert_eq!(machine, before.machines[0], "{transition} in {state:?} is a retry");
            } else {
                let named = providerkit::State::from_number(state as i32).unwrap();
                refused(result, Code::Aborted, &["`m-0`", named.name(), transition.name()]);
                assert_eq!(p.list(&before.revision).await.machines, [], "{transition} in {state:?}");
            }
            // The fence passed, so its mark stands whatever became of the call (B311).
            refused(
                p.create("m-0", Some(("s", 1, 1))).await,
                Code::FailedPrecondition,
                &["`s`"],
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_gets_its_id_and_the_present_snapshot_and_does_nothing() {
    let backend = Arc::new(Scripted::new(1));
    backend.act(Step::Do(Transition::Create), Act::Gate);
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let (first, _) = p.create("m-0", None).await.unwrap();
    assert_eq!(p.create("m-0", None).await.unwrap().0, first);
    backend.open_gate();
    p.reach("m-0", Idle).await;
    let (again, machine) = p.create("m-0", None).await.unwrap();
    assert_eq!((again, machine.state()), (first, Idle));
    let (bound, _) = p.configure("m-0", "c-1", None).await.unwrap();
    p.reach("m-0", Configured).await;
    let (again, machine) = p.configure("m-0", "c-2", None).await.unwrap();
    assert_eq!(
        (again, &*machine.cluster),
        (bound, "c-1"),
        "other arguments change nothing"
    );
    assert_eq!(backend.asked(Step::Do(Transition::Create)).len(), 1);
    assert_eq!(backend.asked(Step::Do(Transition::Configure)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn configured_means_that_the_gate_was_passed() {
    let backend = Arc::new(Scripted::new(1));
    backend.act(Step::Ready, Act::Gate);
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.idle("m-0").await;
    p.configure("m-0", "c", None).await.unwrap();
    let asked = backend.wait_asked(Step::Ready, 1).await;
    assert_eq!(
        backend.asked(Step::Do(Transition::Configure))[0].operation,
        asked.operation
    );
    assert_eq!(p.get("m-0").await.unwrap().state(), Configuring);
    backend.open_gate();
    p.reach("m-0", Configured).await;
}

#[tokio::test(start_paused = true)]
async fn delete_is_decided_by_provider_and_by_machine() {
    let never = Provider::start(
        Memory::default(),
        Arc::new(Scripted::new(1).delete(DeleteSupport::Never)),
    )
    .await;
    refused(never.delete("m-0", None).await, Code::Unimplemented, &[]);
    refused(never.delete("ghost", None).await, Code::Unimplemented, &[]);

    let mixed = Scripted::new(1).delete(DeleteSupport::PaidByUse);
    let mut kept = profile();
    kept.capacity_type = providerkit::CapacityType::Reserved;
    mixed
        .slots
        .lock()
        .unwrap()
        .as_mut()
        .unwrap()
        .push(Slot::new("kept", kept));
    let mixed = Provider::start(Memory::default(), Arc::new(mixed)).await;
    for id in ["m-0", "kept"] {
        mixed.idle(id).await;
    }
    mixed.delete("m-0", None).await.unwrap();
    refused(
        mixed.delete("kept", Some(("s", 1, 1))).await,
        Code::Unimplemented,
        &["`kept`", "reserved"],
    );
    refused(
        mixed.delete("kept", Some(("s", 1, 1))).await,
        Code::FailedPrecondition,
        &[],
    );
    assert_eq!(mixed.get("kept").await.unwrap().state(), Idle);
}

#[tokio::test(start_paused = true)]
async fn a_backend_without_room_refuses_before_the_ack() {
    let backend = Arc::new(Scripted::new(1));
    *backend.full.lock().unwrap() = true;
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    refused(
        p.create("m-0", None).await,
        Code::ResourceExhausted,
        &["no room for m-0"],
    );
    assert_eq!(p.get("m-0").await.unwrap().state(), Speculative);
    *backend.full.lock().unwrap() = false;
    p.idle("m-0").await;
}
