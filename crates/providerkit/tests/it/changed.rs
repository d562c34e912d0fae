//! Looks that the backend asks for, and looks that nobody does.

use std::{sync::Arc, time::Duration};

use providerkit::{Options, store::Memory};
use tokio::time::{Instant, sleep};

use crate::{
    client::{Provider, options},
    scripted::Scripted,
};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Only looks that are asked for.
fn never() -> Options {
    let mut options = options();
    options.reconcile_interval = Duration::ZERO;
    options
}

async fn listed(p: &Provider, id: &str) {
    while p.get(id).await.is_err() {
        sleep(MILLISECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_looked_at_at_once() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start(Memory::default(), Arc::clone(&backend)).await;
    sleep(Duration::from_secs(10)).await;
    let begun = Instant::now();
    backend.offer(&[("m-0", None), ("m-new", None)]);
    backend.change();
    listed(&p, "m-new").await;
    assert!(begun.elapsed() < 20 * MILLISECOND, "{:?}", begun.elapsed());
    // The next one at its interval from there.
    sleep(Duration::from_secs(119)).await;
    assert_eq!(backend.looks().len(), 2);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(backend.looks().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_restless_substrate_is_looked_at_every_100_milliseconds_and_its_last_word_is_heard() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start_with(never(), Memory::default(), Arc::clone(&backend)).await;
    for _ in 0..200 {
        backend.change();
        sleep(5 * MILLISECOND).await;
    }
    backend.offer(&[("m-0", None), ("m-last", None)]);
    backend.change();
    listed(&p, "m-last").await;
    let looks = backend.looks();
    assert!((10..=12).contains(&looks.len()), "{} looks in a second", looks.len());
    for pair in looks.windows(2) {
        assert!(pair[1] - pair[0] >= 100 * MILLISECOND, "{:?}", pair[1] - pair[0]);
    }
    sleep(Duration::from_secs(3600)).await;
    assert!(backend.looks().len() <= looks.len() + 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_look_leads_to_another() {
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start_with(never(), Memory::default(), Arc::clone(&backend)).await;
    backend.hold_looks(true);
    backend.change();
    backend.wait_look().await;
    // What this look answers is decided already.
    backend.offer(&[("m-0", None), ("m-new", None)]);
    backend.change();
    sleep(Duration::from_secs(10)).await;
    backend.hold_looks(false);
    listed(&p, "m-new").await;
    assert_eq!(backend.looks().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_only_a_change_leads_to_a_look() {
    let store = Memory::default();
    let backend = Arc::new(Scripted::new(1));
    let p = Provider::start_with(never(), store.clone(), Arc::clone(&backend)).await;
    assert_eq!(p.ids().await, ["m-0"], "a fresh state is filled");
    sleep(Duration::from_secs(100_000)).await;
    assert_eq!(backend.looks().len(), 1);
    p.stop().await;

    let p = Provider::start_with(never(), store, Arc::clone(&backend)).await;
    sleep(Duration::from_secs(100_000)).await;
    assert_eq!(backend.looks().len(), 1, "the store wins");
    backend.offer(&[("m-0", None), ("m-new", None)]);
    backend.change();
    listed(&p, "m-new").await;
    sleep(Duration::from_secs(100_000)).await;
    assert_eq!(backend.looks().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_failed_is_tried_again_without_an_interval_too() {
    let backend = Arc::new(Scripted::new(0));
    *backend.slots.lock().unwrap() = Err("the host is down");
    let p = Provider::start_with(never(), Memory::default(), Arc::clone(&backend)).await;
    sleep(Duration::from_secs(60)).await;
    let looks = backend.looks().len();
    assert!((12..=14).contains(&looks), "{looks} looks in a minute");
    backend.offer(&[("m-0", None)]);
    listed(&p, "m-0").await;

    *backend.slots.lock().unwrap() = Err("the host is down");
    backend.change();
    backend.wait_look().await;
    // The change was told once; nobody tells it again.
    backend.offer(&[("m-0", None), ("m-new", None)]);
    let begun = Instant::now();
    listed(&p, "m-new").await;
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    let looks = backend.looks().len();
    sleep(Duration::from_secs(100_000)).await;
    assert_eq!(backend.looks().len(), looks);
}

#[tokio::test(start_paused = true)]
async fn withheld_slots_follow_the_substrate_at_once() {
    let backend = Arc::new(Scripted::new(2));
    let p = Provider::start_with(never(), Memory::default(), Arc::clone(&backend)).await;
    let cursor = p.list(&[]).await.revision;
    for round in 0..5 {
        backend.offer(&[("m-0", Some("full")), ("m-1", None)]);
        backend.change();
        while p.ids().await != ["m-1"] {
            sleep(MILLISECOND).await;
        }
        backend.offer(&[("m-0", None), ("m-1", None)]);
        backend.change();
        while p.ids().await.len() != 2 {
            sleep(MILLISECOND).await;
        }
        assert_eq!(backend.looks().len(), 3 + 2 * round);
    }
    let delta = p.list(&cursor).await.machines;
    assert_eq!(delta.iter().map(|machine| &*machine.id).collect::<Vec<_>>(), ["m-0"]);
}
