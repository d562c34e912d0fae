//! Our client subscribed to what a connection of its own causes as fast as it can.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use libvirt_rpc::{
    Connection, Options,
    event::{Interruption, Subscription, domain::Lifecycle},
    wire::{constant::domain::DomainCreateFlags, remote::record::DomainRef},
};
use tokio::{sync::watch, task::JoinSet};

use crate::sample::{Clock, Sample};

/// Domains that are paused and resumed side by side.
const DOMAINS: usize = 3;
/// How long after the last cause the last event may come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Counts what all subscribers got; the note says what they missed.
pub(super) async fn measure(uri: &str, subscribers: usize, milliseconds: u64) -> Result<Sample> {
    let open = || Connection::open_with(uri, Options::new().without_keepalive());
    let causing = open().await?;
    let mut domains = Vec::new();
    for number in 0..DOMAINS {
        let xml = format!(
            "<domain type='test'><name>flood-{number}</name><memory>8192</memory><os><type>hvm</type></os></domain>"
        );
        domains.push(causing.domain_create_xml(&xml, DomainCreateFlags::empty()).await?);
    }
    let (tell, told) = watch::channel(None);
    let mut counting = JoinSet::new();
    for _ in 0..subscribers {
        // Each on a connection of its own: daemons refuse a second subscription to the same on one.
        let subscription = open().await?.subscribe::<Lifecycle>(None).await?;
        counting.spawn(count(subscription, told.clone()));
    }
    let clock = Clock::start();
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let mut causes = JoinSet::new();
    let causing = Arc::new(causing);
    for domain in &domains {
        causes.spawn(cause(Arc::clone(&causing), domain.clone(), end));
    }
    let mut caused = 0;
    while let Some(task) = causes.join_next().await {
        caused += task.context("a causing task panicked")??;
    }
    tell.send_replace(Some(caused));
    let (mut delivered, mut missed) = (0, 0);
    let all = async {
        while let Some(task) = counting.join_next().await {
            let (got, lagged) = task.context("a subscriber panicked")??;
            delivered += got;
            missed += lagged;
        }
        anyhow::Ok(())
    };
    let last = tokio::time::timeout(PATIENCE, all).await;
    last.context("events are missing that nobody said were missed")??;
    let sample = clock.stop(delivered);
    for domain in &domains {
        causing.domain_destroy(domain, Default::default()).await?;
    }
    Ok(Sample {
        note: missed.to_string(),
        ..sample
    })
}

/// Every call is one event.
async fn cause(connection: Arc<Connection>, domain: DomainRef, end: Instant) -> Result<u64> {
    let mut calls = 0;
    while Instant::now() < end {
        connection.domain_suspend(&domain).await?;
        connection.domain_resume(&domain).await?;
        calls += 2;
    }
    Ok(calls)
}

/// Takes events until all that were caused are there or known to be missed.
async fn count(mut events: Subscription<Lifecycle>, mut caused: watch::Receiver<Option<u64>>) -> Result<(u64, u64)> {
    let (mut got, mut missed) = (0, 0);
    loop {
        let total = *caused.borrow_and_update();
        if total.is_some_and(|total| got + missed >= total) {
            return Ok((got, missed));
        }
        tokio::select! {
            event = events.next() => match event {
                Ok(_) => got += 1,
                Err(Interruption::Lagged(count)) => missed += count,
                Err(end) => return Err(end.into()),
            },
            told = caused.changed(), if total.is_none() => told.context("the causes are gone")?,
        }
    }
}
