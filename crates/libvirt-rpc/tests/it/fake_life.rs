//! The daemon in memory: how its domains live, and what it refuses as real daemons do.

use std::time::Duration;

use libvirt_rpc::{
    Connection, Error, Options,
    event::domain::{AgentLifecycle, IoErrorReason, Lifecycle, MetadataChange, Reboot},
    fake::{Daemon, Guest},
    wire::constant::{
        domain::{
            ConnectListAllDomainsFlags, DomainCreateFlags, DomainDiskErrorCode, DomainEventType, DomainMetadataType,
            DomainPausedReason, DomainRunningReason, DomainShutoffReason, DomainState, DomainUndefineFlags as Undefine,
        },
        error::ErrorNumber,
    },
    wire::remote::{
        domain::{DomainUndefineFlags, DomainUndefineFlagsArgs},
        record::DomainRef,
    },
};

use crate::support::{define, soon};

const UEFI: &str = "<domain type='kvm'><name>uefi</name><memory unit='MiB'>64</memory><os firmware='efi'>\
    <type arch='x86_64' machine='q35'>hvm</type></os></domain>";

async fn start(c: &Connection, domain: &DomainRef) -> DomainRef {
    c.domain_create(domain, DomainCreateFlags::empty()).await.unwrap()
}

fn is_refused(refused: &Error, says: &str) {
    assert_eq!(refused.code(), Some(ErrorNumber::ERR_OPERATION_INVALID), "{refused}");
    assert!(refused.to_string().contains(says), "{refused}");
}

#[tokio::test]
async fn undefining_loses_nothing_it_was_not_told_to_lose() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let domain = define(&c, "web").await;
    let snapshot = "<domainsnapshot><name>s</name></domainsnapshot>";
    c.snapshot_create(&domain, snapshot, Default::default()).await.unwrap();
    let twice = c
        .snapshot_create(&domain, snapshot, Default::default())
        .await
        .unwrap_err();
    assert!(twice.to_string().contains("already exists"), "{twice}");
    let refused = c.domain_undefine(&domain, Undefine::empty()).await.unwrap_err();
    is_refused(&refused, "inactive domain with 1 snapshots");
    let found = c.snapshot_lookup_by_name(&domain, "s").await.unwrap();
    assert_eq!(c.snapshots(&domain, Default::default()).await.unwrap()[0], found);
    c.snapshot_delete(&found, Default::default()).await.unwrap();
    let gone = c.snapshot_lookup_by_name(&domain, "s").await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");

    let checkpoint = "<domaincheckpoint><name>c</name></domaincheckpoint>";
    let off = c
        .checkpoint_create(&domain, checkpoint, Default::default())
        .await
        .unwrap_err();
    assert!(off.is_unsupported(), "{off}");
    let domain = start(&c, &domain).await;
    c.checkpoint_create(&domain, checkpoint, Default::default())
        .await
        .unwrap();
    c.domain_managed_save(&domain, Default::default()).await.unwrap();
    let status = c.domain_state(&domain).await.unwrap();
    assert_eq!(
        (status.state, status.reason),
        (DomainState::SHUTOFF, DomainShutoffReason::SAVED.0)
    );
    let refused = c
        .domain_undefine(&domain, Undefine::CHECKPOINTS_METADATA)
        .await
        .unwrap_err();
    is_refused(&refused, "managed save image exists");
    let refused = c.domain_undefine(&domain, Undefine::MANAGED_SAVE).await.unwrap_err();
    is_refused(&refused, "inactive domain with 1 checkpoints");
    let all = Undefine::MANAGED_SAVE | Undefine::CHECKPOINTS_METADATA;
    c.domain_undefine(&domain, all).await.unwrap();

    let uefi = c.domain_define(UEFI, Default::default()).await.unwrap();
    let uefi = start(&c, &uefi).await;
    c.domain_destroy(&uefi, Default::default()).await.unwrap();
    let refused = c.domain_undefine(&uefi, Undefine::empty()).await.unwrap_err();
    is_refused(&refused, "with nvram");
    c.domain_undefine(&uefi, Undefine::NVRAM).await.unwrap();
    assert!(daemon.domains().is_empty());
}

#[tokio::test]
async fn an_old_daemon_refuses_the_flags_it_does_not_know() {
    let daemon = Daemon::new();
    daemon.set_version(5_000_000);
    let c = daemon.connect().await.unwrap();
    assert_eq!(c.library_version().await.unwrap(), 5_000_000);
    let domain = define(&c, "web").await;
    let flags = Undefine::NVRAM | Undefine::CHECKPOINTS_METADATA | Undefine::TPM;
    let args = DomainUndefineFlagsArgs {
        dom: domain.clone(),
        flags: flags.bits(),
    };
    let refused = c.call::<DomainUndefineFlags>(&args).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorNumber::ERR_INVALID_ARG));
    assert!(refused.to_string().contains("unsupported flags (0x30)"), "{refused}");
    c.domain_undefine(&domain, Undefine::NVRAM).await.unwrap();
}

#[tokio::test]
async fn a_saved_domain_goes_on_where_it_was() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let domain = define(&c, "web").await;
    assert!(!c.domain_has_managed_save(&domain).await.unwrap());
    let domain = start(&c, &domain).await;
    daemon
        .with_files("web", |files| files.write("/run/state", "kept"))
        .unwrap();
    c.domain_managed_save(&domain, Default::default()).await.unwrap();
    let saved = ConnectListAllDomainsFlags::MANAGEDSAVE;
    assert_eq!(c.domains(saved).await.unwrap().len(), 1);
    let domain = start(&c, &domain).await;
    assert_eq!(daemon.files("web").unwrap().text("/run/state"), Some("kept"));
    let reason = c.domain_state(&domain).await.unwrap().reason;
    assert_eq!(reason, DomainRunningReason::RESTORED.0);
    assert!(!c.domain_has_managed_save(&domain).await.unwrap());
    c.domain_managed_save(&domain, Default::default()).await.unwrap();
    c.domain_managed_save_remove(&domain).await.unwrap();
    start(&c, &domain).await;
    assert_eq!(daemon.files("web").unwrap().text("/run/state"), None);
}

#[tokio::test(start_paused = true)]
async fn a_guest_stops_when_it_wants_to() {
    let daemon = Daemon::new();
    daemon.set_guest_of("deaf", Guest::new().ignoring_shutdown());
    let slow = Guest::new()
        .boot_time(Duration::from_secs(30))
        .shutdown_time(Duration::from_secs(10));
    daemon.set_guest_of("slow", slow);
    let c = daemon.connect_with(Options::new().without_keepalive()).await.unwrap();
    let deaf = start(&c, &define(&c, "deaf").await).await;
    let slow = start(&c, &define(&c, "slow").await).await;
    let running = async |domain: &DomainRef| c.domain_is_active(domain).await.unwrap();
    // A guest that has not booted does not hear the power button.
    for domain in [&deaf, &slow] {
        c.domain_shutdown(domain, Default::default()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(running(&deaf).await && running(&slow).await);
    for domain in [&deaf, &slow] {
        c.domain_shutdown(domain, Default::default()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(running(&deaf).await && running(&slow).await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(running(&deaf).await && !running(&slow).await);
}

#[tokio::test]
async fn a_full_host_stops_a_domain_and_says_which_disk() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let xml = "<domain type='kvm'><name>db</name><memory>1024</memory><devices><disk type='file'>\
        <source file='/data/db.raw'/><target dev='vda'/></disk></devices></domain>";
    let domain = c.domain_define(xml, Default::default()).await.unwrap();
    let domain = start(&c, &domain).await;
    let mut changes = c.subscribe::<Lifecycle>(None).await.unwrap();
    let mut errors = c.subscribe::<IoErrorReason>(None).await.unwrap();
    assert!(c.domain_disk_errors(&domain).await.unwrap().is_empty());
    assert!(!daemon.fail_disk("db", "vdb", DomainDiskErrorCode::NO_SPACE));
    assert!(daemon.fail_disk("db", "vda", DomainDiskErrorCode::NO_SPACE));
    let error = soon(errors.next()).await.unwrap().msg;
    assert_eq!(
        (error.src_path.to_string().as_str(), error.reason.to_string().as_str()),
        ("/data/db.raw", "enospc")
    );
    assert_eq!(
        soon(changes.next()).await.unwrap().msg.event,
        DomainEventType::SUSPENDED.0
    );
    let status = c.domain_state(&domain).await.unwrap();
    assert_eq!(
        (status.state, status.reason),
        (DomainState::PAUSED, DomainPausedReason::IOERROR.0)
    );
    let disks = c.domain_disk_errors(&domain).await.unwrap();
    assert_eq!(disks, [("vda".to_owned(), DomainDiskErrorCode::NO_SPACE)]);
    c.domain_resume(&domain).await.unwrap();
    assert!(c.domain_disk_errors(&domain).await.unwrap().is_empty());
    is_refused(&c.domain_resume(&domain).await.unwrap_err(), "already running");
}

#[tokio::test]
async fn metadata_is_kept_shown_and_told() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let domain = define(&c, "web").await;
    let mut changes = c.subscribe::<MetadataChange>(None).await.unwrap();
    let (element, namespace) = (DomainMetadataType::ELEMENT, Some("https://example.org/x"));
    c.domain_set_metadata(
        &domain,
        element,
        Some("<who>me</who>"),
        Some("x"),
        namespace,
        Default::default(),
    )
    .await
    .unwrap();
    let told = soon(changes.next()).await.unwrap();
    assert_eq!(told.nsuri.unwrap(), "https://example.org/x");
    c.domain_set_metadata(
        &domain,
        DomainMetadataType::TITLE,
        Some("a < b"),
        None,
        None,
        Default::default(),
    )
    .await
    .unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().kind, DomainMetadataType::TITLE.0);
    let xml = c.domain_xml(&domain, Default::default()).await.unwrap();
    assert!(xml.contains("<title>a &lt; b</title>"), "{xml}");
    assert!(
        xml.contains("<x:who xmlns:x=\"https://example.org/x\">me</x:who>"),
        "{xml}"
    );
    // What a daemon shows can be given back to it.
    c.domain_define(&xml, Default::default()).await.unwrap();
    let kept = c
        .domain_metadata(&domain, element, namespace, Default::default())
        .await
        .unwrap();
    assert!(kept.contains("me"), "{kept}");
    c.domain_set_metadata(&domain, element, None, Some("x"), namespace, Default::default())
        .await
        .unwrap();
    let gone = c
        .domain_metadata(&domain, element, namespace, Default::default())
        .await
        .unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

#[tokio::test]
async fn a_host_that_boots_starts_what_has_autostart() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let (auto, manual) = (define(&c, "auto").await, define(&c, "manual").await);
    c.domain_set_autostart(&auto, true).await.unwrap();
    start(&c, &manual).await;
    let pool = c.storage_pool_lookup_by_name("default").await.unwrap();
    c.storage_pool_set_autostart(&pool, true).await.unwrap();
    daemon.power_loss();
    soon(c.closed()).await;
    let c = daemon.connect().await.unwrap();
    assert!(c.domains(ConnectListAllDomainsFlags::ACTIVE).await.unwrap().is_empty());
    daemon.boot_host();
    let active = c.domains(ConnectListAllDomainsFlags::ACTIVE).await.unwrap();
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].name, "auto");
    assert!(c.storage_pool_is_active(&pool).await.unwrap());
    let network = c.network_lookup_by_name("default").await.unwrap();
    assert!(!c.network_is_active(&network).await.unwrap());
}

#[tokio::test]
async fn a_reboot_keeps_the_domain_and_loses_the_agent_for_a_while() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let domain = start(&c, &define(&c, "web").await).await;
    let mut agent = c.subscribe::<AgentLifecycle>(None).await.unwrap();
    let mut reboots = c.subscribe::<Reboot>(Some(&domain)).await.unwrap();
    c.domain_reset(&domain).await.unwrap();
    soon(reboots.next()).await.unwrap();
    let mut states = Vec::new();
    for _ in 0..3 {
        states.push(soon(agent.next()).await.unwrap().state);
    }
    assert_eq!(states, [2, 2, 1], "gone, not there after the start, there again");
    assert_eq!(c.domain_lookup_by_id(domain.id).await.unwrap(), domain);
    daemon.set_agent("web", false);
    assert_eq!(soon(agent.next()).await.unwrap().state, 2);
    assert!(
        c.domain_hostname(&domain, Default::default())
            .await
            .unwrap_err()
            .is_agent_unavailable()
    );
}
