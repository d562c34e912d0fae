//! Certificates that are renewed while calls come in.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::{metrics::started, scrape};
use crate::{
    harness::{AWAIT, eventually},
    tls::Authority,
};

/// How many callers keep their connection, and how many open one for each call.
const STEADY: usize = 4;
const COMING: usize = 4;
const RENEWALS: i32 = 3;

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
            let name = "bigfleet_libvirt_tls_certificate_not_after_timestamp_seconds";
            scrape::value(&text, name, &[("listener", "grpc")]) == Some(expires)
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
