//! Our client making one call over and over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libvirt_rpc::{
    Connection, Options,
    wire::{
        constant::domain::{ConnectListAllDomainsFlags, DomainXMLFlags},
        remote::record::DomainRef,
    },
};
use tokio::task::JoinSet;

use super::Call;
use crate::sample::{Clock, Sample};

/// `depth` callers on one connection, each making the next call when it has the answer to the last.
pub(super) async fn measure(uri: &str, call: Call, depth: usize, milliseconds: u64) -> Result<Sample> {
    // More than the window would only queue here, and a daemon's own limit is one above the default.
    let options = Options::new().without_keepalive().window(depth.max(4));
    let connection = Connection::open_with(uri, options).await?;
    // The fake has no domain, and is not asked for one.
    let domain = match call {
        Call::LibVersion => None,
        _ => Some(connection.domain_lookup_by_name("test").await?),
    };
    let length = Duration::from_millis(milliseconds);
    round(&connection, call, domain.as_ref(), depth, length / 5).await?;
    let clock = Clock::start();
    let count = round(&connection, call, domain.as_ref(), depth, length).await?;
    let sample = clock.stop(count);
    connection.close().await;
    Ok(sample)
}

async fn round(
    connection: &Connection,
    call: Call,
    domain: Option<&DomainRef>,
    depth: usize,
    length: Duration,
) -> Result<u64> {
    let end = Instant::now() + length;
    let mut callers = JoinSet::new();
    for _ in 0..depth {
        callers.spawn(until(connection.clone(), call, domain.cloned(), end));
    }
    let mut count = 0;
    while let Some(caller) = callers.join_next().await {
        count += caller.context("a caller panicked")??;
    }
    Ok(count)
}

async fn until(connection: Connection, call: Call, domain: Option<DomainRef>, end: Instant) -> Result<u64> {
    let mut count = 0;
    loop {
        match (call, &domain) {
            (Call::LibVersion, _) => {
                connection.library_version().await?;
            }
            (Call::List, _) => {
                let all = connection.domains(ConnectListAllDomainsFlags::empty()).await?;
                ensure!(!all.is_empty(), "there is no domain");
            }
            (Call::Lookup, Some(domain)) => {
                connection.domain_lookup_by_uuid(domain.uuid).await?;
            }
            (Call::Xml, Some(domain)) => {
                connection.domain_xml(domain, DomainXMLFlags::empty()).await?;
            }
            (Call::Lookup | Call::Xml, None) => anyhow::bail!("{} needs a domain", call.name()),
        }
        count += 1;
        if Instant::now() >= end {
            return Ok(count);
        }
    }
}
