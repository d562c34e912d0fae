//! Bugs of other clients that have no better place: each test is named after its row of the table of them.

use std::{
    io::Write,
    path::Path,
    sync::{Arc, Mutex},
};

use libvirt_rpc::{
    Connection, Kind, Options, Reason,
    event::{
        Interruption,
        domain::{self, Lifecycle, MetadataChange},
    },
    fake::Daemon,
    transport,
    transport::ssh::Ssh,
    wire::{
        constant::{
            domain::{
                ConnectGetAllDomainStatsFlags, DomainEventType, DomainMetadataType, DomainModificationImpact,
                DomainStatsTypes,
            },
            error::ErrorNumber,
        },
        frame::{self, Header},
        net::{MessageError, MessageStatus, MessageType},
    },
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    elsewhere,
    libvirtd::Libvirtd,
    sshd::Sshd,
    support::{define, soon},
};

/// Row 7: go-libvirt#80.
#[tokio::test]
async fn row_07_a_connection_that_ends_says_so_and_why() {
    let daemon = Daemon::new();
    for _ in 0..20 {
        let c = daemon.connect().await.unwrap();
        let closed = c.closed();
        let load: Vec<_> = (0..8)
            .map(|_| {
                let c = c.clone();
                tokio::spawn(async move {
                    loop {
                        if let Err(error) = c.hostname().await {
                            return error;
                        }
                    }
                })
            })
            .collect();
        c.hypervisor_type().await.unwrap();
        daemon.restart();
        let reason = soon(closed).await;
        assert!(matches!(reason, Reason::Eof | Reason::Io(_)), "{reason}");
        for call in load {
            assert_eq!(soon(call).await.unwrap().kind(), Kind::Disconnected);
        }
    }
    let c = daemon.connect().await.unwrap();
    let closed = c.closed();
    c.close().await;
    assert!(matches!(soon(closed).await, Reason::Closed));
}

/// Row 8: kubevirt#194, #3830. Row 9: ironcore libvirt-provider#307.
#[tokio::test]
async fn row_08_subscriptions_come_back_on_a_new_connection_after_a_restart() {
    let Some(mut daemon) = Libvirtd::start("restart").await else {
        return;
    };
    let uri = daemon.uri("test", "/default");
    let c = soon(Connection::open(&uri)).await.unwrap();
    let mut events = c.subscribe::<Lifecycle>(None).await.unwrap();
    daemon.kill().await;
    let ended = soon(events.next()).await.unwrap_err();
    assert!(matches!(ended, Interruption::Closed(_)), "{ended}");
    soon(c.closed()).await;
    let refused = soon(Connection::open(&uri)).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    daemon.restart().await;
    let c = soon(Connection::open(&uri)).await.unwrap();
    let mut events = c.subscribe::<Lifecycle>(None).await.unwrap();
    let xml = "<domain type='test'><name>new</name><memory>8192</memory><os><type>hvm</type></os></domain>";
    c.domain_define(xml, Default::default()).await.unwrap();
    let event = soon(events.next()).await.unwrap().msg;
    assert_eq!(
        (event.dom.name.to_string(), event.event),
        ("new".to_owned(), DomainEventType::DEFINED.0)
    );
}

/// Row 16: go-libvirt#154.
#[tokio::test]
async fn row_16_every_event_of_domains_can_be_asked_for_and_comes() {
    let Some(daemon) = Libvirtd::start("all-events").await else {
        return;
    };
    let c = soon(Connection::open(&daemon.uri("test", "/default"))).await.unwrap();
    let mut known = 0;
    macro_rules! subscribe {
        ($($topic:ident),*) => {$(
            match c.subscribe::<domain::$topic>(None).await {
                Ok(subscription) => {
                    known += 1;
                    drop(subscription);
                }
                Err(error) => assert_eq!(error.code(), Some(ErrorNumber::ERR_INTERNAL_ERROR), "{error}"),
            }
        )*};
    }
    subscribe!(
        Lifecycle,
        Reboot,
        RtcChange,
        Watchdog,
        IoError,
        Graphics,
        IoErrorReason,
        ControlError,
        BlockJob,
        DiskChange,
        TrayChange,
        Wakeup,
        Suspend,
        BalloonChange,
        SuspendToDisk,
        DeviceRemoved,
        BlockJob2,
        Tunable,
        AgentLifecycle,
        DeviceAdded,
        MigrationIteration,
        JobCompleted,
        DeviceRemovalFailed,
        MetadataChange,
        BlockThreshold,
        MemoryFailure,
        MemoryDeviceSizeChange,
        NicMacChange
    );
    assert!(known >= 27, "libvirt 9.0 knows all but the last: {known}");
    let mut changes = c.subscribe::<MetadataChange>(None).await.unwrap();
    let domain = c.domain_lookup_by_name("test").await.unwrap();
    let live = DomainModificationImpact::LIVE;
    c.domain_set_metadata(
        &domain,
        DomainMetadataType::ELEMENT,
        Some("<a/>"),
        Some("x"),
        Some("urn:x"),
        live,
    )
    .await
    .unwrap();
    let change = soon(changes.next()).await.unwrap();
    assert_eq!(
        (change.dom.name.to_string(), change.nsuri.unwrap().to_string()),
        ("test".to_owned(), "urn:x".to_owned())
    );
}

/// Row 17: go-libvirt#71, #77, #46, libvirt-go#29.
#[tokio::test]
async fn row_17_the_statistics_of_five_hundred_domains_are_read() {
    let Some(daemon) = Libvirtd::start("stats").await else {
        return;
    };
    let c = soon(Connection::open(&daemon.uri("test", "/default"))).await.unwrap();
    for number in 0..500 {
        let xml = format!(
            "<domain type='test'><name>d{number}</name><memory>8192</memory><vcpu>2</vcpu><os><type>hvm</type></os></domain>"
        );
        c.domain_create_xml(&xml, Default::default()).await.unwrap();
    }
    let all = DomainStatsTypes::empty();
    let stats = soon(c.domain_stats(&[], all, ConnectGetAllDomainStatsFlags::empty()))
        .await
        .unwrap();
    assert_eq!(stats.len(), 501);
    for (domain, params) in stats {
        assert_eq!(params.unsigned("state.state"), Some(1), "{}", domain.name);
        assert!(params.0.len() >= 2, "{}", domain.name);
    }
}

/// Row 18: go-qemu#41, #44, #136.
#[tokio::test]
async fn row_18_errors_are_read_with_whatever_parts_they_have() {
    let text = |text: &str| Some(text.into());
    let corpus = [
        MessageError {
            code: 1,
            level: 2,
            ..MessageError::default()
        },
        MessageError {
            code: 42,
            domain: 10,
            message: text(""),
            level: 2,
            ..MessageError::default()
        },
        MessageError {
            code: 38,
            message: text("a"),
            int1: 28,
            str2: text("bb"),
            ..MessageError::default()
        },
        MessageError {
            code: 99_999,
            domain: 777,
            message: text("ünï"),
            str1: text("x"),
            str3: text("yyyyy"),
            ..MessageError::default()
        },
        MessageError {
            code: 55,
            message: text("four"),
            str1: text("abcd"),
            str2: text("abcde"),
            str3: text("abcdef"),
            int1: -1,
            int2: -1,
            ..MessageError::default()
        },
    ];
    for trailing in [0, 4, 64] {
        for sent in corpus.clone() {
            let (near, mut far) = tokio::io::duplex(1 << 16);
            let told = sent.clone();
            let peer = tokio::spawn(async move {
                let mut head = [0; 4];
                far.read_exact(&mut head).await.unwrap();
                let mut message = head.to_vec();
                message.resize(u32::from_be_bytes(head) as usize, 0);
                far.read_exact(&mut message[4..]).await.unwrap();
                let (header, _): (Header, _) = frame::split(&message).unwrap();
                let header = header.answer(MessageType::REPLY, MessageStatus::ERROR);
                let mut answer = frame::message(&header, &told).unwrap();
                answer.resize(answer.len() + trailing, 0xee);
                let length = u32::try_from(answer.len()).unwrap();
                answer[..4].copy_from_slice(&length.to_be_bytes());
                far.write_all(&answer).await.unwrap();
                far.read_exact(&mut head).await.ok();
            });
            let opened = Connection::open_on(transport::plain(near), "test:///default", Options::new());
            let error = soon(opened).await.unwrap_err();
            let daemon = error.daemon().unwrap_or_else(|| panic!("{sent:?}: {error}"));
            assert_eq!(daemon.code().0, sent.code);
            assert_eq!(
                daemon.message(),
                sent.message
                    .as_ref()
                    .map_or_else(|| "no message".to_owned(), ToString::to_string)
            );
            peer.abort();
        }
    }
}

/// Row 24: terraform#1170, #1116, #1117.
#[tokio::test]
async fn row_24_the_configuration_of_ssh_counts_with_alias_port_and_jump() {
    let Some(daemon) = Libvirtd::start("ssh-config").await else {
        return;
    };
    let Some(target) = Sshd::start("ssh-target") else {
        return;
    };
    let Some(jump) = Sshd::start_with("ssh-jump", "AllowTcpForwarding yes\n", None) else {
        return;
    };
    target.ready().await;
    jump.ready().await;
    let host = |name: &str, sshd: &Sshd| {
        format!(
            "Host {name}\n HostName 127.0.0.1\n Port {}\n User root\n IdentityFile {}\n UserKnownHostsFile {}\n",
            sshd.port,
            sshd.files.0.join("client").display(),
            sshd.knows("host").display()
        )
    };
    let config = format!(
        "{} ProxyJump the-jump\n{} StrictHostKeyChecking yes\n BatchMode yes\n",
        host("the-target", &target),
        host("the-jump", &jump)
    );
    let config = target.files.write("config", &config, 0o600);
    let wrapper = format!("#!/bin/sh\nexec ssh -F {} \"$@\"\n", config.display());
    let wrapper = target.files.write("ssh-with-config", &wrapper, 0o755);
    let uri = format!(
        "test+ssh://the-target/default?socket={}&command={}",
        daemon.socket().display(),
        wrapper.display()
    );
    // A program that is named is run, whoever speaks ssh otherwise.
    for ssh in [Ssh::System, Ssh::default()] {
        let c = soon(Connection::open_with(&uri, Options::new().ssh(ssh)))
            .await
            .unwrap();
        assert_eq!(c.hypervisor_type().await.unwrap(), "TEST");
    }
}

/// How many look-ups: a million, and fewer where each takes long.
const LOOKUPS: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

/// The memory of this process, in KiB.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// By how many KiB the process grows with the look-ups; for [`elsewhere`], so that nobody else is counted.
pub(crate) async fn growth() -> usize {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let domain = define(&c, "web").await;
    let look = async |times: usize| {
        for _ in 0..times {
            assert_eq!(c.domain_lookup_by_uuid(domain.uuid).await.unwrap().name, "web");
        }
    };
    look(LOOKUPS / 10).await;
    let before = resident_kib();
    look(LOOKUPS).await;
    resident_kib().saturating_sub(before)
}

/// Row 30: openshift capi-libvirt#199, kubevirt#5519, #7734, libvirt-go#7.
#[tokio::test]
async fn row_30_look_ups_leave_nothing_behind() {
    let grown = elsewhere::outcomes(&["env"], "growth", &["fake"], &[]).await;
    let grown: usize = grown[0].parse().unwrap();
    assert!(grown < 2048, "{LOOKUPS} look-ups cost {grown} KiB");
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Row 32: virtrigaud#149.
#[tokio::test]
async fn row_32_whoever_does_not_verify_is_told_that_it_is_insecure() {
    let log = Log::default();
    let kept = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || kept.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let nowhere = tempfile::tempdir().unwrap();
    let open = async |uri: String| {
        log.0.lock().unwrap().clear();
        soon(Connection::open(&uri)).await.unwrap_err();
        String::from_utf8_lossy(&log.0.lock().unwrap()).contains("insecure")
    };
    let path: &Path = nowhere.path();
    let port = crate::support::port();
    let mut uris = vec![format!(
        "qemu+ssh://root@127.0.0.1:{port}/system?known_hosts={}",
        path.join("none").display()
    )];
    if cfg!(feature = "tls") {
        uris.push(format!("qemu+tls://127.0.0.1:{port}/system"));
    }
    for uri in uris {
        let and = if uri.contains('?') { '&' } else { '?' };
        assert!(!open(uri.clone()).await, "{uri}");
        assert!(open(format!("{uri}{and}no_verify=1")).await, "{uri}");
        assert!(!open(format!("{uri}{and}no_verify=0")).await, "{uri}");
    }
}
