//! What the tests share.

use std::{
    future::Future,
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use libvirt_rpc::{
    Connection,
    wire::{constant::domain::DomainDefineFlags, remote::record::DomainRef},
};

/// Whatever takes longer hangs.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The value of a future that must not hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it hangs")
}

/// The same for what an emulated machine does, which on a busy real one takes its time.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(6 * SOON, future).await.expect("it hangs")
}

/// A port nobody has: below those the kernel gives away, and each only once.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id() * 16;
        let port = u16::try_from(20_000 + at % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A defined domain with an agent's channel.
pub(crate) async fn define(connection: &Connection, name: &str) -> DomainRef {
    let xml = format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>128</memory><vcpu>2</vcpu><devices>\
         <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>"
    );
    connection
        .domain_define(&xml, DomainDefineFlags::empty())
        .await
        .unwrap()
}

/// A volume of a size in the pool `default`.
pub(crate) async fn volume(
    connection: &Connection,
    name: &str,
    bytes: usize,
) -> libvirt_rpc::wire::remote::record::StorageVolRef {
    let pool = connection.storage_pool_lookup_by_name("default").await.unwrap();
    let xml = format!("<volume><name>{name}</name><capacity>{bytes}</capacity></volume>");
    connection.volume_create(&pool, &xml, Default::default()).await.unwrap()
}

/// Bytes that are not all the same.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8 | 1).collect()
}
