//! Real libvirtd: pools and volumes. What the daemon in memory has too is asked of both.

use libvirt_rpc::{
    Connection, Options,
    event::storage_pool,
    fake::Daemon,
    wire::constant::{
        error::ErrorNumber,
        storage::{StoragePoolState, StorageVolResizeFlags as Resize, StorageVolWipeAlgorithm},
    },
};

use crate::{
    libvirtd::Libvirtd,
    support::{pattern, soon},
};

const POOL: &str = "<pool type='dir'><name>lab</name><target><path>/var/lib/libvirt/images/lab</path></target></pool>";

async fn pools_live(c: &Connection) {
    let mut told = c.subscribe::<storage_pool::Lifecycle>(None).await.unwrap();
    let pool = c.storage_pool_define(POOL).await.unwrap();
    assert_eq!(c.storage_pool_lookup_by_uuid(pool.uuid).await.unwrap(), pool);
    c.storage_pool_build(&pool, Default::default()).await.unwrap();
    assert!(!c.storage_pool_is_active(&pool).await.unwrap());
    let stopped = c.storage_pool_volumes(&pool).await.unwrap_err();
    assert_eq!(stopped.code(), Some(ErrorNumber::ERR_OPERATION_INVALID), "{stopped}");
    assert!(
        stopped.to_string().contains("storage pool 'lab' is not active"),
        "{stopped}"
    );
    c.storage_pool_create(&pool, Default::default()).await.unwrap();
    assert!(c.storage_pool_is_active(&pool).await.unwrap());
    let info = c.storage_pool_info(&pool).await.unwrap();
    assert_eq!(info.state, StoragePoolState::RUNNING);
    assert!(info.available > 0 && info.capacity >= info.available, "{info:?}");
    c.storage_pool_set_autostart(&pool, true).await.unwrap();
    assert!(c.storage_pool_autostart(&pool).await.unwrap());
    c.storage_pool_refresh(&pool).await.unwrap();
    let xml = c.storage_pool_xml(&pool, Default::default()).await.unwrap();
    assert!(xml.contains("<available unit='bytes'>"), "{xml}");
    let active = c.storage_pool_undefine(&pool).await.unwrap_err();
    assert_eq!(active.code(), Some(ErrorNumber::ERR_OPERATION_INVALID), "{active}");
    volumes_live(c, &pool).await;
    c.storage_pool_destroy(&pool).await.unwrap();
    c.storage_pool_delete(&pool, Default::default()).await.unwrap();
    c.storage_pool_undefine(&pool).await.unwrap();
    assert!(c.storage_pool_lookup_by_name("lab").await.unwrap_err().is_not_found());
    let mut events = Vec::new();
    // Defined, created, started, stopped, deleted, undefined: of these both tell at least those.
    while !events.contains(&1) {
        events.push(soon(told.next()).await.unwrap().event);
    }
    let common: Vec<_> = events
        .into_iter()
        .filter(|event| [0, 1, 2, 3].contains(event))
        .collect();
    assert_eq!(common, [0, 2, 3, 1]);
}

async fn volumes_live(c: &Connection, pool: &libvirt_rpc::wire::remote::record::StoragePoolRef) {
    let xml = |name: &str| {
        format!("<volume><name>{name}</name><capacity>65536</capacity><allocation>0</allocation></volume>")
    };
    let vol = c.volume_create(pool, &xml("a"), Default::default()).await.unwrap();
    let twice = c.volume_create(pool, &xml("a"), Default::default()).await.unwrap_err();
    assert_eq!(twice.code(), Some(ErrorNumber::ERR_STORAGE_VOL_EXIST), "{twice}");
    assert!(
        twice.to_string().contains("storage volume 'a' exists already"),
        "{twice}"
    );
    assert_eq!(c.volume_lookup_by_name(pool, "a").await.unwrap(), vol);
    assert_eq!(
        c.volume_lookup_by_key("/var/lib/libvirt/images/lab/a").await.unwrap(),
        vol
    );
    assert_eq!(c.storage_pool_lookup_by_volume(&vol).await.unwrap(), *pool);
    let described = c.volume_xml(&vol).await.unwrap();
    assert!(
        described.contains("<key>/var/lib/libvirt/images/lab/a</key>"),
        "{described}"
    );
    let data = pattern(65536);
    let mut upload = c.volume_open_upload(&vol, 0, 65536, Default::default()).await.unwrap();
    upload.send(data.clone().into()).await.unwrap();
    soon(upload.finish()).await.unwrap();
    let shrunk = c.volume_resize(&vol, 512, Resize::empty()).await.unwrap_err();
    assert_eq!(shrunk.code(), Some(ErrorNumber::ERR_INVALID_ARG), "{shrunk}");
    c.volume_resize(&vol, 131_072, Resize::empty()).await.unwrap();
    assert_eq!(c.volume_info(&vol).await.unwrap().capacity, 131_072);
    let clone = c.volume_clone(pool, &xml("b"), &vol, Default::default()).await.unwrap();
    c.volume_wipe(&vol, StorageVolWipeAlgorithm::ZERO).await.unwrap();
    let mut wiped = Vec::new();
    soon(c.volume_download(&vol, &mut wiped)).await.unwrap();
    assert!(wiped.iter().all(|byte| *byte == 0));
    let mut kept = Vec::new();
    soon(c.volume_download(&clone, &mut kept)).await.unwrap();
    assert!(kept.starts_with(&data));
    let overlay = "<volume><name>o.qcow2</name><capacity>131072</capacity><target><format type='qcow2'/></target>\
        <backingStore><path>/var/lib/libvirt/images/lab/b</path><format type='raw'/></backingStore></volume>";
    let overlay = c.volume_create(pool, overlay, Default::default()).await.unwrap();
    let described = c.volume_xml(&overlay).await.unwrap();
    let squeezed: String = described.split_whitespace().collect();
    assert!(
        squeezed.contains("<backingStore><path>/var/lib/libvirt/images/lab/b</path>"),
        "{described}"
    );
    let vast = xml("vast").replace(
        "<capacity>65536</capacity><allocation>0</allocation>",
        "<capacity unit='TiB'>900</capacity>",
    );
    let vast = c.volume_create(pool, &vast, Default::default()).await.unwrap_err();
    assert_eq!(vast.code(), Some(ErrorNumber::ERR_SYSTEM_ERROR), "{vast}");
    for vol in [vol, clone, overlay] {
        c.volume_delete(&vol, Default::default()).await.unwrap();
    }
    let gone = c.volume_lookup_by_name(pool, "a").await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

#[tokio::test]
async fn pools_and_volumes_live_the_same_in_memory_and_for_real() {
    pools_live(&Daemon::new().connect().await.unwrap()).await;
    if let Some(daemon) = Libvirtd::start("real-storage").await {
        let options = Options::new().deadline(std::time::Duration::from_secs(120));
        let c = soon(Connection::open_with(&daemon.uri("qemu", "/system"), options))
            .await
            .unwrap();
        pools_live(&c).await;
    }
}
