//! Metrics: which there are, what they are called, and that a scrape asks nobody.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::{SocketAddr, TcpStream},
};

use libvirt_rpc::fake::{Effect, Fault};

use super::{
    host::{Host, on_hosts},
    scrape::{self, Families, Family},
    tool,
};
use crate::{
    harness::{AWAIT, Launch, Provider, Token, eventually, expect_ok, fresh_port},
    tls::Authority,
};

pub(super) const PREFIX: &str = "bigfleet_libvirt_";

/// A provider with its admin port on a known address.
pub(super) async fn started(launch: Launch) -> (Provider, SocketAddr) {
    let admin = SocketAddr::from(([127, 0, 0, 1], fresh_port()));
    let provider = launch.metrics(Some(&admin.to_string())).start().await;
    eventually("readiness", AWAIT, async || {
        TcpStream::connect(admin).is_ok() && scrape::get(admin, "/readyz").contains(" 200 ")
    })
    .await;
    (provider, admin)
}

/// One with hosts that nobody can reach.
pub(super) fn on_dead_hosts() -> Launch {
    Launch::new()
        .without_fake()
        .flag("--connect=rack1=qemu+unix:///system?socket=/nonexistent/libvirt-sock")
        .flag("--image=golden.qcow2")
}

/// One with a host that it would show a client certificate of `authority`.
pub(super) fn on_a_dead_tls_host(authority: &Authority) -> Launch {
    let folder = authority.pki();
    Launch::new()
        .without_fake()
        .flag(format!(
            "--connect=rack1=qemu+tls://127.0.0.1:{}/system?pkipath={}",
            fresh_port(),
            folder.display()
        ))
        .flag("--image=golden.qcow2")
}

/// Everything that can be scraped, of one provider that has machines and of one that has hosts.
async fn everything() -> Families {
    let state = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let with_tls = authority
        .launch()
        .flag(format!("--state={}", state.path().join("state.db").display()));
    let (machines, admin) = started(with_tls).await;
    let mut families = scrape::families(&scrape::body(admin, "/metrics"));
    drop(machines);
    let (hosts, admin) = started(on_a_dead_tls_host(&authority)).await;
    for (name, family) in scrape::families(&scrape::body(admin, "/metrics")) {
        let known = families.entry(name).or_insert_with(|| Family {
            labels: Vec::new(),
            ..family.clone()
        });
        for label in family.labels {
            if !known.labels.contains(&label) {
                known.labels.push(label);
            }
        }
    }
    drop(hosts);
    families
}

fn table(families: &Families) -> String {
    let mut table = "| metric | type | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for (name, family) in families {
        let mut labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        labels.sort();
        let labels = if labels.is_empty() {
            "-".to_owned()
        } else {
            labels.join(", ")
        };
        writeln!(table, "| `{name}` | {} | {labels} | {} |", family.kind, family.help).unwrap();
    }
    table
}

/// Names of the metrics in the table of the docs.
pub(super) fn documented() -> BTreeSet<String> {
    let docs = std::fs::read_to_string(tool::repository("docs/observability.md")).unwrap();
    let rows = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[tokio::test]
async fn the_table_of_metrics_in_the_docs_is_what_the_binary_shows() {
    tool::generated_part("docs/observability.md", "metrics", &table(&everything().await));
}

#[tokio::test]
async fn every_metric_is_described_and_has_bounded_labels() {
    let families = everything().await;
    for (name, Family { kind, help, labels }) in &families {
        assert!(
            help.ends_with('.') || name.starts_with("process_"),
            "{name} has no help: {help}"
        );
        assert_ne!(kind, "summary", "{name} has no buckets");
        assert!(name.starts_with(PREFIX) || name.starts_with("process_"), "{name}");
        for label in labels {
            let unbounded = ["machine_id", "machine", "shard", "cluster", "uuid", "error", "path"];
            assert!(!unbounded.contains(&label.as_str()), "{name} has label {label}");
        }
    }
    // Those of the reference, and what its alerts select.
    for (name, labels) in [
        ("api_calls_total", vec!["op", "outcome"]),
        ("api_duration_seconds", vec!["op"]),
        ("grpc_requests_total", vec!["code", "method"]),
        ("grpc_request_duration_seconds", vec!["method"]),
        ("panics_total", vec![]),
        ("reconcile_total", vec!["outcome"]),
    ] {
        let mut found = families[&format!("{PREFIX}{name}")].labels.clone();
        found.sort();
        assert_eq!(found, labels, "{name}");
    }
}

#[tokio::test]
async fn what_a_transition_counts_is_there_before_the_first_and_right_after_it() {
    let (provider, admin) = started(Launch::new()).await;
    let ended = |outcome: &str| {
        let labels = [("transition", "Create"), ("outcome", outcome)];
        scrape::value(
            &scrape::body(admin, "/metrics"),
            "bigfleet_libvirt_transitions_total",
            &labels,
        )
    };
    assert_eq!((ended("ok"), ended("failed")), (Some(0.0), Some(0.0)));
    let id = provider.pick_one().await;
    expect_ok(provider.create(&id, &Token::unfenced()).await);
    eventually("the end of the Create", AWAIT, async || ended("ok") == Some(1.0)).await;
    let text = scrape::body(admin, "/metrics");
    let idle: f64 = text
        .lines()
        .filter(|line| line.starts_with("bigfleet_libvirt_machines{state=\"IDLE\""))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(idle, 1.0);
    let took = [("transition", "Create")];
    assert_eq!(
        scrape::value(&text, "bigfleet_libvirt_transition_duration_seconds_count", &took),
        Some(1.0)
    );
}

#[tokio::test]
async fn a_host_that_nobody_can_reach_shows_and_the_process_is_ready_all_the_same() {
    let (_provider, admin) = started(on_dead_hosts()).await;
    let up = [("zone", "rack1"), ("host", "rack1")];
    assert_eq!(
        scrape::value(&scrape::body(admin, "/metrics"), "bigfleet_libvirt_host_up", &up),
        Some(0.0)
    );
}

/// Field report F104. Were the host asked, nothing would answer.
#[tokio::test]
async fn neither_a_scrape_nor_the_status_asks_a_host() {
    let host = Host::start().await;
    let (provider, admin) = started(on_hosts().flag(format!("--connect=rack1={}", host.uri()))).await;
    eventually("slots", AWAIT, async || !provider.fleet().await.is_empty()).await;
    host.daemon.inject(Fault::on_all(Effect::Silence));
    let text = scrape::body(admin, "/metrics");
    let labels = [("zone", "rack1"), ("host", "rack1")];
    let of = |name: &str| scrape::value(&text, &format!("{PREFIX}{name}"), &labels);
    assert_eq!(of("host_up"), Some(1.0));
    assert!(of("host_capacity_vcpus") > Some(0.0) && of("host_capacity_memory_bytes") > Some(0.0));
    for path in ["/status.json", "/readyz?verbose"] {
        assert!(scrape::body(admin, path).contains("rack1"), "{path}");
    }
}

#[tokio::test]
async fn promtool_has_nothing_against_the_metrics() {
    let (provider, admin) = started(Launch::new()).await;
    provider.fleet().await;
    let text = scrape::body(admin, "/metrics");
    let (_hosts, admin) = started(on_dead_hosts()).await;
    for text in [text, scrape::body(admin, "/metrics")] {
        let Some((well, said)) = tool::promtool(&["check", "metrics"], &text) else {
            return;
        };
        assert!(well && said.trim().is_empty(), "{said}");
    }
}
