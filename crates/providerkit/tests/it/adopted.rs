//! A lost state is rebuilt from what the substrate has.

use std::{sync::Arc, time::Duration};

use bigfleet_proto::MachineState::{Configured, Idle, Speculative};
use providerkit::{
    Adopted, ClusterId, Engine, HostRef, MachineId, Slot, StartError,
    store::{Memory, Sqlite},
};

use crate::{
    client::{Provider, options},
    scripted::{Scripted, profile},
};

async fn next_look() {
    tokio::time::sleep(Duration::from_secs(121)).await;
}

fn found(machine: &str) -> Adopted {
    let host = HostRef::new("scripted", format!("{machine}#found"));
    Adopted::new(MachineId::new(machine).unwrap(), host)
}

fn bound(machine: &str) -> Adopted {
    let notes = [("k".to_owned(), "v".to_owned())].into();
    found(machine).cluster(ClusterId::new("c").unwrap()).metadata(notes)
}

fn slot(name: &str) -> Slot {
    Slot::new(name, profile())
}

fn offering(slots: Vec<Slot>) -> Arc<Scripted> {
    let backend = Scripted::new(0);
    *backend.slots.lock().unwrap() = Ok(slots);
    Arc::new(backend)
}

#[tokio::test(start_paused = true)]
async fn machines_begin_as_the_substrate_has_them_and_live_on() {
    let backend = offering(vec![
        slot("m-0"),
        slot("m-1").adopted(found("m-1")),
        slot("m-2").adopted(bound("m-2-r3")),
    ]);
    let p = Provider::start(Memory::default(), backend).await;
    let mut ids = p.ids().await;
    ids.sort();
    assert_eq!(ids, ["m-0", "m-1", "m-2-r3"]);
    assert_eq!(p.get("m-0").await.unwrap().state(), Speculative);
    let idle = p.get("m-1").await.unwrap();
    assert_eq!((idle.state(), idle.host.unwrap().r#ref), (Idle, "m-1#found".to_owned()));
    let configured = p.get("m-2-r3").await.unwrap();
    assert_eq!((configured.state(), &*configured.cluster), (Configured, "c"));
    assert_eq!(configured.shard_metadata["k"], "v");

    p.drain("m-2-r3", 0, None).await.unwrap();
    assert!(p.reach("m-2-r3", Idle).await.shard_metadata.is_empty());
    for id in ["m-1", "m-2-r3"] {
        p.delete(id, None).await.unwrap();
        assert_eq!(p.reach(id, Speculative).await.host, None, "it did not bring its host");
        p.idle(id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_an_adopted_machine_has_an_id_that_was_not_used() {
    let slots = || {
        ["a", "b", "c"]
            .map(slot)
            .into_iter()
            .zip([found("a"), bound("b-r7"), found("strange")])
    };
    let backend = offering(slots().map(|(slot, adopted)| slot.adopted(adopted)).collect());
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let lost = slots().map(|(slot, adopted)| slot.lost(adopted.host.clone(), "gone").adopted(adopted));
    *backend.slots.lock().unwrap() = Ok(lost.collect());
    next_look().await;
    assert_eq!(p.ids().await, ["a-r2", "b-r8", "c-r2"]);
    for id in ["a-r2", "b-r8", "c-r2"] {
        assert_eq!(p.get(id).await.unwrap().state(), Speculative);
    }
}

#[tokio::test(start_paused = true)]
async fn for_a_known_slot_the_store_wins() {
    let backend = offering(vec![slot("m-0"), slot("m-1")]);
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.idle("m-1").await;
    let before = p.list(&[]).await;
    let other = [slot("m-0").adopted(bound("m-0-r9")), slot("m-1").adopted(bound("m-1"))];
    *backend.slots.lock().unwrap() = Ok(other.into());
    next_look().await;
    assert_eq!(p.list(&[]).await, before);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_taken_is_not_adopted_and_the_sentence_says_by_whom() {
    let twice = || vec![slot("a").adopted(found("m")), slot("b").adopted(found("m"))];
    let start = Engine::start(options(), Box::new(Memory::default()), offering(twice()));
    let error = start.await.unwrap_err();
    assert!(matches!(&error, StartError::Slots(faults) if faults.len() == 1));
    for part in ["slot `b`", "machine `m`", "slot `a`", "remove"] {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }

    let backend = offering(vec![slot("m")]);
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    *backend.slots.lock().unwrap() = Ok(vec![slot("b").adopted(found("m")), slot("c").adopted(found("n"))]);
    next_look().await;
    assert_eq!(p.ids().await, ["m", "n"]);
    assert_eq!(p.get("m").await.unwrap().state(), Speculative);
}

/// A machine that is there cannot get another id; a slot that is only offered can.
#[tokio::test(start_paused = true)]
async fn an_adopted_id_comes_before_the_name_of_a_slot() {
    let backend = offering(vec![slot("m"), slot("b").adopted(found("m"))]);
    let p = Provider::start(Memory::default(), backend).await;
    assert_eq!(p.ids().await, ["m", "m-r2"]);
    assert_eq!(p.get("m").await.unwrap().state(), Idle);
}

#[tokio::test(start_paused = true)]
async fn bad_adoptions_are_refused_by_name() {
    let nameless = Adopted::new(MachineId::new("m").unwrap(), HostRef::new("scripted", ""));
    let long = found(&"x".repeat(2000));
    let backend = offering(vec![slot("a").adopted(nameless), slot("b").adopted(long)]);
    let error = Engine::start(options(), Box::new(Memory::default()), backend)
        .await
        .unwrap_err();
    for part in ["slot `a`", "empty provider or reference", "slot `b`", "1024 bytes"] {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
}

#[tokio::test]
async fn what_was_adopted_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let backend = offering(vec![
        slot("m-1").adopted(found("m-1-r4")),
        slot("m-2").adopted(bound("m-2")),
    ]);
    let p = Provider::start(Sqlite::open(&path).unwrap(), Arc::clone(&backend)).await;
    let before = p.list(&[]).await;
    p.stop().await;
    *backend.slots.lock().unwrap() = Err("the host is down");
    let p = Provider::start(Sqlite::open(&path).unwrap(), backend).await;
    assert_eq!(p.list(&[]).await.machines, before.machines);
    assert_eq!(p.list(&before.revision).await.machines, []);
    p.stop().await;
}
