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
    fake::Daemon,
    wire::{
        constant::domain::{
            DomainBlockResizeFlags, DomainChannelFlags, DomainConsoleFlags, DomainCreateFlags, DomainDeviceModifyFlags,
            DomainEventType, DomainOpenGraphicsFlags,
        },
        remote::{
            domain::{DomainOpenGraphics, DomainOpenGraphicsArgs},
            record::DomainRef,
        },
    },
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    libvirtd::{Libvirtd, is_installed},
    support::{in_time, soon},
};

const GUEST: &str = "<domain type='qemu'><name>vm</name><memory unit='MiB'>64</memory>\
    <os><type arch='x86_64'>hvm</type><bios useserial='yes'/><bootmenu enable='yes' timeout='60000'/></os><devices>\
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>\
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/var/lib/libvirt/images/disk'/>\
    <target dev='vda' bus='virtio'/></disk>\
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
    let images = daemon.folder().join("lib/images");
    std::fs::File::create(images.join("disk"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
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
    a_console_is_talked_to(&c, &domain).await;
    disks_and_screens_are_changed(&c, &domain).await;
    an_agent_that_is_not_there_is_told(&c, &domain).await;
    calls_stuck_in_a_wedged_domain_leave_the_connection_alive(&daemon, &domain).await;
    the_end_of_a_domain_is_told(&c, &domain).await;
    let patient = c.with_deadline(Duration::from_secs(120));
    let real = events_of_a_life(&patient, || daemon.signal("qemu-system-x86_64", "KILL")).await;
    let memory = Daemon::new();
    let c = memory.connect().await.unwrap();
    let crash = || {
        memory.crash("life");
        std::future::ready(())
    };
    assert_eq!(
        events_of_a_life(&c, crash).await,
        real,
        "the daemon in memory tells the same"
    );
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

/// A console is what is left when nothing else answers.
async fn a_console_is_talked_to(c: &Connection, domain: &DomainRef) {
    let mut console = c
        .domain_open_console(domain, None, DomainConsoleFlags::FORCE)
        .await
        .unwrap();
    let mut seen = Vec::new();
    // The firmware waits a minute for this key, but what it said before anybody listened is lost.
    in_time(async {
        while !String::from_utf8_lossy(&seen).contains("Select boot device") {
            match tokio::time::timeout(Duration::from_secs(1), console.read_buf(&mut seen)).await {
                Ok(got) => assert!(got.unwrap() > 0, "the console ends"),
                Err(_) => console.write_all(b"\x1b").await.unwrap(),
            }
        }
    })
    .await;
    drop(console);
    assert!(soon(c.is_secure()).await.unwrap());
    // Whoever insists takes it over.
    let first = c
        .domain_open_console(domain, None, DomainConsoleFlags::empty())
        .await
        .unwrap();
    let busy = c.domain_open_console(domain, None, DomainConsoleFlags::SAFE).await;
    let forced = c
        .domain_open_console(domain, None, DomainConsoleFlags::FORCE)
        .await
        .unwrap();
    assert!(busy.is_err());
    drop((first, forced));
}

async fn disks_and_screens_are_changed(c: &Connection, domain: &DomainRef) {
    assert_eq!(c.domain_block_info(domain, "vda").await.unwrap().capacity, 1 << 20);
    c.domain_block_resize(domain, "vda", 2 << 20, DomainBlockResizeFlags::BYTES)
        .await
        .unwrap();
    assert_eq!(c.domain_block_info(domain, "vda").await.unwrap().capacity, 2 << 20);
    assert!(c.domain_disk_errors(domain).await.unwrap().is_empty());
    let medium = "<disk type='file' device='cdrom'><source file='/var/lib/libvirt/images/disk'/>\
        <target dev='sda' bus='sata'/><readonly/></disk>";
    let live = DomainDeviceModifyFlags::LIVE;
    let changed = c.domain_update_device(domain, medium, live).await;
    assert!(
        changed.is_ok() || changed.as_ref().unwrap_err().code().is_some(),
        "{changed:?}"
    );
    let gone = "<disk type='file' device='disk'><source file='/nosuch'/><target dev='vdz' bus='virtio'/></disk>";
    let missing = c.domain_detach_device(domain, gone, live).await.unwrap_err();
    assert!(missing.to_string().contains("vdz"), "{missing}");
    // A channel can be opened when nobody in the guest has it; the daemon's own cannot.
    let channel = c
        .domain_open_channel(domain, Some("nosuch"), DomainChannelFlags::empty())
        .await;
    assert!(channel.is_err());
}

async fn an_agent_that_is_not_there_is_told(c: &Connection, domain: &DomainRef) {
    let timeout = AgentTimeout::new(Duration::from_secs(1));
    let error = soon(c.domain_agent_command(domain, r#"{"execute":"guest-ping"}"#, timeout))
        .await
        .unwrap_err();
    assert!(error.is_agent_unavailable() && error.is_retryable(), "{error}");
    c.domain_agent_set_timeout(domain, timeout).await.unwrap();
    let refused = [
        soon(c.domain_ssh_keys(domain, "root")).await.unwrap_err(),
        soon(c.domain_set_ssh_keys(domain, "root", &["ssh-ed25519 AAAA"], Default::default()))
            .await
            .unwrap_err(),
    ];
    for error in refused {
        assert!(error.is_agent_unavailable(), "{error}");
    }
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

/// Types and details of what is told when a domain starts, is paused and resumed, stopped, held at its start, and dies.
async fn events_of_a_life<F: Future<Output = ()>>(c: &Connection, kill: impl FnOnce() -> F) -> Vec<(i32, i32)> {
    let mut told = c.subscribe::<Lifecycle>(None).await.unwrap();
    let xml = "<domain type='qemu'><name>life</name><memory unit='MiB'>64</memory>\
        <os><type arch='x86_64'>hvm</type></os></domain>";
    let domain = c.domain_define(xml, Default::default()).await.unwrap();
    let running = c.domain_create(&domain, DomainCreateFlags::empty()).await.unwrap();
    c.domain_suspend(&running).await.unwrap();
    c.domain_resume(&running).await.unwrap();
    c.domain_destroy(&running, Default::default()).await.unwrap();
    c.domain_create(&domain, DomainCreateFlags::START_PAUSED).await.unwrap();
    kill().await;
    let mut seen = Vec::new();
    let is_end = |(event, _): &(i32, i32)| *event == DomainEventType::STOPPED.0;
    while seen.iter().filter(|event| is_end(event)).count() < 2 {
        let event = in_time(told.next()).await.unwrap().msg;
        seen.push((event.event, event.detail));
    }
    let status = c.domain_state(&domain).await.unwrap();
    seen.push((status.state.0, status.reason));
    c.domain_undefine(&domain, Default::default()).await.unwrap();
    seen
}

/// Row 28: terraform#710, #731: a wedged QEMU blocks its own calls and no others; the connection outlives it.
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
