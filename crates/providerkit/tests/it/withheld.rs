//! Slots that cannot be created now are not offered (ADR 0011).

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bigfleet_proto::{
    ListFilter,
    MachineState::{Configured, Creating, Deleting, Failed, Idle, Speculative},
};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use providerkit::{
    Slot, State, Transition, metric,
    store::{Memory, Sqlite, Store},
};
use tonic::Code;

use crate::{
    client::{Provider, refused},
    scripted::{Act, Scripted, Step, host, profile},
};

const FULL: Option<&str> = Some("it needs 4 GiB and rack-1 has 3 left");

async fn next_look() {
    tokio::time::sleep(Duration::from_secs(121)).await;
}

async fn provider(machines: usize) -> (Arc<Scripted>, Provider) {
    let backend = Arc::new(Scripted::new(machines));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    (backend, p)
}

#[tokio::test(start_paused = true)]
async fn a_withheld_slot_is_in_no_list_until_it_is_offered_again_in_its_old_place() {
    let (backend, p) = provider(3).await;
    let before = p.list(&[]).await;
    backend.offer(&[("m-0", None), ("m-1", FULL), ("m-2", None)]);
    next_look().await;
    assert_eq!(p.ids().await, ["m-0", "m-2"]);
    for (states, max_results) in [
        (vec![Speculative as i32], 0),
        (vec![Speculative as i32], 3),
        (vec![], 3),
    ] {
        let filter = ListFilter {
            states,
            max_results,
            ..Default::default()
        };
        let ids: Vec<_> = p.list_with(filter).await.machines.into_iter().map(|m| m.id).collect();
        assert_eq!(ids, ["m-0", "m-2"]);
    }
    let delta = p.list(&before.revision).await;
    assert_eq!((delta.machines, &delta.revision), (vec![], &before.revision));
    let machine = p.get("m-1").await.unwrap();
    assert_eq!(machine, before.machines[1]);
    assert_eq!(p.engine.summary().withheld, 1);
    assert_eq!(p.engine.summary().machines[&State::Speculative], 3);

    backend.offer(&[("m-0", None), ("m-1", None), ("m-2", None)]);
    next_look().await;
    assert_eq!(p.ids().await, ["m-0", "m-1", "m-2"]);
    let delta = p.list(&before.revision).await;
    assert_eq!(delta.machines, [machine]);
    assert_eq!(p.list(&delta.revision).await.machines, []);
    assert_eq!(p.engine.summary().withheld, 0);
    p.idle("m-1").await;
}

#[tokio::test(start_paused = true)]
async fn a_create_of_a_withheld_slot_is_refused_with_the_reason_after_every_other_check() {
    let (backend, p) = provider(1).await;
    backend.offer(&[("m-0", FULL)]);
    next_look().await;
    refused(
        p.create("m-0", Some(("s", 3, 3))).await,
        Code::ResourceExhausted,
        &["`m-0`", "rack-1 has 3 left"],
    );
    refused(p.create("m-0", Some(("s", 3, 3))).await, Code::FailedPrecondition, &[]);
    refused(p.create("ghost", None).await, Code::NotFound, &[]);
    for result in [p.configure("m-0", "c", None).await, p.drain("m-0", 0, None).await] {
        refused(result, Code::Aborted, &["SPECULATIVE"]);
    }
    assert_eq!(p.get("m-0").await.unwrap().state(), Speculative);
    assert_eq!(backend.asked(Step::Do(Transition::Create)), []);
    backend.offer(&[("m-0", None)]);
    next_look().await;
    p.create("m-0", Some(("s", 3, 4))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn in_any_other_state_withholding_makes_no_difference() {
    let (backend, p) = provider(3).await;
    p.idle("m-0").await;
    p.configured("m-1", "c").await;
    backend.act(Step::Do(Transition::Create), Act::Gate);
    let (creating, _) = p.create("m-2", None).await.unwrap();
    let before = p.list(&[]).await;
    backend.offer(&[("m-0", FULL), ("m-1", FULL), ("m-2", FULL)]);
    next_look().await;
    assert_eq!(p.list(&[]).await, before);
    assert_eq!(p.get("m-2").await.unwrap().state(), Creating);
    assert_eq!(p.engine.summary().withheld, 0);
    // A retry is answered as ever.
    assert_eq!(p.create("m-2", None).await.unwrap().0, creating);
    backend.open_gate();
    p.reach("m-2", Idle).await;
    p.configure("m-0", "c", None).await.unwrap();
    p.reach("m-0", Configured).await;
    p.drain("m-1", 0, None).await.unwrap();
    p.reach("m-1", Idle).await;
    assert_eq!(p.ids().await, ["m-0", "m-1", "m-2"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_delete_is_shown_until_the_next_look_and_told_to_every_delta_once() {
    let (backend, p) = provider(2).await;
    p.idle("m-0").await;
    backend.offer(&[("m-0", FULL), ("m-1", None)]);
    next_look().await;
    backend.act(Step::Do(Transition::Delete), Act::Gate);
    p.delete("m-0", None).await.unwrap();
    let deleting = p.list(&[]).await;
    assert_eq!(deleting.machines[0].state(), Deleting);
    backend.open_gate();
    let end = p.reach("m-0", Speculative).await;
    // What a shard that lists everything waits for.
    assert_eq!(p.list(&[]).await.machines[0], end);

    next_look().await;
    assert_eq!(p.ids().await, ["m-1"]);
    refused(p.create("m-0", None).await, Code::ResourceExhausted, &[]);
    // A shard that lists changes, and comes only now, would see DELETING for ever.
    let delta = p.list(&deleting.revision).await;
    assert_eq!(delta.machines, [end]);
    next_look().await;
    assert_eq!(p.list(&delta.revision).await.machines, []);
    assert_eq!(p.list(&p.list(&[]).await.revision).await.machines, []);
}

#[tokio::test(start_paused = true)]
async fn a_delta_tells_no_caller_of_a_deleted_machine_that_came_and_went_since() {
    let (backend, p) = provider(2).await;
    p.idle("m-0").await;
    p.delete("m-0", None).await.unwrap();
    p.reach("m-0", Speculative).await;
    let full = [("m-0", FULL), ("m-1", None)];
    backend.offer(&full);
    next_look().await;
    let never_saw_it = p.list(&[]).await;
    assert_eq!(never_saw_it.machines.len(), 1);
    backend.offer(&[("m-0", None), ("m-1", None)]);
    next_look().await;
    backend.offer(&full);
    next_look().await;
    assert_eq!(p.list(&never_saw_it.revision).await.machines, []);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_delete_is_told_also_if_the_machine_is_hidden_between_two_pages() {
    let (backend, p) = provider(2).await;
    p.idle("m-0").await;
    let mut cursor = p.list(&[]).await.revision;
    p.delete("m-0", None).await.unwrap();
    p.reach("m-0", Speculative).await;
    p.idle("m-1").await;
    // Its last change is later now than the first page gets.
    let offer = || Slot::new("m-0", profile().price_per_hour(9.0));
    *backend.slots.lock().unwrap() = Ok(vec![offer()]);
    next_look().await;
    let mut pages = Vec::new();
    for withheld in [false, true, true] {
        if withheld {
            *backend.slots.lock().unwrap() = Ok(vec![offer().withheld("full")]);
            next_look().await;
        }
        let filter = ListFilter {
            max_results: 1,
            since_revision: cursor,
            ..Default::default()
        };
        let page = p.list_with(filter).await;
        cursor = page.revision;
        pages.push(page.machines.into_iter().map(|machine| machine.id).collect::<Vec<_>>());
    }
    assert_eq!(pages, [vec!["m-1".to_owned()], vec!["m-0".to_owned()], vec![]]);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_was_under_way_when_a_delete_ended_withholds_nothing() {
    let (backend, p) = provider(1).await;
    p.idle("m-0").await;
    backend.offer(&[("m-0", FULL)]);
    backend.hold_looks(true);
    backend.wait_look().await;
    p.delete("m-0", None).await.unwrap();
    p.reach("m-0", Speculative).await;
    backend.hold_looks(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(p.ids().await, ["m-0"], "what it saw was the machine itself");
    next_look().await;
    assert_eq!(p.ids().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_id_of_a_withheld_slot_is_hidden_from_the_start() {
    let (backend, p) = provider(2).await;
    backend.act(Step::Do(Transition::Create), Act::Fail("no space"));
    p.create("m-0", None).await.unwrap();
    p.reach("m-0", Failed).await;
    backend.act(Step::Do(Transition::Create), Act::Succeed);
    p.idle("m-1").await;
    let made = backend.asked(Step::Do(Transition::Create)).len();
    backend.offer(&[("m-0", FULL), ("m-1", FULL)]);
    next_look().await;
    let before = p.list(&[]).await;
    assert_eq!(before.machines.len(), 2, "FAILED and IDLE are shown as ever");
    let lost = Slot::new("m-1", profile()).lost(host("m-1", made), "gone");
    let both = vec![
        Slot::new("m-0", profile()).withheld("full"),
        lost.withheld("host is down"),
    ];
    *backend.slots.lock().unwrap() = Ok(both);
    p.reach_listed("m-0-r2").await;
    p.reach_listed("m-1-r2").await;
    let after = p.list(&[]).await;
    assert_eq!((&after.machines, after.revision), (&vec![], before.revision.clone()));
    refused(
        p.create("m-1-r2", None).await,
        Code::ResourceExhausted,
        &["host is down"],
    );

    backend.offer(&[("m-0", None), ("m-1", None)]);
    next_look().await;
    let delta = p.list(&before.revision).await;
    let ids: Vec<_> = delta.machines.iter().map(|machine| &*machine.id).collect();
    assert_eq!(ids, ["m-0-r2", "m-1-r2"]);
}

/// Keeps the gauges of withheld slots.
#[derive(Default)]
struct Gauges(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Gauges {
    fn withheld(&self, p: &Provider) -> BTreeMap<String, f64> {
        metrics::with_local_recorder(self, || p.engine.record_gauges());
        let gauges = self.0.lock().unwrap();
        let value = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
        gauges.iter().map(|(zone, bits)| (zone.clone(), value(bits))).collect()
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        if key.name() != metric::SLOTS_WITHHELD {
            return Gauge::noop();
        }
        let labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let mut gauges = self.0.lock().unwrap();
        Gauge::from_arc(Arc::clone(gauges.entry(labels.join(",")).or_default()))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn withheld_slots_are_counted_by_zone_and_back_to_zero() {
    let in_zone = |name: &str, zone: &str| {
        let mut profile = profile();
        profile.zone = zone.to_owned();
        Slot::new(name, profile)
    };
    let offer = |withheld: bool| {
        let slots = [("m-0", "a"), ("m-1", "a"), ("m-2", "b")].map(|(name, zone)| {
            let slot = in_zone(name, zone);
            if withheld { slot.withheld("full") } else { slot }
        });
        Ok(slots.into())
    };
    let backend = Arc::new(Scripted::new(0));
    *backend.slots.lock().unwrap() = offer(false);
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    let gauges = Gauges::default();
    let zones = |a, b| [("zone=a".to_owned(), a), ("zone=b".to_owned(), b)].into();
    assert_eq!(gauges.withheld(&p), zones(0.0, 0.0), "shown from the start");
    p.idle("m-0").await;
    *backend.slots.lock().unwrap() = offer(true);
    next_look().await;
    assert_eq!(
        gauges.withheld(&p),
        zones(1.0, 1.0),
        "a machine that is IDLE is not hidden"
    );
    *backend.slots.lock().unwrap() = offer(false);
    next_look().await;
    assert_eq!(gauges.withheld(&p), zones(0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn what_is_offered_may_change_while_it_is_withheld() {
    let (backend, p) = provider(1).await;
    let before = p.list(&[]).await.revision;
    let dearer = || Slot::new("m-0", profile().price_per_hour(9.0));
    *backend.slots.lock().unwrap() = Ok(vec![dearer().withheld("full")]);
    next_look().await;
    let machine = p.get("m-0").await.unwrap();
    assert!((machine.price_per_hour - 9.0).abs() < f64::EPSILON);
    assert_eq!(p.list(&before).await.machines, []);
    *backend.slots.lock().unwrap() = Ok(vec![dearer()]);
    next_look().await;
    assert_eq!(p.list(&before).await.machines, [machine]);
}

/// One slot is deleted and withheld, one new and withheld, one offered; then a start without a substrate.
async fn kept_over_a_restart<S: Store>(open: impl Fn() -> S) {
    let backend = Arc::new(Scripted::new(3));
    backend.offer(&[("m-0", None), ("m-1", FULL), ("m-2", None)]);
    let p = Provider::start(open(), Arc::clone(&backend)).await;
    assert_eq!(p.ids().await, ["m-0", "m-2"], "withheld when it was added");
    p.idle("m-0").await;
    let idle = p.list(&[]).await;
    p.delete("m-0", None).await.unwrap();
    p.reach("m-0", Speculative).await;
    p.stop().await;
    backend.offer(&[("m-0", FULL), ("m-1", FULL), ("m-2", None)]);
    let p = Provider::start(open(), Arc::clone(&backend)).await;
    let looked = async {
        while p.engine.summary().withheld < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.unwrap();
    let before = p.list(&[]).await;
    p.stop().await;

    *backend.slots.lock().unwrap() = Err("the host is down");
    let p = Provider::start(open(), Arc::clone(&backend)).await;
    assert_eq!(p.ids().await, ["m-2"]);
    assert_eq!(p.list(&before.revision).await.machines, []);
    let delta = p.list(&idle.revision).await.machines;
    assert_eq!((&*delta[0].id, delta.len(), delta[0].state()), ("m-0", 1, Speculative));
    for id in ["m-0", "m-1"] {
        refused(
            p.create(id, None).await,
            Code::ResourceExhausted,
            &["rack-1 has 3 left"],
        );
    }
    p.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_shows_nothing_that_cannot_be_created() {
    let store = Memory::default();
    kept_over_a_restart(|| store.clone()).await;
}

#[tokio::test]
async fn a_restart_on_a_real_file_shows_nothing_that_cannot_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("state");
    kept_over_a_restart(|| Sqlite::open(path).unwrap()).await;
}
