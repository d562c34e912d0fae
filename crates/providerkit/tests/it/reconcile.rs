//! Looks at the substrate (contract §10).

use std::{sync::Arc, time::Duration};

use bigfleet_proto::MachineState::{Configured, Draining, Failed, Idle, Speculative};
use providerkit::{Engine, HostRef, Slot, StartError, State, Transition, store::Memory};

use crate::{
    client::{Provider, options},
    scripted::{Act, Scripted, Step, host, profile},
};

async fn next_look() {
    tokio::time::sleep(Duration::from_secs(121)).await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_finds_nothing_new_changes_nothing() {
    let backend = Arc::new(Scripted::new(3));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let before = p.list(&[]).await;
    next_look().await;
    // The same offers, made anew: equal, not identical.
    let fresh = (0..3).map(|n| Slot::new(format!("m-{n}"), profile())).collect();
    *backend.slots.lock().unwrap() = Ok(fresh);
    next_look().await;
    *backend.slots.lock().unwrap() = Ok(vec![]);
    next_look().await;
    *backend.slots.lock().unwrap() = Err("the host is down");
    next_look().await;
    let after = p.list(&before.revision).await;
    assert_eq!((after.machines, after.revision), (vec![], before.revision));
}

#[tokio::test(start_paused = true)]
async fn a_look_is_told_every_machine_and_the_operation_it_is_in() {
    let backend = Arc::new(Scripted::new(5));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.configured("m-1", "c").await;
    backend.act(Step::Do(Transition::Create), Act::Never);
    let (creating, _) = p.create("m-2", None).await.unwrap();
    backend.act(Step::Do(Transition::Create), Act::Fail("no luck"));
    backend.act(Step::Cleanup, Act::Gate);
    let (failed, _) = p.create("m-3", None).await.unwrap();
    p.reach("m-3", Failed).await;
    next_look().await;

    let told = |slot| {
        let known = backend.known(slot);
        (known.machine.state, known.operation.map(|id| id.to_string()))
    };
    assert_eq!(told("m-0"), (State::Speculative, None));
    assert_eq!(told("m-1"), (State::Configured, None));
    assert_eq!(told("m-2"), (State::Creating, Some(creating)));
    assert_eq!(told("m-3"), (State::Failed, Some(failed)));
    let bound = backend.known("m-1").machine;
    assert_eq!((bound.cluster.unwrap().as_str(), bound.host.is_some()), ("c", true));

    backend.open_gate();
    next_look().await;
    assert_eq!(told("m-3"), (State::Failed, None), "cleaned up");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(backend.known("m-3").machine.id.as_str(), "m-3-r2");
}

#[tokio::test(start_paused = true)]
async fn offers_are_refreshed_on_a_bound_machine_and_the_binding_stays() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.configured("m-0", "c").await;
    let mut offer = profile().price_per_hour(0.7).resource("cpu", "3").label("rack", "9");
    offer.zone = "elsewhere".into();
    offer.instance_type = "other".into();
    *backend.slots.lock().unwrap() = Ok(vec![Slot::new("m-0", offer), Slot::new("m-new", profile())]);
    let cursor = p.list(&[]).await.revision;
    next_look().await;
    let machine = p.get("m-0").await.unwrap();
    assert_eq!((machine.state(), &*machine.cluster), (Configured, "c"));
    assert!((machine.price_per_hour - 0.7).abs() < f64::EPSILON);
    assert_eq!(
        (&*machine.zone, &*machine.instance_type, &*machine.labels["rack"]),
        ("zone-a", "type-4", "9")
    );
    assert_eq!(p.list(&cursor).await.machines.len(), 2);
    assert_eq!(p.get("m-new").await.unwrap().state(), Speculative);
}

#[tokio::test(start_paused = true)]
async fn a_lost_host_retires_its_machine_and_the_slot_comes_back() {
    let backend = Arc::new(Scripted::new(2));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.configured("m-0", "c").await;
    let lost = |name| Slot::new(name, profile()).lost(host(name, 1), "the domain is gone");
    *backend.slots.lock().unwrap() = Ok(vec![lost("m-0"), lost("m-1")]);
    next_look().await;
    let list = p.list(&[]).await;
    let ids: Vec<_> = list.machines.iter().map(|machine| &*machine.id).collect();
    assert_eq!(ids, ["m-1", "m-0-r2"], "a SPECULATIVE machine has no host to lose");
    assert!(
        list.machines
            .iter()
            .all(|machine| machine.state() == Speculative && machine.cluster.is_empty())
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_lost_before_the_present_one_retires_nothing() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.idle("m-0").await;
    let old = host("m-0", 1);
    let lost = Slot::new("m-0", profile()).lost(old.clone(), "the domain is gone");
    *backend.slots.lock().unwrap() = Ok(vec![lost]);
    // The look sees the old host gone, and then takes long enough for the machine to get another.
    backend.hold_looks(true);
    backend.wait_look().await;
    assert_eq!(backend.known("m-0").machine.host, Some(old));
    p.delete("m-0", None).await.unwrap();
    p.reach("m-0", Speculative).await;
    p.idle("m-0").await;
    let before = p.list(&[]).await;
    backend.hold_looks(false);
    // Nor does any later one.
    next_look().await;
    next_look().await;
    assert_eq!(p.list(&[]).await, before);
    assert_eq!(before.machines[0].host.as_ref().unwrap().r#ref, "m-0#2");
    let lost = Slot::new("m-0", profile()).lost(host("m-0", 2), "the domain is gone");
    *backend.slots.lock().unwrap() = Ok(vec![lost]);
    next_look().await;
    p.get("m-0-r2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_lost_its_own_host_comes_back_on_another_or_speculative_and_only_once() {
    let backend = Arc::new(Scripted::new(0));
    let rack = |number: u32| HostRef::new("scripted", format!("rack-{number}"));
    let metal = |name, number| Slot::new(name, profile()).host(rack(number));
    *backend.slots.lock().unwrap() = Ok(vec![metal("a", 1), metal("b", 2)]);
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    *backend.slots.lock().unwrap() = Ok(vec![
        metal("a", 1).lost(rack(1), "burnt"),
        metal("b", 3).lost(rack(2), "burnt"),
    ]);
    for _ in 0..3 {
        next_look().await;
    }
    assert_eq!(p.ids().await, ["a-r2", "b-r2"]);
    let (a, b) = (p.get("a-r2").await.unwrap(), p.get("b-r2").await.unwrap());
    assert_eq!((a.state(), a.host), (Speculative, None));
    assert_eq!((b.state(), b.host.unwrap().r#ref), (Idle, "rack-3".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_transition_on_a_lost_host_ends_by_itself() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    p.configured("m-0", "c").await;
    backend.act(Step::Do(Transition::Drain), Act::Gate);
    p.drain("m-0", 0, None).await.unwrap();
    let lost = Slot::new("m-0", profile()).lost(host("m-0", 1), "the domain is gone");
    *backend.slots.lock().unwrap() = Ok(vec![lost]);
    next_look().await;
    assert_eq!(p.get("m-0").await.unwrap().state(), Draining);
    backend.open_gate();
    p.reach("m-0", Idle).await;
    next_look().await;
    p.get("m-0-r2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bad_records_stop_a_first_start_and_are_left_out_later() {
    let backend = Arc::new(Scripted::new(1));
    let bad = || Slot::new("bad", profile().price_per_hour(f64::NAN));
    *backend.slots.lock().unwrap() = Ok(vec![bad(), Slot::new("m-0", profile()), Slot::new("m-0", profile())]);
    let error = Engine::start(options(), Box::new(Memory::default()), Arc::clone(&backend) as _)
        .await
        .unwrap_err();
    assert!(matches!(&error, StartError::Slots(faults) if faults.len() == 2));
    for part in ["`bad`", "price_per_hour is NaN", "`m-0` is there twice"] {
        assert!(error.to_string().contains(part), "{error}");
    }

    *backend.slots.lock().unwrap() = Ok(vec![Slot::new("m-0", profile())]);
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    *backend.slots.lock().unwrap() = Ok(vec![bad(), Slot::new("good", profile())]);
    next_look().await;
    assert_eq!(p.list(&[]).await.machines.len(), 2);
    p.get("good").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_first_start_without_a_substrate_is_filled_when_it_comes() {
    let backend = Arc::new(Scripted::new(0));
    *backend.slots.lock().unwrap() = Err("the host is down");
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    assert_eq!(p.list(&[]).await.machines, []);
    *backend.slots.lock().unwrap() = Ok(vec![Slot::new("m-0", profile())]);
    p.reach_listed("m-0").await;
}
