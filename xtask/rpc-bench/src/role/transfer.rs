//! Our client writing and reading a volume.

use anyhow::{Result, ensure};
use libvirt_rpc::{Connection, Options, wire::remote::record::StorageVolRef};

use super::hash;
use crate::{
    daemon::{POOL, VOLUME},
    sample::{Clock, Sample},
};

async fn open(uri: &str) -> Result<(Connection, StorageVolRef)> {
    let connection = Connection::open_with(uri, Options::new().without_keepalive()).await?;
    let pool = connection.storage_pool_lookup_by_name(POOL).await?;
    let volume = connection.volume_lookup_by_name(&pool, VOLUME).await?;
    Ok((connection, volume))
}

pub(super) async fn upload(uri: &str, bytes: usize, seed: u64) -> Result<Sample> {
    let (connection, volume) = open(uri).await?;
    let data = hash::pattern(bytes, seed);
    let clock = Clock::start();
    let sent = connection.volume_upload(&volume, &data[..], Some(bytes as u64)).await?;
    let sample = clock.stop(sent);
    connection.close().await;
    let note = hash::of(&data[..])?;
    Ok(Sample { note, ..sample })
}

pub(super) async fn download(uri: &str, bytes: usize) -> Result<Sample> {
    let (connection, volume) = open(uri).await?;
    let mut target = touched(bytes);
    target.clear();
    let clock = Clock::start();
    let got = connection.volume_download(&volume, &mut target).await?;
    let sample = clock.stop(got);
    ensure!(got == bytes as u64, "got {got} bytes of {bytes}");
    connection.close().await;
    let note = hash::of(&target[..])?;
    Ok(Sample { note, ..sample })
}

/// Memory that the kernel has handed over already, so that this is not measured.
pub(super) fn touched(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}
