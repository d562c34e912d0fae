//! FS: the shape of a machine's record (contract §8).

use std::time::Duration;

use bigfleet_proto::{CapacityType, Machine, MachineState as S};

use crate::harness::{Binding, Launch, host_of, operation};

/// Label keys that would contradict a field of their own.
const FORBIDDEN_LABELS: [&str; 9] = [
    "instance-type",
    "instance_type",
    "instanceType",
    "zone",
    "availability-zone",
    "availability_zone",
    "capacity-type",
    "capacity_type",
    "capacityType",
];

/// What holds for every record in every state; the union of the suite's rules and the shard's.
#[track_caller]
pub(crate) fn assert_sound(machine: &Machine) {
    let state = machine.state();
    assert!(!machine.id.is_empty(), "{machine:?}");
    assert!(
        S::try_from(machine.state).is_ok_and(|state| state != S::Unspecified),
        "{machine:?}"
    );
    assert!(
        !machine.instance_type.is_empty() && !machine.zone.is_empty(),
        "{machine:?}"
    );
    let capacity = CapacityType::try_from(machine.capacity_type).unwrap();
    assert_ne!(capacity, CapacityType::Unspecified, "{machine:?}");
    assert!(
        machine.price_per_hour.is_finite() && machine.price_per_hour >= 0.0,
        "{machine:?}"
    );
    assert!((0.0..=1.0).contains(&machine.interruption_probability), "{machine:?}");
    if capacity == CapacityType::Spot {
        assert!(machine.interruption_probability > 0.0, "{machine:?}");
    }
    for label in FORBIDDEN_LABELS {
        assert!(!machine.labels.contains_key(label), "{machine:?}");
    }
    for map in [&machine.resources, &machine.allocatable].into_iter().flatten() {
        assert!(
            !map.resources.is_empty(),
            "an empty Resources must be left out: {machine:?}"
        );
    }
    let hosted = !matches!(state, S::Speculative | S::Creating);
    let bound = matches!(state, S::Configuring | S::Configured | S::Draining);
    if state != S::Failed {
        assert_eq!(host_of(machine).is_some(), hosted, "{machine:?}");
        assert_eq!(machine.host.is_some(), hosted, "{machine:?}");
        assert_eq!(!machine.cluster.is_empty(), bound, "{machine:?}");
        assert!(bound || machine.shard_metadata.is_empty(), "{machine:?}");
    }
    assert_eq!(!machine.last_error.is_empty(), state == S::Failed, "{machine:?}");
}

/// The number a quantity stands for, as B804's parser reads it (trap 10).
fn quantity(text: &str) -> f64 {
    let suffixes = [
        ("Gi", f64::from(1 << 30)),
        ("Mi", f64::from(1 << 20)),
        ("Ki", 1024.0),
        ("G", 1e9),
        ("M", 1e6),
        ("k", 1e3),
        ("m", 1e-3),
    ];
    let (digits, factor) = suffixes
        .into_iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|digits| (digits, factor)))
        .unwrap_or((text, 1.0));
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    assert!(plain, "{text:?} is no plain quantity");
    digits.parse::<f64>().unwrap() * factor
}

/// B801.
#[tokio::test]
async fn b801_every_record_has_its_identity_and_no_forbidden_label() {
    let provider = Launch::new().seeds(256).start().await;
    let fleet = provider.fleet().await;
    assert!(fleet.len() >= 256, "{}", fleet.len());
    for machine in fleet.values() {
        assert_sound(machine);
    }
}

/// B802.
#[tokio::test]
async fn b802_spot_machines_are_there_and_may_be_interrupted() {
    let provider = Launch::new().start().await;
    let fleet = provider.fleet().await;
    let spot = fleet
        .values()
        .filter(|machine| machine.capacity_type() == CapacityType::Spot);
    let mut count = 0;
    for machine in spot {
        assert!(machine.interruption_probability > 0.0, "{machine:?}");
        count += 1;
    }
    assert!(count > 0, "the embedded fleet has no spot machine");
}

/// B803.
#[tokio::test]
async fn b803_host_and_cluster_follow_the_state_through_a_whole_life() {
    let provider = Launch::new().delay(Duration::from_millis(20)).start().await;
    let id = provider.pick_one().await;
    assert_sound(&provider.get(&id).await);
    let free = crate::harness::Token::unfenced();
    let answer = provider.create(&id, &free).await;
    provider.trace(answer, S::Idle).await.iter().for_each(assert_sound);
    let answer = provider.configure(&id, &Binding::to("c").with("k", "v"), &free).await;
    provider
        .trace(answer, S::Configured)
        .await
        .iter()
        .for_each(assert_sound);
    let answer = provider.drain(&id, 0, &free).await;
    provider.trace(answer, S::Idle).await.iter().for_each(assert_sound);
    let answer = provider.delete(&id, &free).await;
    provider
        .trace(answer, S::Speculative)
        .await
        .iter()
        .for_each(assert_sound);
    provider.fleet().await.values().for_each(assert_sound);
}

/// B804.
#[tokio::test]
async fn b804_quantities_are_plain_and_positive() {
    let provider = Launch::new().start().await;
    let mut compared = 0;
    for machine in provider.fleet().await.into_values() {
        let (Some(resources), Some(allocatable)) = (machine.resources, machine.allocatable) else {
            continue;
        };
        for (key, value) in &resources.resources {
            assert!(quantity(value) > 0.0, "{key} = {value}");
            if let Some(value) = allocatable.resources.get(key) {
                assert!(quantity(value) >= 0.0, "{key} = {value}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "no machine has both maps");
}

/// B805.
#[tokio::test]
async fn b805_the_host_is_the_same_from_idle_to_idle() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    let host = provider.get(&id).await.host.unwrap();
    assert!(!host.provider.is_empty() && !host.r#ref.is_empty(), "{host:?}");
    let check = async || {
        assert_eq!(provider.get(&id).await.host, Some(host.clone()));
        assert_eq!(provider.fleet().await[&id].host, Some(host.clone()));
    };
    check().await;
    provider.bind(&id, &Binding::to("c")).await;
    check().await;
    provider.release(&id, 0).await;
    check().await;
}

/// B806.
#[tokio::test]
async fn b806_hosted_machines_say_their_zone_and_capacity_type() {
    let provider = Launch::new().start().await;
    let id = provider.idle().await;
    assert_sound(&provider.fleet().await[&id]);
    provider.bind(&id, &Binding::to("c")).await;
    let machine = &provider.fleet().await[&id];
    assert_sound(machine);
    assert!(!machine.zone.is_empty() && machine.capacity_type() != CapacityType::Unspecified);
}

/// B807.
#[tokio::test]
async fn b807_a_deleted_machine_keeps_nothing_of_its_life() {
    let provider = Launch::new().start().await;
    let id = provider.pick_one().await;
    let seed = provider.get(&id).await;
    operation(provider.create(&id, &crate::harness::Token::unfenced()).await);
    provider.reach(&id, S::Idle).await;
    provider.bind(&id, &Binding::to("c").with("k", "v")).await;
    provider.release(&id, 0).await;
    assert!(provider.get(&id).await.host.is_some());
    provider.give_back(&id).await;
    let machine = provider.get(&id).await;
    assert!(machine.host.is_none() && machine.cluster.is_empty() && machine.shard_metadata.is_empty());
    assert_eq!(machine, seed);
}
