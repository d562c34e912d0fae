//! Commands that ask hosts, on a real one: real libvirtd, real QEMU, a real sshd.

use std::{
    fs,
    io::Read as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use bigfleet_proto::MachineState as S;
use tempfile::TempDir;

use crate::{
    harness::{End, Launch, Provider, Run, Step, Token, eventually, fresh_port, operation},
    lab::{Host, soon},
};

/// Guests are emulated, on a machine that has other things to do.
const PATIENT: Duration = Duration::from_secs(300);

/// What serves the host, and what commands are told of it.
struct Site<'a> {
    host: &'a Host,
    folder: TempDir,
}

impl<'a> Site<'a> {
    fn of(host: &'a Host) -> Self {
        let folder = TempDir::new().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("types.json", r#"{"tiny": {"vcpu": 1, "memory_mib": 128}}"#);
        write(
            "offerings.json",
            r#"[{"instance_type": "tiny", "zone": "local", "count": 1}]"#,
        );
        Self { host, folder }
    }

    fn flags(&self) -> Vec<String> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        vec![
            format!("--connect={}", self.host.uri()),
            format!("--state={}", path("state.db")),
            format!("--instance-types={}", path("types.json")),
            format!("--offerings={}", path("offerings.json")),
            "--provider=certify".into(),
            "--image=tiny.qcow2".into(),
            "--set=machine.accelerator=qemu".into(),
            "--set=budget.pool_reserve_gib=0".into(),
        ]
    }

    fn run(&self, command: &[&str]) -> Run {
        self.flags().iter().fold(Run::of(command), Run::arg)
    }

    fn end(&self, command: &[&str]) -> End {
        self.run(command).end()
    }

    async fn provider(&self) -> Provider {
        let flags = self.flags();
        let launch = flags.into_iter().fold(Launch::new().without_fake(), Launch::flag);
        let provider = launch.start().await;
        eventually("a slot is offered", PATIENT, async || {
            !provider.fleet().await.is_empty()
        })
        .await;
        provider
    }
}

/// The line of a check.
fn line<'t>(text: &'t str, name: &str) -> &'t str {
    let mut lines = text.lines();
    lines
        .find(|line| line.split_whitespace().nth(1) == Some(name))
        .unwrap_or_else(|| panic!("{name}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doctor_sees_what_is_wrong_with_a_real_host() {
    let Some(mut host) = Host::start("a_doctor_sees_what_is_wrong_with_a_real_host").await else {
        return;
    };
    {
        let site = Site::of(&host);
        let good = site.end(&["doctor", "--write"]);
        assert_eq!(good.code, 0, "{}", good.out);
        for (name, word) in [
            ("libvirt", "libvirt "),
            ("qemu", "QEMU "),
            ("kvm", "emulated"),
            ("pool", "is active"),
            ("image", "(qcow2)"),
            ("network", "is active, and starts with its host"),
            ("addresses", "253 addresses"),
            ("volumes", "made, written and deleted"),
            ("clock", "agrees with ours"),
            ("permissions", "defined and undefined"),
        ] {
            let line = line(&good.out, name);
            assert!(line.starts_with("  ✓ ") && line.contains(word), "{line}");
        }
        assert_eq!((host.domains(), host.volumes()), (vec![], vec![]));
        let listed = site.end(&["inspect", "hosts", "-o", "wide"]);
        assert!(
            listed.code == 0 && listed.out.contains(" up "),
            "{}{}",
            listed.out,
            listed.err
        );

        host.virsh(&["net-destroy", "default"]);
        fs::remove_file(host.dir().join("lib/images/tiny.qcow2")).unwrap();
        host.virsh(&["pool-refresh", "default"]);
        let broken = site.end(&["doctor", "--set=machine.start_networks=false"]);
        assert_eq!(broken.code, 69, "{}", broken.out);
        assert!(line(&broken.out, "network").starts_with("  ✗ "), "{}", broken.out);
        assert!(
            line(&broken.out, "image").contains("`tiny.qcow2` is not in pool `default`"),
            "{}",
            broken.out
        );
        assert!(broken.out.contains("→ `virsh net-start default"), "{}", broken.out);

        host.virsh(&["pool-destroy", "default"]);
        let inactive = site.end(&["doctor"]);
        assert!(
            line(&inactive.out, "pool").contains("is not active"),
            "{}",
            inactive.out
        );
        host.virsh(&["pool-undefine", "default"]);
        let missing = site.end(&["doctor"]);
        assert!(
            line(&missing.out, "pool").contains("the host has none"),
            "{}",
            missing.out
        );

        host.signal_daemon("STOP");
        let frozen = site.end(&["doctor", "--timeout=1s"]);
        host.signal_daemon("CONT");
        assert!(
            frozen.code == 69 && line(&frozen.out, "connection").starts_with("  ✗ "),
            "{}",
            frozen.out
        );
    }
    host.kill().await;
    let site = Site::of(&host);
    let gone = site.end(&["doctor"]);
    assert!(
        gone.code == 69 && line(&gone.out, "connection").contains("cannot connect"),
        "{}",
        gone.out
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_and_a_janitor_work_beside_and_after_a_provider() {
    let Some(host) = Host::start("a_console_and_a_janitor_work_beside_and_after_a_provider").await else {
        return;
    };
    let site = Site::of(&host);
    let provider = site.provider().await;
    let id = provider.pick_one().await;
    let binding = crate::harness::Binding::to("blue");
    operation(Step::Create.call(&provider, &id, &binding, &Token::unfenced()).await);
    provider.reach_within(&id, S::Idle, PATIENT).await;
    let domain = host.domains().remove(0);

    let mut console = site.run(&["console", &id]).spawn();
    let mut screen = console.stdout.take().unwrap();
    let seen = std::thread::spawn(move || {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.contains("ping of the test") {
            let got = screen.read(&mut buffer).unwrap();
            assert!(got > 0, "the console ended with {text:?}");
            text.push_str(&String::from_utf8_lossy(&buffer[..got]));
        }
    });
    // Again and again: what was written before the console is open, nobody sees.
    soon("the guest is seen on its console", || {
        host.run_in_guest(&domain, "echo ping of the test >/dev/ttyS0");
        seen.is_finished()
    })
    .await;
    seen.join().unwrap();
    console.kill().unwrap();
    console.wait().unwrap();

    // As an attempt that was cut off leaves it; and something that only looks alike.
    let (left, foreign) = (format!("{domain}-0123abcd.qcow2"), "golden-0123abcd.qcow2");
    for name in [&left, foreign] {
        host.virsh(&["vol-create-as", "default", name, "1M", "--format", "qcow2"]);
    }
    let kept = || {
        let mut volumes = host.volumes();
        volumes.sort();
        volumes
    };
    let before = kept();
    assert!(before.contains(&left));
    let refused = site.end(&["janitor"]);
    assert!(
        refused.code == 75 && refused.err.contains("is in use by process") && refused.err.contains("--dry-run"),
        "{}",
        refused.err
    );
    let dry = site.end(&["janitor", "--dry-run"]);
    assert_eq!(
        (dry.code, dry.out),
        (0, format!("local: volume {left} in pool default: would be removed\n"))
    );
    assert_eq!(kept(), before);

    provider.kill();
    let wet = site.end(&["janitor"]);
    assert_eq!(
        (wet.code, wet.out),
        (0, format!("local: volume {left} in pool default: removed\n")),
        "{}",
        wet.err
    );
    let after: Vec<_> = before.into_iter().filter(|name| *name != left).collect();
    assert_eq!(kept(), after);
    assert!(after.iter().any(|name| name == foreign));
    assert_eq!(host.domains(), [domain]);
    assert_eq!(site.end(&["janitor", "--dry-run"]).out, "there are no leftovers\n");

    let provider = site.provider().await;
    assert_eq!(provider.state(&id).await, S::Idle);
}

/// An sshd that ends with this value.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn an_unknown_host_key_is_told_with_its_fingerprint() {
    let sshd = "/usr/sbin/sshd";
    if !std::path::Path::new(sshd).exists() {
        assert!(std::env::var_os("CI").is_none(), "sshd is missing");
        println!("SKIPPED an_unknown_host_key_is_told_with_its_fingerprint: sshd is missing (install openssh-server)");
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])
            .status();
        assert!(made.unwrap().success());
    }
    fs::create_dir_all("/run/sshd").ok();
    let port = fresh_port();
    fs::write(
        folder.path().join("conf"),
        format!("ListenAddress 127.0.0.1:{port}\nHostKey {}\n", path("host")),
    )
    .unwrap();
    fs::write(folder.path().join("known"), "").unwrap();
    let child = Command::new(sshd)
        .args(["-D", "-e", "-f", &path("conf")])
        .stderr(Stdio::null())
        .spawn();
    let _sshd = Sshd(child.unwrap());
    soon("sshd listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    })
    .await;
    let uri = format!(
        "qemu+ssh://root@127.0.0.1:{port}/system?keyfile={}&known_hosts={}",
        path("user"),
        path("known")
    );
    let end = Run::of(&["doctor", "--image=i"]).flag("--connect", &uri).end();
    assert_eq!(end.code, 69, "{}", end.out);
    assert!(line(&end.out, "port").starts_with("  ✓ "), "{}", end.out);
    let key = end.out.lines().find(|line| line.contains("host key")).unwrap();
    assert!(
        key.starts_with("  ✗ ") && key.contains("SHA256:") && key.contains(&path("known")),
        "{key}"
    );
}
