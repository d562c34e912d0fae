//! Real libvirtd.

use libvirt_rpc::{
    Connection, Kind, Options,
    event::domain::Lifecycle,
    wire::constant::{
        domain::{
            ConnectGetAllDomainStatsFlags, ConnectListAllDomainsFlags, DomainCreateFlags, DomainDefineFlags,
            DomainEventType, DomainMetadataType, DomainModificationImpact, DomainState, DomainStatsTypes,
            DomainXMLFlags,
        },
        network::ConnectListAllNetworksFlags,
        nodedev::ConnectListAllNodeDeviceFlags,
        secret::ConnectListAllSecretsFlags,
        storage::ConnectListAllStoragePoolsFlags,
    },
};
use tokio::io::AsyncReadExt as _;

use crate::{
    libvirtd::Libvirtd,
    support::{pattern, soon},
};

async fn open(daemon: &Libvirtd) -> Connection {
    soon(Connection::open(&daemon.uri("test", "/default"))).await.unwrap()
}

#[tokio::test]
async fn the_test_driver_answers_every_sort_of_call() {
    let Some(daemon) = Libvirtd::start("every-sort").await else {
        return;
    };
    let c = open(&daemon).await;
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    assert!(c.library_version().await.unwrap() >= 9_000_000);
    assert_eq!(c.uri().await.unwrap(), "test:///default");
    assert!(c.capabilities().await.unwrap().contains("<capabilities>"));
    assert!(c.hypervisor_version().await.unwrap() > 0);
    assert!(c.is_secure().await.unwrap());
    let node = c.node_info().await.unwrap();
    assert!(!node.model.is_empty() && node.cpus > 0, "{node:?}");
    assert!(c.node_free_memory().await.unwrap() > 0);

    let domain = c.domain_lookup_by_name("test").await.unwrap();
    assert_eq!(c.domain_lookup_by_uuid(domain.uuid).await.unwrap(), domain);
    assert_eq!(c.domain_lookup_by_id(domain.id).await.unwrap(), domain);
    assert_eq!(
        c.domains(ConnectListAllDomainsFlags::empty()).await.unwrap(),
        std::slice::from_ref(&domain)
    );
    assert_eq!(c.domain_state(&domain).await.unwrap().state, DomainState::RUNNING);
    assert_eq!(c.domain_info(&domain).await.unwrap().vcpus, 2);
    assert!(
        c.domain_xml(&domain, DomainXMLFlags::empty())
            .await
            .unwrap()
            .contains("<name>test</name>")
    );
    let stats = c
        .domain_stats(&[], DomainStatsTypes::STATE, ConnectGetAllDomainStatsFlags::empty())
        .await
        .unwrap();
    assert_eq!(stats[0].1.unsigned("state.state"), Some(1));

    let xml = "<domain type='test'><name>mine</name><memory>8192</memory><os><type>hvm</type></os></domain>";
    let mine = c.domain_define(xml, DomainDefineFlags::empty()).await.unwrap();
    let (live, sort) = (DomainModificationImpact::CONFIG, DomainMetadataType::ELEMENT);
    let namespace = Some("https://example.org/mine");
    c.domain_set_metadata(&mine, sort, Some("<owner>me</owner>"), Some("m"), namespace, live)
        .await
        .unwrap();
    assert!(
        c.domain_metadata(&mine, sort, namespace, live)
            .await
            .unwrap()
            .contains("me")
    );
    let missing = c
        .domain_metadata(&mine, sort, Some("urn:other"), live)
        .await
        .unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    let mine = c.domain_create(&mine, DomainCreateFlags::empty()).await.unwrap();
    c.domain_suspend(&mine).await.unwrap();
    c.domain_resume(&mine).await.unwrap();
    c.domain_reboot(&mine, Default::default()).await.unwrap();
    c.domain_set_autostart(&mine, true).await.unwrap();
    assert!(c.domain_autostart(&mine).await.unwrap());
    let again = c.domain_create(&mine, DomainCreateFlags::empty()).await.unwrap_err();
    assert_eq!(again.kind(), Kind::Daemon);
    let snapshot = c
        .snapshot_create(
            &mine,
            "<domainsnapshot><name>s</name></domainsnapshot>",
            Default::default(),
        )
        .await
        .unwrap();
    assert_eq!(c.snapshots(&mine, Default::default()).await.unwrap().len(), 1);
    assert!(c.snapshot_xml(&snapshot).await.unwrap().contains("<name>s</name>"));
    c.snapshot_delete(&snapshot, Default::default()).await.unwrap();
    c.domain_destroy(&mine, Default::default()).await.unwrap();
    c.domain_undefine(&mine, Default::default()).await.unwrap();
    assert!(c.domain_lookup_by_name("mine").await.unwrap_err().is_not_found());

    assert_eq!(c.networks(ConnectListAllNetworksFlags::empty()).await.unwrap().len(), 1);
    let net = c.network_lookup_by_name("default").await.unwrap();
    assert!(c.network_is_active(&net).await.unwrap());
    assert!(
        c.network_xml(&net, Default::default())
            .await
            .unwrap()
            .contains("<network")
    );
    assert!(!c.network_bridge(&net).await.unwrap().is_empty());
    // The test driver has no DHCP server.
    let leases = c.network_dhcp_leases(&net, None).await;
    assert!(leases.unwrap_err().is_unsupported());

    assert_eq!(
        c.storage_pools(ConnectListAllStoragePoolsFlags::empty())
            .await
            .unwrap()
            .len(),
        1
    );
    let pool = c.storage_pool_lookup_by_name("default-pool").await.unwrap();
    assert!(c.storage_pool_info(&pool).await.unwrap().capacity > 0);
    let xml = "<volume><name>v</name><capacity unit='MiB'>1</capacity></volume>";
    let volume = c.volume_create(&pool, xml, Default::default()).await.unwrap();
    assert_eq!(c.volume_info(&volume).await.unwrap().capacity, 1 << 20);
    assert_eq!(
        c.storage_pool_volumes(&pool).await.unwrap(),
        std::slice::from_ref(&volume)
    );
    assert_eq!(
        c.volume_lookup_by_path(&c.volume_path(&volume).await.unwrap())
            .await
            .unwrap(),
        volume
    );
    c.volume_delete(&volume, Default::default()).await.unwrap();

    assert!(
        !c.node_devices(ConnectListAllNodeDeviceFlags::empty())
            .await
            .unwrap()
            .is_empty()
    );
    let secrets = c.secrets(ConnectListAllSecretsFlags::empty()).await;
    assert!(secrets.is_ok() || secrets.unwrap_err().is_unsupported());
    let (mime, mut screen) = c.domain_screenshot(&domain, 0).await.unwrap();
    let mut picture = Vec::new();
    soon(screen.read_to_end(&mut picture)).await.unwrap();
    assert_eq!(mime.as_deref(), Some("image/png"));
    assert!(picture.starts_with(b"\x89PNG"));
    screen.finish().await.unwrap();
    c.close().await;
}

#[tokio::test]
async fn events_of_a_real_daemon_arrive() {
    let Some(daemon) = Libvirtd::start("events").await else {
        return;
    };
    let c = open(&daemon).await;
    let domain = c.domain_lookup_by_name("test").await.unwrap();
    let mut events = c.subscribe::<Lifecycle>(Some(&domain)).await.unwrap();
    for _ in 0..500 {
        c.domain_suspend(&domain).await.unwrap();
        c.domain_resume(&domain).await.unwrap();
    }
    for _ in 0..500 {
        assert_eq!(
            soon(events.next()).await.unwrap().msg.event,
            DomainEventType::SUSPENDED.0
        );
        assert_eq!(soon(events.next()).await.unwrap().msg.event, DomainEventType::RESUMED.0);
    }
    drop(events);
    assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
}

/// "event callback already tracked", says libvirtd to the second registration of the same on one connection, and so it
/// does while the end of the first is still under way.
#[tokio::test]
async fn many_hear_the_same_from_a_real_daemon_and_it_can_be_asked_again_at_once() {
    let Some(daemon) = Libvirtd::start("events-shared").await else {
        return;
    };
    let c = open(&daemon).await;
    let domain = c.domain_lookup_by_name("test").await.unwrap();
    for _ in 0..200 {
        let mut first = c.subscribe::<Lifecycle>(None).await.unwrap();
        let mut second = c.subscribe::<Lifecycle>(None).await.unwrap();
        let mut one = c.subscribe::<Lifecycle>(Some(&domain)).await.unwrap();
        c.domain_suspend(&domain).await.unwrap();
        for events in [&mut first, &mut second, &mut one] {
            assert_eq!(
                soon(events.next()).await.unwrap().msg.event,
                DomainEventType::SUSPENDED.0
            );
        }
        drop(first);
        c.domain_resume(&domain).await.unwrap();
        assert_eq!(soon(second.next()).await.unwrap().msg.event, DomainEventType::RESUMED.0);
    }
}

#[tokio::test]
async fn a_read_only_connection_changes_nothing() {
    let Some(daemon) = Libvirtd::start("read-only").await else {
        return;
    };
    let uri = daemon.uri("test", "/default");
    let c = soon(Connection::open_with(&uri, Options::new().read_only(true)))
        .await
        .unwrap();
    let domain = c.domain_lookup_by_name("test").await.unwrap();
    let refused = c.domain_destroy(&domain, Default::default()).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Daemon, "{refused}");
    assert!(refused.to_string().contains("read only"), "{refused}");
}

/// go-libvirt#132, #133, #88, #120 on the real thing.
#[tokio::test]
async fn killing_the_daemon_with_a_hundred_calls_pending_fails_them_all() {
    let Some(mut daemon) = Libvirtd::start("kill").await else {
        return;
    };
    let c = open(&daemon).await;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let c = c.clone();
            tokio::spawn(async move {
                loop {
                    if let Err(error) = c.capabilities().await {
                        return error;
                    }
                }
            })
        })
        .collect();
    assert_eq!(soon(c.hypervisor_type()).await.unwrap(), "TEST");
    daemon.kill().await;
    for call in calls {
        assert_eq!(soon(call).await.unwrap().kind(), Kind::Disconnected);
    }
    soon(c.closed()).await;
}

/// Volumes that hold bytes need a real pool; QEMU's driver has them.
#[tokio::test]
async fn a_real_pool_takes_and_gives_bytes_and_holes() {
    let Some(daemon) = Libvirtd::start("pool").await else {
        return;
    };
    let c = match soon(Connection::open(&daemon.uri("qemu", "/system"))).await {
        Ok(c) => c,
        Err(error) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "install libvirt-daemon-driver-qemu: {error}"
            );
            eprintln!("SKIPPED pool: no qemu driver: {error}");
            return;
        }
    };
    let xml = "<pool type='dir'><name>p</name><target><path>/var/lib/libvirt/images</path></target></pool>";
    let pool = c.storage_pool_create_xml(xml, Default::default()).await.unwrap();
    let xml = "<volume><name>v</name><capacity unit='MiB'>8</capacity><allocation>0</allocation></volume>";
    let volume = c.volume_create(&pool, xml, Default::default()).await.unwrap();
    let mut data = pattern(8 << 20);
    data[1 << 20..7 << 20].fill(0);

    let size = data.len() as u64;
    assert_eq!(
        soon(c.volume_upload(&volume, &data[..], Some(size))).await.unwrap(),
        size
    );
    let mut back = Vec::new();
    assert_eq!(soon(c.volume_download(&volume, &mut back)).await.unwrap(), size);
    assert!(back == data);

    let sparse = c
        .volume_create(&pool, &xml.replace("<name>v", "<name>s"), Default::default())
        .await
        .unwrap();
    assert_eq!(soon(c.volume_upload_sparse(&sparse, &data[..])).await.unwrap(), size);
    assert!(
        c.volume_info(&sparse).await.unwrap().allocation < 4 << 20,
        "the hole takes no space"
    );
    let mut file = std::io::Cursor::new(vec![0; data.len()]);
    assert_eq!(soon(c.volume_download_sparse(&sparse, &mut file)).await.unwrap(), size);
    assert!(file.into_inner() == data);

    // Given up in the middle, ten times; a short volume overrun: the connection stays.
    for _ in 0..10 {
        let mut stream = c.volume_open_download(&volume, 0, 0, Default::default()).await.unwrap();
        soon(stream.next()).await.unwrap();
        drop(stream);
        assert!(c.is_secure().await.unwrap());
    }
    let short = soon(c.volume_upload(&volume, &data[..5_000_000], Some(size)))
        .await
        .unwrap_err();
    assert!(short.to_string().contains("fewer"), "{short}");
    assert_eq!(c.volume_info(&volume).await.unwrap().capacity, size);
}
