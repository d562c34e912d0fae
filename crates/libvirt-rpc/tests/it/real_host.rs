//! Real libvirtd: host, networks, devices and secrets. What the daemon in memory has too is asked of both.

use std::time::Duration;

use libvirt_rpc::{
    Connection,
    event::{network, secret},
    fake::Daemon,
    wire::{
        constant::{
            error::ErrorNumber,
            network::{NetworkUpdateCommand as Update, NetworkUpdateSection as Section},
            secret::SecretUsageType,
        },
        remote::record::NodeDeviceRef,
    },
};

use crate::{libvirtd::Libvirtd, support::soon};

/// Feature 14 is that events can be asked for one object at a time.
const EVENT_CALLBACKS: i32 = 14;

#[tokio::test]
async fn a_real_host_says_what_it_is() {
    let Some(daemon) = Libvirtd::start("real-host").await else {
        return;
    };
    let c = soon(Connection::open(&daemon.uri("test", "/default"))).await.unwrap();
    assert!(!c.hostname().await.unwrap().is_empty());
    assert!(c.max_vcpus(None).await.unwrap() > 0);
    assert!(c.supports_feature(EVENT_CALLBACKS).await.unwrap());
    assert!(!c.node_cells_free_memory(0, 8).await.unwrap().is_empty());
    let q = soon(Connection::open(&daemon.uri("qemu", "/system"))).await.unwrap();
    let patient = q.with_deadline(Duration::from_secs(300));
    let capabilities = patient
        .domain_capabilities(None, None, None, None, Default::default())
        .await
        .unwrap();
    assert!(capabilities.contains("<domainCapabilities>"), "{capabilities}");
    let memory = q.node_memory_stats().await.unwrap();
    assert!(
        memory.iter().any(|(name, kib)| name == "total" && *kib > 0),
        "{memory:?}"
    );
    // Whether the machine has SMBIOS tables and somebody to read them is its own affair.
    match q.sysinfo().await {
        Ok(xml) => assert!(xml.contains("<sysinfo"), "{xml}"),
        Err(error) => assert!(error.is_unsupported() || error.code().is_some(), "{error}"),
    }
}

/// What a network goes through.
async fn networks_live(c: &Connection) {
    let xml = "<network><name>lab</name><bridge name='virbr77'/><ip address='10.9.0.1' netmask='255.255.255.0'>\
        <dhcp><range start='10.9.0.2' end='10.9.0.99'/></dhcp></ip></network>";
    let mut told = c.subscribe::<network::Lifecycle>(None).await.unwrap();
    let net = c.network_define(xml).await.unwrap();
    assert_eq!(c.network_lookup_by_uuid(net.uuid).await.unwrap(), net);
    assert!(!c.network_autostart(&net).await.unwrap());
    c.network_set_autostart(&net, true).await.unwrap();
    assert!(c.network_autostart(&net).await.unwrap());
    assert!(c.network_is_persistent(&net).await.unwrap());
    c.network_create(&net).await.unwrap();
    let again = c.network_create(&net).await.unwrap_err();
    assert_eq!(again.code(), Some(ErrorNumber::ERR_OPERATION_INVALID), "{again}");
    let host = "<host mac='52:54:00:00:00:07' ip='10.9.0.7'/>";
    c.network_update(&net, Update::ADD_LAST, Section::IP_DHCP_HOST, host, Default::default())
        .await
        .unwrap();
    assert!(
        c.network_xml(&net, Default::default())
            .await
            .unwrap()
            .contains("10.9.0.7")
    );
    c.network_destroy(&net).await.unwrap();
    c.network_undefine(&net).await.unwrap();
    assert!(c.network_lookup_by_name("lab").await.unwrap_err().is_not_found());
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(soon(told.next()).await.unwrap().event);
    }
    // Defined, started, stopped, undefined.
    assert_eq!(events, [0, 2, 3, 1]);
    let brief = c.network_create_xml(&xml.replace("lab", "brief")).await.unwrap();
    assert!(!c.network_is_persistent(&brief).await.unwrap());
    c.network_destroy(&brief).await.unwrap();
    assert!(c.network_lookup_by_name("brief").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn networks_live_the_same_in_memory_and_for_real() {
    networks_live(&Daemon::new().connect().await.unwrap()).await;
    if let Some(daemon) = Libvirtd::start("real-network").await {
        networks_live(&soon(Connection::open(&daemon.uri("test", "/default"))).await.unwrap()).await;
    }
}

/// What a secret goes through.
async fn secrets_live(c: &Connection) {
    let mut told = c.subscribe::<secret::Lifecycle>(None).await.unwrap();
    let xml = "<secret ephemeral='yes' private='no'><description>d</description>\
        <usage type='volume'><volume>/disk</volume></usage></secret>";
    let secret = c.secret_define(xml).await.unwrap();
    assert_eq!(c.secret_lookup_by_uuid(secret.uuid).await.unwrap(), secret);
    assert_eq!(
        c.secret_lookup_by_usage(SecretUsageType::VOLUME, "/disk")
            .await
            .unwrap(),
        secret
    );
    assert_eq!(
        c.secrets(Default::default()).await.unwrap(),
        std::slice::from_ref(&secret)
    );
    let empty = c.secret_value(&secret).await.unwrap_err();
    assert_eq!(empty.code(), Some(ErrorNumber::ERR_NO_SECRET), "{empty}");
    assert!(empty.to_string().contains("does not have a value"), "{empty}");
    c.secret_set_value(&secret, b"sesame").await.unwrap();
    assert_eq!(c.secret_value(&secret).await.unwrap(), b"sesame");
    assert!(c.secret_xml(&secret).await.unwrap().contains("<volume>/disk</volume>"));
    let twice = c.secret_define(xml).await.unwrap_err();
    assert_eq!(twice.code(), Some(ErrorNumber::ERR_INTERNAL_ERROR), "{twice}");
    let private = c
        .secret_define("<secret ephemeral='yes' private='yes'/>")
        .await
        .unwrap();
    c.secret_set_value(&private, b"x").await.unwrap();
    let refused = c.secret_value(&private).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorNumber::ERR_INVALID_SECRET), "{refused}");
    c.secret_undefine(&private).await.unwrap();
    c.secret_undefine(&secret).await.unwrap();
    assert!(c.secret_lookup_by_uuid(secret.uuid).await.unwrap_err().is_not_found());
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(soon(told.next()).await.unwrap().event);
    }
    assert_eq!(events, [0, 0, 1, 1]);
}

#[tokio::test]
async fn secrets_live_the_same_in_memory_and_for_real() {
    secrets_live(&Daemon::new().connect().await.unwrap()).await;
    if let Some(daemon) = Libvirtd::start("real-secret").await {
        secrets_live(&soon(Connection::open(&daemon.uri("qemu", "/system"))).await.unwrap()).await;
    }
}

/// Devices are looked at; none is taken from the machine the tests run on.
async fn devices_are_there(c: &Connection) {
    let computer = c.node_device_lookup_by_name("computer").await.unwrap();
    assert!(c.node_devices(Default::default()).await.unwrap().contains(&computer));
    assert!(
        c.node_device_xml(&computer)
            .await
            .unwrap()
            .contains("<name>computer</name>")
    );
    assert_eq!(c.node_device_parent(&computer).await.unwrap(), None);
    let missing = NodeDeviceRef { name: "nosuch".into() };
    let missing = [
        c.node_device_detach(&missing, None).await.unwrap_err(),
        c.node_device_reattach(&missing).await.unwrap_err(),
        c.node_device_reset(&missing).await.unwrap_err(),
        c.node_device_lookup_by_name("nosuch").await.unwrap_err(),
    ];
    for error in missing {
        // A machine without an IOMMU does not even look.
        assert!(error.is_not_found() || error.is_unsupported(), "{error}");
    }
}

#[tokio::test]
async fn devices_are_the_same_in_memory_and_for_real() {
    devices_are_there(&Daemon::new().connect().await.unwrap()).await;
    if let Some(daemon) = Libvirtd::start("real-device").await {
        devices_are_there(&soon(Connection::open(&daemon.uri("qemu", "/system"))).await.unwrap()).await;
    }
}
