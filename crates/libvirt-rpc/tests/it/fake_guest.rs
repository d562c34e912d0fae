//! The daemon in memory: its guests, and their agent.

use std::time::Duration;

use libvirt_rpc::{
    Connection, Error, Options,
    api::AgentTimeout,
    fake::{Daemon, ExecResult, Guest},
    wire::{
        constant::{
            domain::{DomainInterfaceAddressesSource as Source, DomainShutdownFlags},
            error::ErrorNumber,
        },
        remote::record::DomainRef,
    },
};
use serde_json::{Value, json};

use crate::support::{define, soon};

struct Host {
    daemon: Daemon,
    c: Connection,
    domain: DomainRef,
}

impl Host {
    async fn with(guest: Guest) -> Self {
        let daemon = Daemon::new();
        daemon.set_guest(guest);
        let c = daemon.connect_with(Options::new().without_keepalive()).await.unwrap();
        let domain = define(&c, "web").await;
        let domain = c.domain_create(&domain, Default::default()).await.unwrap();
        Self { daemon, c, domain }
    }

    async fn ask(&self, command: &str, arguments: Value) -> Result<Value, Error> {
        let command = json!({ "execute": command, "arguments": arguments }).to_string();
        let timeout = AgentTimeout::new(Duration::from_secs(5));
        let answer = self.c.domain_agent_command(&self.domain, &command, timeout).await?;
        let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
        Ok(answer["return"].clone())
    }

    async fn open(&self, path: &str, mode: &str) -> Value {
        self.ask("guest-file-open", json!({ "path": path, "mode": mode }))
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn programs_work_on_the_guests_files() {
    let guest = Guest::new()
        .program("/bin/sh", |exec, files| {
            let script = exec.args.get(1).cloned().unwrap_or_default();
            files.write("/var/log/ran", script);
            ExecResult {
                stdout: b"done".to_vec(),
                ..ExecResult::default()
            }
        })
        .program("/bin/kill-me", |_, _| ExecResult {
            signal: Some(9),
            ..ExecResult::default()
        });
    let host = Host::with(guest).await;
    let args = json!({ "path": "/bin/sh", "arg": ["-c", "echo a 'b c'; exit 0"], "capture-output": true });
    let pid = host.ask("guest-exec", args).await.unwrap();
    let status = host.ask("guest-exec-status", pid.clone()).await.unwrap();
    assert_eq!(status, json!({ "exited": true, "exitcode": 0, "out-data": "ZG9uZQ==" }));
    let again = host.ask("guest-exec-status", pid).await.unwrap_err();
    assert_eq!(again.code(), Some(ErrorNumber::ERR_AGENT_COMMAND_FAILED));
    assert_eq!(
        host.daemon.files("web").unwrap().text("/var/log/ran"),
        Some("echo a 'b c'; exit 0")
    );

    let pid = host.ask("guest-exec", json!({ "path": "/bin/kill-me" })).await.unwrap();
    let status = host.ask("guest-exec-status", pid).await.unwrap();
    assert_eq!(status, json!({ "exited": true, "signal": 9 }));
    let missing = host
        .ask("guest-exec", json!({ "path": "/bin/nosuch" }))
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("No such file or directory"), "{missing}");
    host.daemon.set_version(9_000_000);
    let missing = host
        .ask("guest-exec", json!({ "path": "/bin/nosuch" }))
        .await
        .unwrap_err();
    assert_eq!(missing.code(), Some(ErrorNumber::ERR_INTERNAL_ERROR), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn a_program_takes_its_time() {
    let guest = Guest::new().on_exec(|_| ExecResult {
        time: Duration::from_secs(20),
        ..ExecResult::default()
    });
    let host = Host::with(guest).await;
    let pid = host.ask("guest-exec", json!({ "path": "/bin/sleep" })).await.unwrap();
    assert_eq!(
        host.ask("guest-exec-status", pid.clone()).await.unwrap(),
        json!({ "exited": false })
    );
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert_eq!(
        host.ask("guest-exec-status", pid).await.unwrap(),
        json!({ "exited": true, "exitcode": 0 })
    );
}

#[tokio::test]
async fn files_are_written_and_read_as_by_a_c_stream() {
    let host = Host::with(Guest::new()).await;
    let handle = host.open("/etc/x", "w").await;
    let written = json!({ "handle": handle, "buf-b64": "aGVsbG8gd29ybGQ=" });
    assert_eq!(
        host.ask("guest-file-write", written).await.unwrap(),
        json!({ "count": 11, "eof": false })
    );
    host.ask("guest-file-flush", json!({ "handle": handle })).await.unwrap();
    let unreadable = host
        .ask("guest-file-read", json!({ "handle": handle }))
        .await
        .unwrap_err();
    assert!(unreadable.to_string().contains("Bad file descriptor"), "{unreadable}");
    host.ask("guest-file-close", json!({ "handle": handle })).await.unwrap();
    let closed = host
        .ask("guest-file-close", json!({ "handle": handle }))
        .await
        .unwrap_err();
    assert!(closed.to_string().contains("has not been found"), "{closed}");
    assert_eq!(host.daemon.files("web").unwrap().mode("/etc/x"), Some(0o666));

    let handle = host.open("/etc/x", "r+").await;
    let sought = json!({ "handle": handle, "offset": 6, "whence": "set" });
    assert_eq!(
        host.ask("guest-file-seek", sought).await.unwrap(),
        json!({ "position": 6, "eof": false })
    );
    let read = host
        .ask("guest-file-read", json!({ "handle": handle, "count": 5 }))
        .await
        .unwrap();
    assert_eq!(read, json!({ "count": 5, "buf-b64": "d29ybGQ=", "eof": false }));
    let read = host
        .ask("guest-file-read", json!({ "handle": handle, "count": 5 }))
        .await
        .unwrap();
    assert_eq!(read, json!({ "count": 0, "buf-b64": "", "eof": true }));
    let appended = host.open("/etc/x", "ab").await;
    host.ask("guest-file-write", json!({ "handle": appended, "buf-b64": "IQ==" }))
        .await
        .unwrap();
    assert_eq!(host.daemon.files("web").unwrap().text("/etc/x"), Some("hello world!"));
    let missing = host
        .ask("guest-file-open", json!({ "path": "/etc/nosuch" }))
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("No such file or directory"), "{missing}");
}

#[tokio::test]
async fn what_is_disabled_is_said_and_refused() {
    let host = Host::with(Guest::new().disable("guest-exec")).await;
    let info = host.ask("guest-info", json!({})).await.unwrap();
    let enabled = |name: &str| {
        let commands = info["supported_commands"].as_array().unwrap();
        commands.iter().find(|c| c["name"] == name).unwrap()["enabled"].clone()
    };
    assert_eq!(
        (enabled("guest-exec"), enabled("guest-ping")),
        (json!(false), json!(true))
    );
    let refused = host
        .ask("guest-exec", json!({ "path": "/bin/true" }))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("has been disabled"), "{refused}");
    let unknown = host.ask("guest-nonsense", json!({})).await.unwrap_err();
    assert!(unknown.to_string().contains("has not been found"), "{unknown}");
    let name = host.ask("guest-get-host-name", json!({})).await.unwrap();
    assert_eq!(name, json!({ "host-name": "web" }));
}

#[tokio::test(start_paused = true)]
async fn a_guest_boots_then_its_agent_comes() {
    let guest = Guest::new()
        .boot_time(Duration::from_secs(20))
        .agent_time(Duration::from_secs(5))
        .on_boot(|domain, files| files.write("/run/cloud-init/result.json", format!("{{\"for\":\"{domain}\"}}")));
    let host = Host::with(guest).await;
    let result = |host: &Host| {
        host.daemon
            .files("web")
            .unwrap()
            .text("/run/cloud-init/result.json")
            .map(str::to_owned)
    };
    assert_eq!(result(&host), None);
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert_eq!(result(&host).as_deref(), Some(r#"{"for":"web"}"#));
    let early = host.ask("guest-ping", json!({})).await.unwrap_err();
    assert!(early.is_agent_unavailable(), "{early}");
    let agent = DomainShutdownFlags::GUEST_AGENT;
    let unheard = host.c.domain_shutdown(&host.domain, agent).await.unwrap_err();
    assert!(unheard.is_agent_unavailable(), "{unheard}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    host.ask("guest-ping", json!({})).await.unwrap();
    host.ask("guest-shutdown", json!({ "mode": "powerdown" }))
        .await
        .unwrap();
    assert!(!host.c.domain_is_active(&host.domain).await.unwrap());
}

#[tokio::test]
async fn an_address_is_the_same_whoever_is_asked() {
    let daemon = Daemon::new();
    let c = daemon.connect().await.unwrap();
    let xml = "<domain type='kvm'><name>net</name><memory>1024</memory><devices>\
        <interface type='network'><source network='default'/></interface>\
        <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>";
    let domain = c.domain_define(xml, Default::default()).await.unwrap();
    let xml = c.domain_xml(&domain, Default::default()).await.unwrap();
    assert!(xml.contains("<mac address='52:54:00:"), "{xml}");
    let domain = c.domain_create(&domain, Default::default()).await.unwrap();
    let network = c.network_lookup_by_name("default").await.unwrap();
    let leases = c.network_dhcp_leases(&network, None).await.unwrap();
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0].hostname.as_ref().unwrap(), &"net");
    let mac = leases[0].mac.as_ref().unwrap().to_string();
    for source in [Source::LEASE, Source::AGENT] {
        let known = c.domain_interface_addresses(&domain, source).await.unwrap();
        assert_eq!(known[0].addrs[0].addr, leases[0].ipaddr, "{source:?}");
        assert_eq!(known[0].hwaddr.as_ref().unwrap(), mac.as_str());
    }
    assert_eq!(c.network_dhcp_leases(&network, Some(&mac)).await.unwrap().len(), 1);
    assert!(
        c.network_dhcp_leases(&network, Some("52:54:00:00:00:00"))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_console_says_its_piece_and_ends_with_the_domain() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let host = Host::with(Guest::new().console("web login: ")).await;
    let opened = host.c.domain_open_console(&host.domain, None, Default::default()).await;
    let mut console = opened.unwrap();
    let mut text = [0; 11];
    soon(console.read_exact(&mut text)).await.unwrap();
    assert_eq!(&text, b"web login: ");
    console.write_all(b"root").await.unwrap();
    let mut echo = [0; 4];
    soon(console.read_exact(&mut echo)).await.unwrap();
    assert_eq!(&echo, b"root");
    host.daemon.power_off("web");
    assert_eq!(soon(console.read(&mut text)).await.unwrap(), 0, "the guest is off");
    assert!(!host.c.domain_is_active(&host.domain).await.unwrap());
}
