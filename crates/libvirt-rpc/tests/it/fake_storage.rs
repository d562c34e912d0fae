//! The daemon in memory: its pools and volumes.

use libvirt_rpc::{
    Connection,
    event::storage_pool,
    fake::Daemon,
    wire::{
        constant::{
            error::ErrorNumber,
            storage::{StorageVolResizeFlags as Resize, StorageVolWipeAlgorithm},
        },
        remote::record::{StoragePoolRef, StorageVolRef},
    },
};

use crate::support::{define, pattern, soon};

async fn pool(c: &Connection) -> StoragePoolRef {
    c.storage_pool_lookup_by_name("default").await.unwrap()
}

async fn overlay(c: &Connection, name: &str, of: &str) -> Result<StorageVolRef, libvirt_rpc::Error> {
    let xml = format!(
        "<volume><name>{name}</name><capacity unit='GiB'>2</capacity><target><format type='qcow2'/></target>\
         <backingStore><path>{of}</path><format type='qcow2'/></backingStore></volume>"
    );
    c.volume_create(&pool(c).await, &xml, Default::default()).await
}

#[tokio::test]
async fn an_overlay_begins_with_the_files_of_its_base_and_takes_little() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let missing = overlay(&c, "web.qcow2", "/var/lib/libvirt/images/base.qcow2")
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("No such file or directory"), "{missing}");
    let xml = "<volume><name>base.qcow2</name><capacity unit='GiB'>1</capacity><target><format type='qcow2'/></target></volume>";
    let base = c.volume_create(&pool(&c).await, xml, Default::default()).await.unwrap();
    let again = c
        .volume_create(&pool(&c).await, xml, Default::default())
        .await
        .unwrap_err();
    assert_eq!(again.code(), Some(ErrorNumber::ERR_STORAGE_VOL_EXIST));
    assert!(again.to_string().contains("'base.qcow2' exists already"), "{again}");

    let path = c.volume_path(&base).await.unwrap();
    let web = overlay(&c, "web.qcow2", &path).await.unwrap();
    let info = c.volume_info(&web).await.unwrap();
    assert_eq!((info.capacity, info.allocation), (2 << 30, 200_704));
    let described = c.volume_xml(&web).await.unwrap();
    assert!(
        described.contains(&format!("<backingStore><path>{path}</path><format type='qcow2'/>")),
        "{described}"
    );

    let xml = "<domain type='kvm'><name>web</name><memory>1024</memory><devices><disk type='file'>\
        <source file='/var/lib/libvirt/images/web.qcow2'/><target dev='vda'/></disk></devices></domain>";
    let domain = c.domain_define(xml, Default::default()).await.unwrap();
    let domain = c.domain_create(&domain, Default::default()).await.unwrap();
    daemon
        .with_files("web", |files| files.write("/etc/joined", "cluster"))
        .unwrap();
    c.domain_destroy(&domain, Default::default()).await.unwrap();
    c.domain_create(&domain, Default::default()).await.unwrap();
    assert!(
        daemon.files("web").unwrap().text("/etc/joined").is_some(),
        "a disk outlives a stop"
    );
    c.domain_destroy(&domain, Default::default()).await.unwrap();
    c.volume_delete(&web, Default::default()).await.unwrap();
    let started = c.domain_create(&domain, Default::default()).await.unwrap_err();
    assert!(started.to_string().contains("Cannot access storage file"), "{started}");
    overlay(&c, "web.qcow2", &path).await.unwrap();
    c.domain_create(&domain, Default::default()).await.unwrap();
    assert!(
        daemon.files("web").unwrap().text("/etc/joined").is_none(),
        "a new disk is new"
    );
}

#[tokio::test]
async fn a_pool_counts_and_is_full_at_its_end() {
    let daemon = Daemon::new();
    assert!(daemon.resize_pool("default", 10 << 20) && !daemon.resize_pool("nosuch", 1));
    let c = daemon.connect().await.unwrap();
    let pool = pool(&c).await;
    let raw = |name: &str, allocation: u64| {
        format!(
            "<volume><name>{name}</name><capacity unit='MiB'>6</capacity><allocation>{allocation}</allocation></volume>"
        )
    };
    let first = c
        .volume_create(&pool, &raw("a", 6 << 20), Default::default())
        .await
        .unwrap();
    let full = c
        .volume_create(&pool, &raw("b", 6 << 20), Default::default())
        .await
        .unwrap_err();
    assert_eq!(
        full.daemon().unwrap().os_error().unwrap().raw_os_error(),
        Some(28),
        "{full}"
    );
    let thin = c.volume_create(&pool, &raw("b", 0), Default::default()).await.unwrap();
    let error = soon(c.volume_upload(&thin, &pattern(6 << 20)[..], None))
        .await
        .unwrap_err();
    assert_eq!(
        error.daemon().unwrap().os_error().unwrap().raw_os_error(),
        Some(28),
        "{error}"
    );
    c.volume_delete(&first, Default::default()).await.unwrap();
    let mut refreshed = c.subscribe::<storage_pool::Refresh>(None).await.unwrap();
    assert_eq!(
        soon(c.volume_upload(&thin, &pattern(6 << 20)[..], None)).await.unwrap(),
        6 << 20
    );
    soon(refreshed.next()).await.unwrap();
    let info = c.storage_pool_info(&pool).await.unwrap();
    assert_eq!(
        (info.capacity, info.allocation, info.available),
        (10 << 20, 6 << 20, 4 << 20)
    );
    let xml = c.storage_pool_xml(&pool, Default::default()).await.unwrap();
    assert!(xml.contains("<available unit='bytes'>4194304</available>"), "{xml}");
    assert!(daemon.fill_pool("default", 4 << 20));
    let grown = c.volume_resize(&thin, 7 << 20, Resize::ALLOCATE).await.unwrap_err();
    assert!(grown.to_string().contains("No space left"), "{grown}");
    c.volume_delete(&thin, Default::default()).await.unwrap();
    assert_eq!(c.storage_pool_info(&pool).await.unwrap().allocation, 4 << 20);
    c.storage_pool_refresh(&pool).await.unwrap();
    soon(refreshed.next()).await.unwrap();
}

#[tokio::test]
async fn volumes_grow_shrink_are_cloned_and_wiped() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let pool = pool(&c).await;
    let xml = "<volume><name>a</name><capacity>1000</capacity></volume>";
    let vol = c.volume_create(&pool, xml, Default::default()).await.unwrap();
    c.volume_upload(&vol, &pattern(1000)[..], Some(1000)).await.unwrap();
    let shrunk = c.volume_resize(&vol, 500, Resize::empty()).await.unwrap_err();
    assert_eq!(shrunk.code(), Some(ErrorNumber::ERR_INVALID_ARG), "{shrunk}");
    c.volume_resize(&vol, 1000, Resize::DELTA).await.unwrap();
    assert_eq!(c.volume_info(&vol).await.unwrap().capacity, 2000);
    let clone = "<volume><name>b</name><capacity>0</capacity></volume>";
    let clone = c.volume_clone(&pool, clone, &vol, Default::default()).await.unwrap();
    assert_eq!(c.volume_info(&clone).await.unwrap().capacity, 2000);
    c.volume_wipe(&vol, StorageVolWipeAlgorithm::ZERO).await.unwrap();
    assert_eq!(daemon.volume_content("default", "a").unwrap(), vec![0; 1000]);
    assert_eq!(
        daemon.volume_content("default", "b").unwrap(),
        pattern(1000),
        "a clone is on its own"
    );
    assert!(
        c.volume_lookup_by_name(&pool, "nosuch")
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert_eq!(
        c.volume_lookup_by_key("/var/lib/libvirt/images/b").await.unwrap(),
        clone
    );
}

#[tokio::test]
async fn an_uploaded_image_is_known_by_its_head() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let xml = "<volume><name>base</name><capacity>4096</capacity><target><format type='qcow2'/></target></volume>";
    let vol = c.volume_create(&pool(&c).await, xml, Default::default()).await.unwrap();
    let mut image = vec![0; 4096];
    image[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    image[24..32].copy_from_slice(&(3_u64 << 30).to_be_bytes());
    c.volume_upload(&vol, &image[..], Some(4096)).await.unwrap();
    assert_eq!(c.volume_info(&vol).await.unwrap().capacity, 3 << 30);
}

#[tokio::test]
async fn what_is_stopped_gives_nothing() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let pool = pool(&c).await;
    let active = c.storage_pool_undefine(&pool).await.unwrap_err();
    assert!(active.to_string().contains("still active"), "{active}");
    c.storage_pool_destroy(&pool).await.unwrap();
    let stopped = c.storage_pool_volumes(&pool).await.unwrap_err();
    assert!(
        stopped.to_string().contains("storage pool 'default' is not active"),
        "{stopped}"
    );
    c.storage_pool_undefine(&pool).await.unwrap();
    assert!(
        c.storage_pool_lookup_by_name("default")
            .await
            .unwrap_err()
            .is_not_found()
    );
    let net = c.network_lookup_by_name("default").await.unwrap();
    c.network_destroy(&net).await.unwrap();
    let xml = "<domain type='kvm'><name>n</name><memory>1024</memory><devices>\
        <interface type='network'><source network='default'/></interface></devices></domain>";
    let unstarted = c.domain_create_xml(xml, Default::default()).await.unwrap_err();
    assert!(
        unstarted.to_string().contains("network 'default' is not active"),
        "{unstarted}"
    );
    define(&c, "n").await;
}
