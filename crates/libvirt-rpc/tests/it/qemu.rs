//! Real QEMU under real libvirtd: what the test driver does not have.

use std::{
    io::{Read as _, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};

use libvirt_rpc::{
    Connection, Options,
    api::AgentTimeout,
    event::domain::Lifecycle,
    wire::{
        constant::domain::{DomainCreateFlags, DomainEventType, DomainOpenGraphicsFlags},
        remote::{
            domain::{DomainOpenGraphics, DomainOpenGraphicsArgs},
            record::DomainRef,
        },
    },
};

use crate::{
    libvirtd::{Libvirtd, is_installed},
    support::soon,
};

const GUEST: &str = "<domain type='qemu'><name>vm</name><memory unit='MiB'>64</memory>\
    <os><type arch='x86_64'>hvm</type></os><devices>\
    <graphics type='vnc' port='-1'/>\
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>\
    <serial type='pty'/><console type='pty'/></devices></domain>";

/// A daemon with a running domain, unless QEMU is not there.
async fn running(test: &str) -> Option<(Libvirtd, Connection, DomainRef)> {
    let daemon = Libvirtd::start(test).await?;
    if !is_installed("qemu-system-x86_64") {
        assert!(std::env::var_os("CI").is_none(), "install qemu-system-x86");
        eprintln!("SKIPPED {test}: qemu-system-x86_64 is missing (install qemu-system-x86)");
        return None;
    }
    let uri = daemon.uri("qemu", "/system");
    let c = soon(Connection::open(&uri)).await.unwrap();
    // A new daemon asks every emulator what it can do before it starts the first domain.
    let patient = c.with_deadline(Duration::from_secs(300));
    let domain = patient
        .domain_create_xml(GUEST, DomainCreateFlags::empty())
        .await
        .unwrap();
    Some((daemon, c, domain))
}

#[tokio::test]
async fn what_only_qemu_has_works() {
    let Some((daemon, c, domain)) = running("qemu").await else {
        return;
    };
    descriptors_travel_both_ways(&c, &domain).await;
    an_agent_that_is_not_there_is_told(&c, &domain).await;
    calls_stuck_in_a_wedged_domain_leave_the_connection_alive(&daemon, &domain).await;
    the_end_of_a_domain_is_told(&c, &domain).await;
}

async fn descriptors_travel_both_ways(c: &Connection, domain: &DomainRef) {
    let mut greeting = [0; 12];
    // From the daemon.
    let socket = soon(c.domain_open_graphics(domain, 0, DomainOpenGraphicsFlags::empty()))
        .await
        .unwrap();
    let mut socket = UnixStream::from(socket);
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"RFB 003.008\n");
    // To the daemon.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let args = DomainOpenGraphicsArgs {
        dom: domain.clone(),
        idx: 0,
        flags: 0,
    };
    let files = vec![OwnedFd::from(theirs)];
    let ((), none) = soon(c.call_with_files::<DomainOpenGraphics>(&args, files))
        .await
        .unwrap();
    assert!(none.is_empty());
    ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    ours.read_exact(&mut greeting).unwrap();
    ours.write_all(b"RFB 003.008\n").unwrap();
    assert_eq!(&greeting, b"RFB 003.008\n");
    // A call that was given up on leaves no descriptor behind, and the next answers are whole.
    for _ in 0..20 {
        let call = c.domain_open_graphics(domain, 0, DomainOpenGraphicsFlags::empty());
        drop(tokio::time::timeout(Duration::from_micros(50), call).await);
        assert!(soon(c.is_secure()).await.unwrap());
    }
}

async fn an_agent_that_is_not_there_is_told(c: &Connection, domain: &DomainRef) {
    let timeout = AgentTimeout::new(Duration::from_secs(1));
    let error = soon(c.domain_agent_command(domain, r#"{"execute":"guest-ping"}"#, timeout))
        .await
        .unwrap_err();
    assert!(error.is_agent_unavailable() && error.is_retryable(), "{error}");
    c.domain_agent_set_timeout(domain, timeout).await.unwrap();
}

async fn the_end_of_a_domain_is_told(c: &Connection, domain: &DomainRef) {
    let timeout = AgentTimeout::new(Duration::from_secs(1));
    let mut events = c.subscribe::<Lifecycle>(None).await.unwrap();
    let monitor = c.subscribe_monitor(None, None).await.unwrap();
    soon(c.domain_destroy(domain, Default::default())).await.unwrap();
    // QEMU tells that it shuts down before it ends.
    while DomainEventType(soon(events.next()).await.unwrap().msg.event) != DomainEventType::STOPPED {}
    drop(monitor);
    let gone = c
        .domain_agent_command(domain, r#"{"execute":"guest-ping"}"#, timeout)
        .await
        .unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

/// terraform#710, #731: a wedged QEMU blocks its own calls and no others; the connection outlives it.
async fn calls_stuck_in_a_wedged_domain_leave_the_connection_alive(daemon: &Libvirtd, domain: &DomainRef) {
    let options = Options::new().keepalive(Duration::from_millis(200), 3);
    let c = soon(Connection::open_with(&daemon.uri("qemu", "/system"), options))
        .await
        .unwrap();
    let stop = c.domain_monitor_command(domain, r#"{"execute":"query-status"}"#, Default::default());
    assert!(soon(stop).await.unwrap().contains("running"));
    daemon.signal("qemu-system-x86_64", "STOP").await;
    let stuck: Vec<_> = (0..5)
        .map(|_| {
            let (c, domain) = (c.clone(), domain.clone());
            tokio::spawn(async move {
                c.domain_monitor_command(&domain, r#"{"execute":"query-status"}"#, Default::default())
                    .await
            })
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(soon(c.domain_lookup_by_name("vm")).await.unwrap(), *domain);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!c.is_closed(), "two seconds of pings were answered");
    daemon.signal("qemu-system-x86_64", "CONT").await;
    for call in stuck {
        soon(call).await.unwrap().unwrap();
    }
}
