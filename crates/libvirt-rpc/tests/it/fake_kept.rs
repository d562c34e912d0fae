//! The daemon in memory, kept by somebody else from change to change.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use libvirt_rpc::{
    Connection,
    api::AgentTimeout,
    fake::{Daemon, Effect, ExecResult, Fault, Guest, Record},
    wire::{
        constant::{domain::DomainCreateFlags, error::ErrorNumber},
        remote::record::DomainRef,
    },
};
use serde_json::json;

use crate::support::{define, pattern, volume};

/// What a keeper has.
#[derive(Clone, Default)]
struct Shelf {
    records: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// How many records were told.
    told: Arc<Mutex<Vec<usize>>>,
    broken: Arc<AtomicBool>,
}

impl Shelf {
    fn records(&self) -> Vec<Record> {
        let records = self.records.lock().unwrap();
        let records = records.iter().map(|(key, value)| Record {
            key: key.clone(),
            value: Some(value.clone()),
        });
        records.collect()
    }

    /// A daemon that goes on from here.
    fn host(&self) -> Daemon {
        let daemon = Daemon::new();
        let shelf = self.clone();
        daemon
            .live_on(self.records(), move |records| shelf.keep(records))
            .unwrap();
        daemon
    }

    fn keep(&self, records: &[Record]) -> io::Result<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut kept = self.records.lock().unwrap();
        for record in records {
            match &record.value {
                Some(value) => drop(kept.insert(record.key.clone(), value.clone())),
                None => drop(kept.remove(&record.key)),
            }
        }
        self.told.lock().unwrap().push(records.iter().map(bytes).sum());
        Ok(())
    }

    /// What another life of the host would remember now is what it remembers.
    #[track_caller]
    fn assert_has_all_of(&self, daemon: &Daemon) {
        let later = Daemon::new();
        later.live_on(self.records(), |_| Ok(())).unwrap();
        let text = |daemon: &Daemon| serde_json::to_string(&daemon.snapshot()).unwrap();
        assert_eq!(text(&later), text(daemon));
    }

    /// Bytes told since this was last asked.
    fn told(&self) -> usize {
        std::mem::take(&mut *self.told.lock().unwrap()).iter().sum()
    }
}

fn bytes(record: &Record) -> usize {
    record.key.len() + record.value.as_ref().map_or(0, Vec::len)
}

const DISK: &str = "<domain type='kvm'><name>web</name><memory>1024</memory><devices>\
    <disk type='volume' device='disk'><source pool='default' volume='disk'/><target dev='vda'/></disk>\
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>\
    <interface type='network'><source network='default'/></interface></devices></domain>";

async fn agent(c: &Connection, domain: &DomainRef, command: serde_json::Value) -> serde_json::Value {
    let (command, timeout) = (command.to_string(), AgentTimeout::new(Duration::from_secs(5)));
    let answer = c.domain_agent_command(domain, &command, timeout).await;
    let answer = answer.unwrap().unwrap();
    serde_json::from_str::<serde_json::Value>(&answer).unwrap()["return"].clone()
}

async fn started(c: &Connection) -> DomainRef {
    volume(c, "disk", 1 << 20).await;
    let domain = c.domain_define(DISK, Default::default()).await.unwrap();
    c.domain_create(&domain, DomainCreateFlags::empty()).await.unwrap()
}

#[tokio::test]
async fn after_every_call_a_later_life_would_have_all_of_it() {
    let shelf = Shelf::default();
    let daemon = shelf.host();
    daemon.set_guest(Guest::new().program("/bin/sh", |exec, files| {
        files.write("/etc/role", exec.args.join(" "));
        files.write("/run/seen", "x".repeat(100_000));
        files.remove("/etc/old");
        ExecResult::default()
    }));
    let c = daemon.connect().await.unwrap();
    assert_eq!(shelf.told(), 0, "nothing has happened yet");
    let domain = started(&c).await;
    shelf.assert_has_all_of(&daemon);
    daemon.with_files("web", |files| files.write("/etc/old", "o")).unwrap();
    shelf.assert_has_all_of(&daemon);
    agent(
        &c,
        &domain,
        json!({"execute": "guest-exec", "arguments": {"path": "/bin/sh", "arg": ["a"]}}),
    )
    .await;
    shelf.assert_has_all_of(&daemon);
    let other = volume(&c, "other", 300_000).await;
    c.volume_upload(&other, &pattern(300_000)[..], None).await.unwrap();
    shelf.assert_has_all_of(&daemon);
    daemon
        .with_files("web", |files| files.write("/run/seen", "short"))
        .unwrap();
    daemon
        .with_files("web", |files| files.rename("/etc/role", "/etc/new"))
        .unwrap();
    shelf.assert_has_all_of(&daemon);
    daemon.reboot("web");
    shelf.assert_has_all_of(&daemon);
    c.volume_delete(&other, Default::default()).await.unwrap();
    shelf.assert_has_all_of(&daemon);
    let secret = c.secret_define("<secret private='no'/>").await.unwrap();
    c.secret_set_value(&secret, b"sesame").await.unwrap();
    c.domain_destroy(&domain, Default::default()).await.unwrap();
    c.domain_undefine(&domain, Default::default()).await.unwrap();
    shelf.assert_has_all_of(&daemon);
    let (keys, left) = (shelf.records(), ["web", "other", "role"]);
    let traces = keys
        .iter()
        .filter(|record| left.iter().any(|name| record.key.contains(name)));
    assert_eq!(traces.count(), 0, "what is gone left nothing");
}

#[tokio::test]
async fn a_call_costs_what_it_changes() {
    let shelf = Shelf::default();
    let daemon = shelf.host();
    let c = daemon.connect().await.unwrap();
    let domain = started(&c).await;
    for name in 0..50 {
        define(&c, &format!("d{name}")).await;
    }
    shelf.told();
    c.domain_state(&domain).await.unwrap();
    c.domain_xml(&domain, Default::default()).await.unwrap();
    agent(&c, &domain, json!({"execute": "guest-ping"})).await;
    agent(
        &c,
        &domain,
        json!({"execute": "guest-exec", "arguments": {"path": "/bin/true"}}),
    )
    .await;
    assert_eq!(shelf.told(), 0, "who only looks changes nothing");
    c.domain_set_autostart(&domain, true).await.unwrap();
    assert!((100..3000).contains(&shelf.told()));
    let open = json!({"execute": "guest-file-open", "arguments": {"path": "/run/blob", "mode": "w"}});
    let handle = agent(&c, &domain, open).await;
    shelf.told();
    // "AAAA" is three bytes.
    let write =
        json!({"execute": "guest-file-write", "arguments": {"handle": handle, "buf-b64": "AAAA".repeat(10_000)}});
    for _ in 0..60 {
        agent(&c, &domain, write.clone()).await;
    }
    let (size, told) = (60 * 30_000, shelf.told());
    assert!(told < 5 * size, "{told} bytes told of a file of {size}");
    shelf.assert_has_all_of(&daemon);
}

#[tokio::test]
async fn a_change_that_is_not_kept_is_not_answered_and_is_kept_later() {
    let shelf = Shelf::default();
    let daemon = shelf.host();
    let c = daemon.connect().await.unwrap();
    shelf.broken.store(true, Ordering::Relaxed);
    let xml = "<domain type='kvm'><name>lost</name><memory>1024</memory></domain>";
    let cut = c.domain_define(xml, Default::default()).await.unwrap_err();
    assert!(cut.daemon().is_none(), "an answer: {cut}");
    shelf.broken.store(false, Ordering::Relaxed);
    let c = daemon.connect().await.unwrap();
    shelf.assert_has_all_of(&daemon);
    define(&c, "next").await;
    assert_eq!(daemon.domains(), ["lost", "next"]);
    shelf.assert_has_all_of(&daemon);
}

#[tokio::test]
async fn half_of_what_was_kept_is_refused() {
    let shelf = Shelf::default();
    let daemon = shelf.host();
    let c = daemon.connect().await.unwrap();
    let disk = volume(&c, "disk", 5000).await;
    c.volume_upload(&disk, &pattern(5000)[..], None).await.unwrap();
    let whole = shelf.records();
    for part in ["\"host\"", "{\"pool\"", "{\"volume\""] {
        let without: Vec<_> = whole
            .iter()
            .filter(|record| !record.key.starts_with(part))
            .cloned()
            .collect();
        assert!(without.len() < whole.len(), "{part}");
        let later = Daemon::new();
        assert!(later.live_on(without, |_| Ok(())).is_err(), "{part}");
    }
}

#[tokio::test]
async fn a_fault_may_concern_one_domain() {
    let daemon = Daemon::new();
    let broken = Effect::Refuse(ErrorNumber::ERR_INTERNAL_ERROR, "no".into());
    daemon.inject(Fault::on("domain_create", broken.clone()).naming("bad-"));
    daemon.inject(Fault::on("domain_create_with_flags", broken).naming("bad-"));
    let c = daemon.connect().await.unwrap();
    for (name, works) in [("good-1", true), ("bad-1", false)] {
        let domain = define(&c, name).await;
        let started = c.domain_create(&domain, DomainCreateFlags::empty()).await;
        assert_eq!(started.is_ok(), works, "{name}");
    }
}
