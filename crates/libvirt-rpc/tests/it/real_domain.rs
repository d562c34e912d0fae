//! Real libvirtd: what is done to domains. What the daemon in memory has too is asked of both.

use std::time::Duration;

use libvirt_rpc::{
    Connection, Error, Options,
    fake::Daemon,
    wire::constant::{
        domain::{
            DomainCreateFlags, DomainDeviceModifyFlags, DomainInterfaceAddressesSource, DomainMemoryModFlags,
            DomainShutoffReason, DomainState, DomainUndefineFlags as Undefine, DomainVcpuFlags,
        },
        error::ErrorNumber,
    },
};

use crate::{libvirtd::Libvirtd, support::soon};

const DOMAIN: &str = "<domain type='test'><name>web</name><memory>65536</memory><vcpu current='1'>2</vcpu>\
    <os><type>hvm</type></os></domain>";

fn is_invalid(refused: &Error, says: &str) {
    assert_eq!(refused.code(), Some(ErrorNumber::ERR_OPERATION_INVALID), "{refused}");
    assert!(refused.to_string().contains(says), "{refused}");
}

/// What is saved, and what keeps a domain from being forgotten.
async fn domains_are_saved(c: &Connection) {
    // A snapshot wants something to be one of.
    let pool = "<pool type='dir'><name>default</name><target><path>/var/lib/libvirt/images</path></target></pool>";
    let pool = match c.storage_pool_lookup_by_name("default").await {
        Ok(pool) => pool,
        Err(_) => c.storage_pool_create_xml(pool, Default::default()).await.unwrap(),
    };
    let disk = "<volume><name>web.qcow2</name><capacity unit='MiB'>1</capacity><target><format type='qcow2'/></target></volume>";
    c.volume_create(&pool, disk, Default::default()).await.unwrap();
    let disk = "<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/>\
        <source file='/var/lib/libvirt/images/web.qcow2'/><target dev='vda' bus='virtio'/></disk></devices></domain>";
    let xml = DOMAIN.replace("'test'", "'qemu'").replace("</domain>", disk);
    let domain = c.domain_define(&xml, Default::default()).await.unwrap();
    assert!(!c.domain_is_active(&domain).await.unwrap() && c.domain_is_persistent(&domain).await.unwrap());
    is_invalid(&c.domain_suspend(&domain).await.unwrap_err(), "domain is not running");
    let snapshot = "<domainsnapshot><name>s</name></domainsnapshot>";
    let made = c.snapshot_create(&domain, snapshot, Default::default()).await.unwrap();
    assert_eq!(c.snapshot_current(&domain).await.unwrap(), made);
    assert_eq!(c.snapshot_lookup_by_name(&domain, "s").await.unwrap(), made);
    let refused = c.domain_undefine(&domain, Undefine::empty()).await.unwrap_err();
    is_invalid(&refused, "inactive domain with 1 snapshots");
    let running = c.domain_create(&domain, DomainCreateFlags::empty()).await.unwrap();
    assert!(c.domain_is_active(&running).await.unwrap());
    c.snapshot_revert(&made, Default::default()).await.unwrap();
    assert!(
        !c.domain_is_active(&domain).await.unwrap(),
        "it was off when the snapshot was taken"
    );
    c.snapshot_delete(&made, Default::default()).await.unwrap();
    let gone = c.snapshot_lookup_by_name(&domain, "s").await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorNumber::ERR_NO_DOMAIN_SNAPSHOT), "{gone}");

    assert!(!c.domain_has_managed_save(&domain).await.unwrap());
    let off = c.domain_managed_save(&domain, Default::default()).await.unwrap_err();
    is_invalid(&off, "domain is not running");
    let running = c.domain_create(&domain, DomainCreateFlags::empty()).await.unwrap();
    c.domain_managed_save(&running, Default::default()).await.unwrap();
    assert!(c.domain_has_managed_save(&domain).await.unwrap());
    let status = c.domain_state(&domain).await.unwrap();
    assert_eq!(
        (status.state, status.reason),
        (DomainState::SHUTOFF, DomainShutoffReason::SAVED.0)
    );
    let refused = c.domain_undefine(&domain, Undefine::empty()).await.unwrap_err();
    is_invalid(&refused, "managed save image exists");
    c.domain_managed_save_remove(&domain).await.unwrap();
    assert!(!c.domain_has_managed_save(&domain).await.unwrap());

    let running = c.domain_create(&domain, DomainCreateFlags::empty()).await.unwrap();
    is_invalid(
        &c.domain_create(&running, Default::default()).await.unwrap_err(),
        "already running",
    );
    is_invalid(&c.domain_resume(&running).await.unwrap_err(), "already running");
    // A guest that does not listen is no error.
    c.domain_shutdown(&running, Default::default()).await.unwrap();
    if c.domain_is_active(&domain).await.unwrap() {
        c.domain_destroy(&running, Default::default()).await.unwrap();
    }
    let off = c.domain_destroy(&running, Default::default()).await.unwrap_err();
    is_invalid(&off, "domain is not running");
    c.domain_undefine(&domain, Undefine::empty()).await.unwrap();
    let gone = c.domain_lookup_by_uuid(domain.uuid).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

#[tokio::test]
async fn domains_are_saved_the_same_in_memory_and_for_real() {
    domains_are_saved(&Daemon::new().connect().await.unwrap()).await;
    if let Some(daemon) = Libvirtd::start("real-saved").await {
        // A new daemon asks every emulator what it can do before it starts the first domain.
        let patient = Options::new().deadline(Duration::from_secs(300));
        let c = soon(Connection::open_with(&daemon.uri("qemu", "/system"), patient))
            .await
            .unwrap();
        domains_are_saved(&c).await;
    }
}

/// Only the test driver does all of this without a guest.
#[tokio::test]
async fn the_test_driver_changes_domains_and_asks_guests() {
    let Some(daemon) = Libvirtd::start("real-domain").await else {
        return;
    };
    let c = soon(Connection::open(&daemon.uri("test", "/default"))).await.unwrap();
    let domain = c.domain_define(DOMAIN, Default::default()).await.unwrap();
    c.domain_rename(&domain, "renamed").await.unwrap();
    let domain = c.domain_lookup_by_name("renamed").await.unwrap();
    c.domain_set_memory(&domain, 4096, DomainMemoryModFlags::CONFIG)
        .await
        .unwrap();
    assert_eq!(c.domain_info(&domain).await.unwrap().memory_kib, 4096);
    c.domain_set_vcpus(&domain, 2, DomainVcpuFlags::CONFIG).await.unwrap();
    assert_eq!(c.domain_info(&domain).await.unwrap().vcpus, 2);
    let disk = "<disk type='file' device='disk'><source file='/x'/><target dev='sda' bus='scsi'/></disk>";
    let config = DomainDeviceModifyFlags::CONFIG;
    let attached = c.domain_attach_device(&domain, disk, config).await;
    assert!(attached.is_ok() || attached.unwrap_err().code().is_some());

    let running = c.domain_lookup_by_name("test").await.unwrap();
    let checkpoint = "<domaincheckpoint><name>c</name></domaincheckpoint>";
    let made = c
        .checkpoint_create(&running, checkpoint, Default::default())
        .await
        .unwrap();
    assert_eq!(
        c.checkpoints(&running, Default::default()).await.unwrap(),
        std::slice::from_ref(&made)
    );
    assert_eq!(c.checkpoint_lookup_by_name(&running, "c").await.unwrap(), made);
    assert!(
        c.checkpoint_xml(&made, Default::default())
            .await
            .unwrap()
            .contains("<name>c</name>")
    );
    c.checkpoint_delete(&made, Default::default()).await.unwrap();
    let gone = c.checkpoint_lookup_by_name(&running, "c").await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");

    c.domain_reset(&running).await.unwrap();
    assert!(c.domain_disk_errors(&running).await.is_ok());
    assert!(
        !c.domain_hostname(&running, Default::default())
            .await
            .unwrap()
            .is_empty()
    );
    assert!(c.domain_fs_freeze(&running, &[]).await.unwrap() > 0);
    assert!(c.domain_fs_thaw(&running, &[]).await.unwrap() > 0);
    // libvirt 9.0's has no guest to tell of.
    let info = c.domain_guest_info(&running, Default::default()).await;
    assert!(info.as_ref().is_ok_and(|info| !info.0.is_empty()) || info.unwrap_err().is_unsupported());
    c.domain_set_user_password(&running, "root", "secret", Default::default())
        .await
        .unwrap();
    let addresses = c
        .domain_interface_addresses(&running, DomainInterfaceAddressesSource::LEASE)
        .await;
    assert!(addresses.is_ok(), "{addresses:?}");
}
