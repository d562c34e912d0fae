//! Commands that ask hosts, on daemons in memory: `doctor`, `inspect hosts`, `seed`, `console`. Real ones are in
//! `commands_lab`.

use std::{fs, path::PathBuf, time::Duration};

use libvirt_backend::name::DomainName;
use libvirt_rpc::{
    Connection,
    fake::Daemon,
    wire::constant::{domain::DomainDefineFlags, storage::StorageVolCreateFlags},
};
use providerkit::MachineId;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{End, Launch, Run};

const NAMESPACE: &str = "https://bigfleet.dev/libvirt-provider/machine/1";

/// A daemon at a socket, with a golden image.
struct Host {
    daemon: Daemon,
    folder: TempDir,
}

impl Host {
    async fn start() -> Self {
        let (daemon, folder) = (Daemon::new(), TempDir::new().unwrap());
        daemon.listen(folder.path().join("sock")).unwrap();
        let host = Self { daemon, folder };
        let control = host.control().await;
        let pool = control.storage_pool_lookup_by_name("default").await.unwrap();
        let image = "<volume><name>golden.qcow2</name><capacity unit='GiB'>2</capacity>\
            <target><format type='qcow2'/></target></volume>";
        control
            .volume_create(&pool, image, StorageVolCreateFlags::empty())
            .await
            .unwrap();
        host
    }

    async fn control(&self) -> Connection {
        self.daemon.connect().await.unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("sock")
    }

    fn uri(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.socket().display())
    }

    fn command(&self, command: &[&str]) -> Run {
        Run::of(command)
            .flag("--connect", format!("rack1={}", self.uri()))
            .arg("--image=golden.qcow2")
            .arg("--seed-count=4")
            .flag("--state", self.folder.path().join("state.db"))
    }

    /// What the doctor says of it, as JSON; where it links to must be written.
    async fn doctor(&self, arguments: &[&str]) -> Findings {
        let run = self.command(&["doctor", "-o", "json"]);
        let run = arguments.iter().fold(run, Run::arg);
        Findings::of(&end(run).await)
    }

    /// A domain of somebody's.
    async fn define(&self, name: &str, owner: Option<&Value>) {
        let metadata =
            owner.map(|owner| format!("<metadata><b:machine xmlns:b='{NAMESPACE}'>{owner}</b:machine></metadata>"));
        let metadata = metadata.unwrap_or_default();
        let xml = format!("<domain type='kvm'><name>{name}</name><memory>1024</memory>{metadata}</domain>");
        self.control()
            .await
            .domain_define(&xml, DomainDefineFlags::empty())
            .await
            .unwrap();
    }
}

/// As a provider writes it down for a machine of its.
fn owner(provider: &str, machine: &str, ready: bool) -> Value {
    let operation = "01890a5d-ac96-774b-bcce-b302099a8057";
    serde_json::json!({
        "schema": 1, "provider": provider, "machine": machine, "slot": machine, "pool": "default", "image": "i",
        "created_by": operation, "disk_by": operation, "ready": ready,
        "profile": {"instance_type": "t", "zone": "z", "capacity_type": "on-demand", "price_per_hour": 0.0,
            "interruption_probability": 0.0, "resources": {}, "allocatable": {}, "labels": {}},
    })
}

/// Beside the daemon, which lives in this process.
async fn end(run: Run) -> End {
    tokio::task::spawn_blocking(|| run.end()).await.unwrap()
}

struct Findings {
    code: i32,
    all: Value,
}

impl Findings {
    fn of(end: &End) -> Self {
        let all: Value = serde_json::from_str(&end.out).unwrap_or_else(|_| panic!("{}{}", end.out, end.err));
        let documented = include_str!("../../../../docs/doctor.md");
        for section in all["sections"].as_array().unwrap() {
            for check in section["checks"].as_array().unwrap() {
                let heading = format!("\n## {}\n", check["name"].as_str().unwrap());
                assert!(documented.contains(&heading), "docs/doctor.md has no {heading}");
            }
        }
        Self { code: end.code, all }
    }

    /// The outcome of a check of the host, and what was said.
    fn check(&self, name: &str) -> (&str, String) {
        let sections = self.all["sections"].as_array().unwrap();
        let checks = sections.iter().filter(|section| section["host"] == "rack1");
        let mut checks = checks.flat_map(|section| section["checks"].as_array().unwrap());
        let check = checks.find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no check {name}: {:#}", self.all));
        let text = |key: &str| check[key].as_str().unwrap_or_default();
        (text("outcome"), format!("{} → {}", text("detail"), text("remedy")))
    }

    fn assert(&self, name: &str, outcome: &str, words: &[&str]) {
        let (found, said) = self.check(name);
        assert_eq!(found, outcome, "{name}: {said}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

#[tokio::test]
async fn a_good_host_passes_every_check_and_is_left_as_it_was() {
    let host = Host::start().await;
    let found = host.doctor(&["--write"]).await;
    assert_eq!(found.code, 0, "{:#}", found.all);
    for (name, words) in [
        ("uri", &["unix socket"][..]),
        ("connection", &[]),
        ("libvirt", &["libvirt "]),
        ("qemu", &["QEMU "]),
        ("kvm", &["KVM can be used"]),
        ("machine type", &["q35"]),
        ("firmware", &[]),
        ("size", &["64 CPUs, 262144 MiB"]),
        ("pool", &["`default` is active", "GiB free"]),
        ("image", &["golden.qcow2", "2048 MiB", "(qcow2)"]),
        ("addresses", &["253 addresses for 4 slots"]),
        ("ownership", &["0 domains are ours"]),
        ("volumes", &["made, written and deleted"]),
        ("permissions", &["defined and undefined"]),
    ] {
        found.assert(name, "ok", words);
    }
    assert_eq!(host.daemon.domains(), [""; 0]);
    assert_eq!(host.daemon.calls("storage_vol_delete"), 1);
    let looked = host.doctor(&[]).await;
    assert_eq!(looked.code, 0);
    looked.assert("permissions", "skipped", &["--write"]);
    assert_eq!(host.daemon.calls("domain_define_xml_flags"), 1);
}

#[tokio::test]
async fn what_is_missing_on_a_host_is_told_with_what_there_is_and_what_to_do() {
    let host = Host::start().await;
    let found = host.doctor(&["--storage-pool=fast", "--network=lan"]).await;
    assert_eq!((found.code, &found.all["verdict"]), (69, &"fail".into()));
    found.assert(
        "pool",
        "fail",
        &[
            "no storage pool `fast`",
            "the host has `default`",
            "virsh pool-define-as fast",
        ],
    );
    found.assert("image", "skipped", &[]);
    found.assert("network", "fail", &["no network `lan`", "the host has `default`"]);

    let found = host.doctor(&["--image=gold.qcow2", "--network=bridge:br7"]).await;
    assert_eq!(found.code, 69);
    found.assert(
        "image",
        "fail",
        &["`gold.qcow2` is not in pool `default`", "`golden.qcow2`"],
    );
    found.assert("network", "fail", &["no bridge `br7`"]);
}

#[tokio::test]
async fn a_network_that_is_off_fails_only_where_nobody_would_start_it() {
    let host = Host::start().await;
    let control = host.control().await;
    let network = control.network_lookup_by_name("default").await.unwrap();
    control.network_destroy(&network).await.unwrap();
    let found = host.doctor(&[]).await;
    assert_eq!((found.code, &found.all["verdict"]), (0, &"warn".into()));
    found.assert(
        "network",
        "warn",
        &["the first Create will start it", "virsh net-start default"],
    );
    let found = host.doctor(&["--set=machine.start_networks=false"]).await;
    assert_eq!(found.code, 69);
    found.assert("network", "fail", &["not active", "virsh net-start default"]);
}

#[tokio::test]
async fn few_addresses_and_full_pools_are_seen_before_they_hurt() {
    let host = Host::start().await;
    let found = host.doctor(&["--seed-count=200"]).await;
    assert_eq!(found.code, 0);
    found.assert(
        "addresses",
        "warn",
        &["253 addresses for 200 slots", "net-edit default"],
    );
    assert!(host.daemon.resize_pool("default", 9 << 30));
    let found = host.doctor(&[]).await;
    assert_eq!(found.code, 69);
    found.assert("pool", "fail", &["nothing fits", "pool_reserve_gib"]);
}

#[tokio::test]
async fn a_host_that_is_cordoned_is_shown_as_that() {
    let host = Host::start().await;
    let file = host.folder.path().join("hosts.toml");
    let uri = host.uri();
    fs::write(
        &file,
        format!("[[hosts]]\nzone = 'rack1'\nuri = '{uri}'\ncordon = true\n"),
    )
    .unwrap();
    let run = |command: &[&str]| Run::of(command).flag("--config", &file).arg("--image=golden.qcow2");
    let found = Findings::of(&end(run(&["doctor", "-o", "json"])).await);
    assert_eq!(found.code, 0);
    found.assert("cordon", "warn", &["no new machines", "SIGHUP"]);
    let listed = end(run(&["inspect", "hosts", "--no-headers"])).await;
    assert!(listed.out.contains(" cordoned "), "{}{}", listed.out, listed.err);
}

#[tokio::test]
async fn domains_of_others_are_told_apart() {
    let host = Host::start().await;
    host.define("somebody", None).await;
    host.define("bf-other", Some(&owner("other", "m", true))).await;
    host.define("bf-own", Some(&owner("libvirt", "m", true))).await;
    let found = host.doctor(&[]).await;
    assert_eq!(found.code, 0);
    found.assert("ownership", "warn", &["`other` (1)", "1 are ours (`libvirt`)"]);

    let seed = host.command(&["seed", "--machine=libvirt-rack1-kvm.small-000"]);
    let file = host.folder.path().join("seed.iso");
    let told = end(seed.flag("-o", &file)).await;
    assert_eq!(told.code, 0, "{}", told.err);
    // The name that the machine's domain will have, out of its seed.
    let image = fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&image);
    let name = text
        .split("local-hostname: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    let domain = name.trim_matches(['"', '\'']).rsplit_once('-').unwrap().0;
    host.define(domain, None).await;
    let found = host.doctor(&[]).await;
    assert_eq!(found.code, 69);
    found.assert("ownership", "fail", &[domain, "by hand"]);
}

/// Whatever one host does, the others are told of, and all of it ends.
#[tokio::test]
async fn a_frozen_host_is_told_in_time_and_holds_up_no_other() {
    let (good, frozen) = (Host::start().await, Host::start().await);
    frozen.daemon.set_latency(Duration::from_secs(3600));
    let both = format!("rack1={},rack2={}", good.uri(), frozen.uri());
    let run = |command: &[&str]| Run::of(command).flag("--connect", &both).arg("--image=golden.qcow2");
    let told = end(run(&["doctor", "--timeout=300ms"])).await;
    assert_eq!(told.code, 69);
    let (first, second) = told.out.split_once("host rack2 in zone rack2").unwrap();
    assert!(first.contains("✓ connection") && !first.contains('✗'), "{first}");
    assert!(
        second.contains("✗ connection     libvirtd does not answer within 300ms"),
        "{second}"
    );
    assert!(second.contains("/docs/doctor.md#connection\n"), "{second}");
    let verdict = told.out.lines().last().unwrap();
    assert!(
        verdict.starts_with("1 of ") && verdict.contains(" checks failed"),
        "{verdict}"
    );
    assert!(!told.out.contains('\x1b'), "no colours in a pipe");

    let one = end(run(&["doctor", "--timeout=300ms", "--zone=rack1"])).await;
    assert!(one.code == 0 && !one.out.contains("rack2"), "{}", one.out);
    let none = end(run(&["doctor", "--zone=rack3"])).await;
    assert!(none.code == 64 && none.err.contains("`rack1`, `rack2`"), "{}", none.err);
}

#[tokio::test]
async fn a_wait_ends_when_the_host_is_there() {
    let host = Host::start().await;
    fs::rename(host.socket(), host.folder.path().join("away")).unwrap();
    let absent = host.doctor(&["--wait=10ms"]).await;
    assert_eq!(absent.code, 69);
    absent.assert("connection", "fail", &["No such file", "?socket="]);
    let mut child = host.command(&["doctor", "--wait=5m"]).spawn();
    let status = async {
        // By then it has looked in vain, or will look only now: both are right.
        tokio::task::yield_now().await;
        fs::rename(host.folder.path().join("away"), host.socket()).unwrap();
        tokio::task::spawn_blocking(move || child.wait().unwrap())
            .await
            .unwrap()
    };
    assert_eq!(status.await.code(), Some(0));
}

#[tokio::test]
async fn a_configuration_with_mistakes_is_the_first_thing_a_doctor_tells() {
    let end = Run::of(&["doctor", "--connect=qemu+tcp://h/system", "--seed-count=-1"]).end();
    assert_eq!(end.code, 64);
    assert!(
        end.out.contains("✗ configuration  flag --connect") && end.out.contains("flag --seed-count"),
        "{}",
        end.out
    );
    assert!(!end.out.contains("\nstate"), "{}", end.out);
}

#[tokio::test]
async fn hosts_are_listed_with_what_they_have_and_those_that_are_down_with_why() {
    let host = Host::start().await;
    host.define("somebody", None).await;
    let nowhere = host.folder.path().join("nowhere");
    let connect = format!(
        "rack1={},rack2=qemu+unix:///system?socket={}",
        host.uri(),
        nowhere.display()
    );
    let run = |command: &[&str]| Run::of(command).flag("--connect", &connect).arg("--image=i");
    let table = end(run(&["inspect", "hosts"])).await;
    assert_eq!(table.code, 0, "{}", table.err);
    let lines: Vec<_> = table.out.lines().collect();
    assert!(
        lines[0].starts_with("HOST    ZONE    STATUS   CPUS USED"),
        "{}",
        table.out
    );
    assert!(
        lines[1].contains("up       0/64") && lines[1].contains("1024.0 GiB"),
        "{}",
        table.out
    );
    assert!(
        lines[2].contains("down") && lines[2].contains("connect"),
        "{}",
        table.out
    );
    let json = end(run(&["inspect", "hosts", "-o", "json"])).await;
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json[0]["other_domains"], &json[0]["cpus"]), (&1.into(), &64.into()));
    assert!(json[1]["error"].as_str().unwrap().contains("nowhere"), "{json}");
    let fake = Run::of(&["inspect", "hosts", "--use-fake-backend"]).end();
    assert!(fake.code == 64 && fake.err.contains("hosts are fake"), "{}", fake.err);
}

#[test]
fn a_seed_is_what_the_guest_of_that_operation_gets() {
    let folder = TempDir::new().unwrap();
    let user_data = folder.path().join("user-data");
    fs::write(&user_data, "#cloud-config\ntimezone: Europe/Vienna\n").unwrap();
    let seed = |name: &str, operation: &str| {
        let file = folder.path().join(name);
        Run::of(&[
            "seed",
            "--connect=qemu:///system",
            "--image=i",
            "--machine=libvirt-local-kvm.small-001",
        ])
        .flag("--base-user-data", &user_data)
        .flag("--operation", operation)
        .flag("-o", &file)
        .ok();
        fs::read(file).unwrap()
    };
    let one = seed("one", "01890a5d-ac96-774b-bcce-b302099a8057");
    assert_eq!(&one[32_769..32_774], b"CD001");
    let text = String::from_utf8_lossy(&one);
    for word in [
        "cidata",
        "timezone: Europe/Vienna",
        "local-hostname: ",
        "bf-libvirt-local-kvm-small-001-",
    ] {
        assert!(text.contains(word), "{word}");
    }
    assert!(seed("again", "01890a5d-ac96-774b-bcce-b302099a8057") == one);
    assert!(seed("other", "01890a5d-ac96-774b-bcce-b302099a8058") != one);
    let unknown = Run::of(&[
        "seed",
        "--connect=qemu:///system",
        "--image=i",
        "--machine=m",
        "-o",
        "/nowhere",
    ])
    .end();
    assert!(
        unknown.code == 64 && unknown.err.contains("there are `libvirt-local-"),
        "{}",
        unknown.err
    );
}

#[tokio::test]
async fn a_console_of_nobody_is_told_from_a_host_that_is_silent() {
    let host = Host::start().await;
    let nobody = end(host.command(&["console", "m"])).await;
    assert!(
        nobody.code == 69 && nobody.err.contains("is on no host"),
        "{}",
        nobody.err
    );
    let gone = Run::of(&[
        "console",
        "m",
        "--image=i",
        "--connect=qemu+unix:///system?socket=/nowhere",
    ])
    .end();
    assert!(gone.code == 69 && gone.err.contains("/nowhere"), "{}", gone.err);
}

/// What is made for machines of the state goes, what is in use and what is somebody's stays.
#[tokio::test]
async fn a_janitor_removes_what_an_attempt_left_and_keeps_what_is_in_use() {
    let host = Host::start().await;
    let state = host.folder.path().join("state.db");
    let provider = Launch::on(&state).seeds(2).start().await;
    let [left, stray] = provider.pick().await;
    let (exit, _) = provider.terminate().await;
    assert_eq!(exit.code(), Some(0));
    let name = |machine: &str| DomainName::new("certify", &MachineId::new(machine).unwrap()).to_string();
    let unknown = "certify-gone";
    host.define(&name(&left), Some(&owner("certify", &left, false))).await;
    host.define(&name(unknown), Some(&owner("certify", unknown, true)))
        .await;
    host.define(&name(&stray), Some(&owner("other", &stray, false))).await;

    let run = |more: &[&str]| {
        end(more
            .iter()
            .fold(host.command(&["janitor", "--provider=certify"]), Run::arg))
    };
    let dry = run(&["--dry-run"]).await;
    let lines = [
        format!("rack1: domain {} of machine {left}: would be removed\n", name(&left)),
        format!(
            "rack1: domain {} of machine {unknown}, in use but not in the state: would be kept\n",
            name(unknown)
        ),
    ];
    assert_eq!((dry.code, dry.out), (0, lines.concat()), "{}", dry.err);
    assert_eq!(host.daemon.domains().len(), 3);
    let wet = run(&[]).await;
    assert_eq!(
        (wet.code, wet.out),
        (0, lines.concat().replace("would be ", "")),
        "{}",
        wet.err
    );
    let mut kept = host.daemon.domains();
    kept.sort();
    let mut expected = [name(unknown), name(&stray)];
    expected.sort();
    assert_eq!(kept, expected);

    let nowhere = Run::of(&["janitor", "--image=i", "--connect=qemu+unix:///system?socket=/nowhere"]);
    let down = end(nowhere.flag("--state", &state)).await;
    assert!(
        down.code == 69 && down.out.contains("local: not looked at"),
        "{}{}",
        down.out,
        down.err
    );
}

#[tokio::test]
async fn a_janitor_without_a_state_that_knows_machines_removes_nothing() {
    let host = Host::start().await;
    host.define("bf-left", Some(&owner("libvirt", "m", false))).await;
    let without = Run::of(&["janitor", "--image=i", "--connect=qemu:///system"]).end();
    assert!(without.code == 64 && without.err.contains("--state"), "{}", without.err);
    let absent = end(host.command(&["janitor"])).await;
    assert!(
        absent.code == 64 && absent.err.contains("is not there"),
        "{}",
        absent.err
    );
    assert_eq!(host.daemon.domains(), ["bf-left"]);
    assert!(!host.folder.path().join("state.db").exists());
}

#[test]
fn shells_and_manuals_know_the_commands() {
    for (shell, word) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef"),
        ("fish", "complete -c libvirt-provider"),
    ] {
        let text = Run::of(&["completions", shell]).ok();
        assert!(
            text.contains(word) && text.contains("doctor") && text.contains("dry-run"),
            "{shell}"
        );
    }
    let manual = Run::of(&["man"]).ok();
    for word in [
        ".TH libvirt-provider 1",
        "COMMAND DOCTOR",
        "COMMAND INSPECT",
        "\\-\\-dry\\-run",
    ] {
        assert!(manual.contains(word), "{word}");
    }
}
