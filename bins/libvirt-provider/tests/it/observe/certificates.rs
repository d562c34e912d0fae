//! Certificates that are renewed while calls come in.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::{
    metrics::{on_a_dead_tls_host, started},
    scrape,
};
use crate::{
    harness::{AWAIT, eventually},
    tls::Authority,
};

/// How many callers keep their connection, and how many open one for each call.
const STEADY: usize = 4;
const COMING: usize = 4;
const RENEWALS: i32 = 3;
const NOT_AFTER: &str = "bigfleet_libvirt_tls_certificate_not_after_timestamp_seconds";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_taken_up_under_load_without_a_dropped_call() {
    let authority = Arc::new(Authority::new());
    let (provider, admin) = started(authority.launch()).await;
    let provider = Arc::new(provider);
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..STEADY + COMING)
        .map(|number| {
            let (authority, provider) = (Arc::clone(&authority), Arc::clone(&provider));
            let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
            tokio::spawn(async move {
                let mut client = authority.connect(&provider, None).await;
                while !stop.load(Ordering::Relaxed) {
                    if number >= STEADY {
                        client = authority.connect(&provider, None).await;
                    }
                    // Fails the test when it is not answered.
                    client.fleet().await;
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for renewal in 1..=RENEWALS {
        let before = calls.load(Ordering::Relaxed);
        let expires = authority.renew(2100 + renewal);
        eventually("the new certificate", AWAIT, async || {
            let text = scrape::body(admin, "/metrics");
            scrape::value(&text, NOT_AFTER, &[("listener", "grpc")]) == Some(expires)
        })
        .await;
        eventually("calls of every kind", AWAIT, async || {
            calls.load(Ordering::Relaxed) > before + 20 * (STEADY + COMING)
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
}

/// A host that lets nobody in with an expired certificate is down for good, so that this is seen before.
#[tokio::test]
async fn until_when_a_hosts_client_certificate_holds_is_shown_and_follows_the_file() {
    let authority = Authority::new();
    let (_provider, admin) = started(on_a_dead_tls_host(&authority)).await;
    for year in [2102, 2103] {
        let expires = authority.renew_client(year);
        eventually("the new certificate", AWAIT, async || {
            let text = scrape::body(admin, "/metrics");
            let labels = [("zone", "rack1"), ("host", "rack1")];
            scrape::value(&text, NOT_AFTER, &labels) == Some(expires)
        })
        .await;
    }
}
