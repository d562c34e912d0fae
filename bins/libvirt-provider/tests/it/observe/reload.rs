//! Reading the configuration again, with real files and real signals; cordons; hosts that come and go; systemd.

use std::{fs, net::SocketAddr, path::PathBuf};

use bigfleet_proto::MachineState as S;
use libvirt_rpc::fake::{Effect, Fault};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::UnixDatagram;

use super::{
    host::{Host, on_hosts},
    metrics::started,
    scrape,
};
use crate::harness::{AWAIT, Launch, Provider, Token, eventually, expect_ok, expect_refused};

/// A configuration file that is written anew.
struct File {
    path: PathBuf,
    _folder: TempDir,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("provider.toml");
        fs::write(&path, text).unwrap();
        Self { path, _folder: folder }
    }

    fn flag(&self) -> String {
        format!("--config={}", self.path.display())
    }

    /// Puts another text in its place, as a person's editor does.
    fn write(&self, text: &str) {
        let new = self.path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &self.path).unwrap();
    }
}

fn hangup(provider: &Provider) {
    let pid = Pid::from_raw(provider.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
}

fn reloads(provider: &Provider) -> usize {
    provider.log_text().matches("the configuration was read again").count()
}

/// Sends SIGHUP and waits until something came of it.
async fn reload(provider: &Provider) {
    let before = reloads(provider);
    hangup(provider);
    eventually("a reload", AWAIT, async || reloads(provider) > before).await;
}

fn metric(admin: SocketAddr, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    scrape::value(
        &scrape::body(admin, "/metrics"),
        &format!("bigfleet_libvirt_{name}"),
        labels,
    )
}

/// Hosts as a configuration has them.
fn hosts(hosts: &[(&str, &Host, bool)]) -> String {
    let tables = hosts.iter().map(|(name, host, cordon)| {
        format!(
            "[[hosts]]\nzone = \"rack1\"\nname = \"{name}\"\nuri = \"{}\"\ncordon = {cordon}\n",
            host.uri()
        )
    });
    tables.collect()
}

fn offering(kind: &str, count: u32) -> String {
    format!("[[capacity.offerings]]\ninstance_type = \"{kind}\"\nzone = \"rack1\"\ncount = {count}\n")
}

/// How many machines are for sale.
async fn offered(provider: &Provider) -> usize {
    let fleet = provider.fleet().await;
    fleet
        .values()
        .filter(|machine| machine.state() == S::Speculative)
        .count()
}

async fn reaches_offered(provider: &Provider, count: usize) {
    eventually(&format!("{count} slots for sale"), AWAIT, async || {
        offered(provider).await == count
    })
    .await;
}

#[tokio::test]
async fn the_level_of_the_log_follows_and_what_needs_a_restart_is_told() {
    let file = File::new("[log]\nlevel = \"info\"\nformat = \"json\"\n");
    let (provider, admin) = started(Launch::new().flag(file.flag())).await;
    let debugs = || provider.log_text().matches("\"level\":\"DEBUG\"").count();
    assert_eq!(debugs(), 0);
    file.write("[log]\nlevel = \"debug\"\nformat = \"text\"\n[shutdown]\ngrace = \"3s\"\n");
    let before = metric(admin, "config_last_reload_timestamp_seconds", &[]).unwrap();
    reload(&provider).await;
    eventually("debug lines", AWAIT, async || {
        provider.fleet().await;
        debugs() > 0
    })
    .await;
    eventually("two keys", AWAIT, async || {
        let text = provider.log_text();
        let told = |key: &str| {
            text.lines()
                .any(|line| line.contains(key) && line.contains("after a restart"))
        };
        told("log.format") && told("shutdown.grace") && !told("log.level")
    })
    .await;
    assert_eq!(metric(admin, "config_last_reload_successful", &[]), Some(1.0));
    assert!(metric(admin, "config_last_reload_timestamp_seconds", &[]).unwrap() > before);
}

#[tokio::test]
async fn a_broken_configuration_leaves_the_old_one_in_force_and_every_mistake_is_logged() {
    let file = File::new("[log]\nlevel = \"info\"\n");
    let (provider, admin) = started(Launch::new().flag(file.flag())).await;
    file.write("[log]\nlevle = \"debug\"\nformat = 7\n");
    reload(&provider).await;
    eventually("both mistakes", AWAIT, async || {
        let text = provider.log_text();
        text.contains("log.levle") && text.contains("log.format")
    })
    .await;
    assert_eq!(metric(admin, "config_last_reload_successful", &[]), Some(0.0));
    expect_ok(provider.create(&provider.pick_one().await, &Token::unfenced()).await);
    file.write("[log]\nlevel = \"info\"\n");
    reload(&provider).await;
    assert_eq!(metric(admin, "config_last_reload_successful", &[]), Some(1.0));
}

#[tokio::test]
async fn offerings_and_prices_follow_the_configuration() {
    let host = Host::start().await;
    let base = hosts(&[("a", &host, false)]);
    let file = File::new(&format!("{base}{}", offering("kvm.small", 2)));
    let provider = on_hosts().flag(file.flag()).start().await;
    reaches_offered(&provider, 2).await;
    let price = provider.fleet().await.values().next().unwrap().price_per_hour;
    let dearer = "[capacity]\nprices = \"kvm.small=9.5\"\n";
    file.write(&format!(
        "{dearer}{base}{}{}",
        offering("kvm.small", 3),
        offering("kvm.medium", 1)
    ));
    reload(&provider).await;
    reaches_offered(&provider, 4).await;
    eventually("the new price", AWAIT, async || {
        let fleet = provider.fleet().await;
        let mut small = fleet.values().filter(|machine| machine.instance_type == "kvm.small");
        small.all(|machine| machine.price_per_hour == 9.5)
    })
    .await;
    assert_ne!(price, 9.5);
    file.write(&format!("{base}{}", offering("kvm.medium", 1)));
    reload(&provider).await;
    reaches_offered(&provider, 1).await;
}

#[tokio::test]
async fn a_machine_outlives_its_offering() {
    let host = Host::start().await;
    let base = hosts(&[("a", &host, false)]);
    let file = File::new(&format!("{base}{}", offering("kvm.small", 1)));
    let provider = on_hosts().flag(file.flag()).start().await;
    reaches_offered(&provider, 1).await;
    let id = provider.pick_one().await;
    expect_ok(provider.create(&id, &Token::unfenced()).await);
    provider.reach(&id, S::Idle).await;
    file.write(&format!("{base}{}", offering("kvm.medium", 1)));
    reload(&provider).await;
    reaches_offered(&provider, 1).await;
    assert_eq!(provider.state(&id).await, S::Idle);
    expect_ok(provider.delete(&id, &Token::unfenced()).await);
    eventually("the end of the machine", AWAIT, async || {
        host.daemon.domains().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_cordoned_host_gets_no_machines_keeps_those_it_has_and_comes_back() {
    let host = Host::start().await;
    let with = |cordon| format!("{}{}", hosts(&[("a", &host, cordon)]), offering("kvm.small", 3));
    let file = File::new(&with(false));
    let (provider, admin) = started(on_hosts().flag(file.flag())).await;
    reaches_offered(&provider, 3).await;
    let [kept, other] = provider.pick().await;
    expect_ok(provider.create(&kept, &Token::unfenced()).await);
    provider.reach(&kept, S::Idle).await;

    file.write(&with(true));
    reload(&provider).await;
    reaches_offered(&provider, 0).await;
    let labels = [("zone", "rack1"), ("host", "a")];
    assert_eq!(metric(admin, "host_cordoned", &labels), Some(1.0));
    assert_eq!(metric(admin, "host_up", &labels), Some(1.0));
    assert_eq!(provider.state(&kept).await, S::Idle);
    let refusal = expect_refused(&provider.create(&other, &Token::unfenced()).await);
    assert!(refusal.message().contains("cordoned"), "{refusal:?}");
    assert_eq!(host.daemon.domains().len(), 1);

    file.write(&with(false));
    reload(&provider).await;
    reaches_offered(&provider, 2).await;
    expect_ok(provider.create(&other, &Token::unfenced()).await);
    provider.reach(&other, S::Idle).await;
}

#[tokio::test]
async fn hosts_come_and_go_while_it_runs() {
    let (first, second) = (Host::start().await, Host::start().await);
    let offer = offering("kvm.small", 2);
    let file = File::new(&format!("{}{offer}", hosts(&[("a", &first, false)])));
    let (provider, admin) = started(on_hosts().flag(file.flag())).await;
    reaches_offered(&provider, 2).await;
    file.write(&format!(
        "{}{offer}",
        hosts(&[("a", &first, false), ("b", &second, false)])
    ));
    reload(&provider).await;
    let up = |host: &'static str| metric(admin, "host_up", &[("zone", "rack1"), ("host", host)]);
    eventually("host b", AWAIT, async || up("b") == Some(1.0)).await;
    file.write(&format!("{}{offer}", hosts(&[("b", &second, false)])));
    reload(&provider).await;
    eventually("no word of host a", AWAIT, async || up("a").is_some_and(f64::is_nan)).await;
    reaches_offered(&provider, 2).await;
    let id = provider.pick_one().await;
    expect_ok(provider.create(&id, &Token::unfenced()).await);
    provider.reach(&id, S::Idle).await;
    assert_eq!((first.daemon.domains().len(), second.daemon.domains().len()), (0, 1));
}

#[tokio::test]
async fn a_host_that_is_taken_out_while_it_has_machines_is_kept_until_it_has_none() {
    let (first, second) = (Host::start().await, Host::start().await);
    let offer = offering("kvm.small", 2);
    let file = File::new(&format!("{}{offer}", hosts(&[("a", &first, false)])));
    let (provider, admin) = started(on_hosts().flag(file.flag())).await;
    reaches_offered(&provider, 2).await;
    let id = provider.pick_one().await;
    expect_ok(provider.create(&id, &Token::unfenced()).await);
    provider.reach(&id, S::Idle).await;

    file.write(&format!("{}{offer}", hosts(&[("b", &second, false)])));
    reload(&provider).await;
    assert!(
        provider
            .log_text()
            .contains("taken out of the configuration while it has machines")
    );
    let up = |host: &'static str| metric(admin, "host_up", &[("zone", "rack1"), ("host", host)]);
    eventually("host b", AWAIT, async || up("b") == Some(1.0)).await;
    reaches_offered(&provider, 1).await;
    assert_eq!((up("a"), provider.state(&id).await), (Some(1.0), S::Idle));
    let other = provider.pick_one().await;
    expect_ok(provider.create(&other, &Token::unfenced()).await);
    provider.reach(&other, S::Idle).await;
    assert_eq!((first.daemon.domains().len(), second.daemon.domains().len()), (1, 1));

    expect_ok(provider.delete(&id, &Token::unfenced()).await);
    eventually("host a let go", AWAIT, async || up("a").is_some_and(f64::is_nan)).await;
    assert_eq!(provider.state(&other).await, S::Idle);
}

#[tokio::test]
async fn a_host_that_moves_keeps_its_machines() {
    let host = Host::start().await;
    let offer = offering("kvm.small", 1);
    let file = File::new(&format!("{}{offer}", hosts(&[("a", &host, false)])));
    let provider = on_hosts().flag(file.flag()).start().await;
    reaches_offered(&provider, 1).await;
    let id = provider.pick_one().await;
    expect_ok(provider.create(&id, &Token::unfenced()).await);
    provider.reach(&id, S::Idle).await;
    let moved = host.again();
    file.write(&format!("{}{offer}", hosts(&[("a", &moved, false)])));
    reload(&provider).await;
    eventually("clients at the new address", AWAIT, async || {
        provider.log_text().matches("host is up").count() == 2
    })
    .await;
    expect_ok(provider.delete(&id, &Token::unfenced()).await);
    eventually("the end of the machine", AWAIT, async || {
        host.daemon.domains().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_host_that_is_away_and_may_have_machines_is_kept_too() {
    let (first, second) = (Host::start().await, Host::start().await);
    let offer = offering("kvm.small", 2);
    let file = File::new(&format!("{}{offer}", hosts(&[("a", &first, false)])));
    let (provider, admin) = started(on_hosts().flag(file.flag())).await;
    reaches_offered(&provider, 2).await;
    let id = provider.pick_one().await;
    expect_ok(provider.create(&id, &Token::unfenced()).await);
    provider.reach(&id, S::Idle).await;
    let up = |host: &'static str| metric(admin, "host_up", &[("zone", "rack1"), ("host", host)]);
    first.daemon.inject(Fault::on_all(Effect::CutBefore));
    first.daemon.restart();
    eventually("host a down", AWAIT, async || up("a") == Some(0.0)).await;
    file.write(&format!("{}{offer}", hosts(&[("b", &second, false)])));
    reload(&provider).await;
    eventually("host b", AWAIT, async || up("b") == Some(1.0)).await;
    assert_eq!((up("a"), provider.state(&id).await), (Some(0.0), S::Idle));
    first.daemon.heal();
    eventually("host a", AWAIT * 3, async || up("a") == Some(1.0)).await;
    expect_ok(provider.delete(&id, &Token::unfenced()).await);
    eventually("host a let go", AWAIT, async || up("a").is_some_and(f64::is_nan)).await;
}

#[tokio::test]
async fn a_host_in_another_zone_is_refused_as_a_whole() {
    let host = Host::start().await;
    let file = File::new(&format!(
        "{}{}",
        hosts(&[("a", &host, false)]),
        offering("kvm.small", 1)
    ));
    let (provider, admin) = started(on_hosts().flag(file.flag())).await;
    reaches_offered(&provider, 1).await;
    let moved = format!("{}{}", hosts(&[("a", &host, true)]), offering("kvm.small", 5));
    file.write(&moved.replace("rack1", "rack2"));
    reload(&provider).await;
    eventually("the reason", AWAIT, async || {
        provider
            .log_text()
            .contains("host `a` cannot move from zone `rack1` to zone `rack2`")
    })
    .await;
    assert_eq!(metric(admin, "config_last_reload_successful", &[]), Some(0.0));
    let labels = [("zone", "rack1"), ("host", "a")];
    assert_eq!(metric(admin, "host_cordoned", &labels), Some(0.0));
    assert_eq!(offered(&provider).await, 1);
}

/// Everything systemd was told so far.
async fn told(socket: &UnixDatagram, messages: &mut Vec<String>) {
    let mut bytes = [0; 4096];
    let got = tokio::time::timeout(AWAIT, socket.recv(&mut bytes)).await;
    let length = got.expect("systemd is told nothing").unwrap();
    messages.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
}

#[tokio::test]
async fn systemd_is_told_of_readiness_reloads_life_and_the_end() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let launch = Launch::new()
        .env("NOTIFY_SOCKET", path.display().to_string())
        .env("WATCHDOG_USEC", "100000");
    let provider = launch.start().await;
    let mut messages = Vec::new();
    let lines = |messages: &[String], wanted: &str| {
        let all = messages.iter().flat_map(|message| message.lines());
        all.filter(|line| *line == wanted).count()
    };
    while lines(&messages, "READY=1") < 1 || lines(&messages, "WATCHDOG=1") < 3 {
        told(&socket, &mut messages).await;
    }
    hangup(&provider);
    while lines(&messages, "READY=1") < 2 {
        told(&socket, &mut messages).await;
    }
    let reloading = messages.iter().find(|message| message.contains("RELOADING=1")).unwrap();
    let since = reloading
        .lines()
        .find_map(|line| line.strip_prefix("MONOTONIC_USEC="))
        .unwrap();
    assert!(since.parse::<u64>().unwrap() > 0);
    let ended = tokio::spawn(provider.terminate());
    while lines(&messages, "STOPPING=1") < 1 {
        told(&socket, &mut messages).await;
    }
    ended.await.unwrap();
}
