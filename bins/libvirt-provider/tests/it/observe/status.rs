//! The status page: what it is drawn from, and what a browser makes of it.

use std::{net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use bigfleet_proto::MachineState as S;
use libvirt_rpc::{
    fake::{Effect, Fault},
    wire::constant::error::ErrorNumber,
};
use serde_json::Value;
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::{
    host::{Host, on_hosts},
    metrics::started,
    scrape,
};
use crate::harness::{AWAIT, Launch, Token, eventually, expect_ok};

fn status(admin: SocketAddr) -> Value {
    serde_json::from_str(&scrape::body(admin, "/status.json")).unwrap()
}

/// Machines of a zone in a state.
fn machines(status: &Value, zone: &str, state: S) -> u64 {
    let place = status["states"].as_array().unwrap().iter();
    let place = place
        .map(|name| name.as_str().unwrap())
        .position(|name| state.as_str_name().ends_with(name));
    let zones = status["zones"].as_array().unwrap();
    let zone = zones.iter().find(|found| found["name"] == zone).unwrap();
    zone["machines"][place.unwrap()].as_u64().unwrap()
}

#[tokio::test]
async fn the_page_may_run_nothing_but_its_own_script() {
    let (_provider, admin) = started(Launch::new()).await;
    for path in ["/", "/status"] {
        let answer = scrape::get(admin, path);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        assert!(
            head.contains(" 200 ") && head.contains("content-type: text/html"),
            "{head}"
        );
        let policy = head
            .lines()
            .find_map(|line| line.strip_prefix("content-security-policy: "))
            .unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'sha256-",
            "style-src 'sha256-",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(rule), "{rule} is not in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(body.starts_with("<!doctype html>"));
    }
}

#[tokio::test]
async fn hosts_machines_transitions_and_errors_are_shown() {
    let host = Host::start().await;
    let text = "out of luck".to_owned();
    let refused = Effect::Refuse(ErrorNumber::ERR_INTERNAL_ERROR, text);
    let launch = on_hosts().flag(format!("--connect=rack1={}", host.uri())).seeds(4);
    let (provider, admin) = started(launch).await;
    eventually("slots", AWAIT, async || !provider.fleet().await.is_empty()).await;
    let [good, bad] = provider.pick().await;
    expect_ok(provider.create(&good, &Token::unfenced()).await);
    provider.reach(&good, S::Idle).await;
    host.daemon.inject(Fault::on("domain_create_with_flags", refused));
    expect_ok(provider.create(&bad, &Token::unfenced()).await);
    provider.reach(&bad, S::Failed).await;

    let shown = status(admin);
    assert_eq!(
        (&shown["phase"], &shown["provider"]),
        (&"serving".into(), &"certify".into())
    );
    assert_eq!(machines(&shown, "rack1", S::Idle), 1);
    assert_eq!(machines(&shown, "rack1", S::Failed), 1);
    let on = &shown["zones"][0]["hosts"][0];
    assert_eq!(
        (&on["name"], &on["down"], &on["closed"]),
        (&"rack1".into(), &Value::Null, &Value::Null)
    );
    assert!(on["vcpus"]["capacity"].as_u64().unwrap() > on["vcpus"]["allocated"].as_u64().unwrap());
    assert!(on["vcpus"]["allocated"].as_u64().unwrap() > 0, "{on}");
    let error = &shown["errors"][0];
    assert_eq!(
        (&error["machine"], &error["transition"]),
        (&(&*bad).into(), &"Create".into())
    );
    assert!(error["error"].as_str().unwrap().contains("out of luck"), "{error}");
    eventually("a moment of history", AWAIT, async || {
        !status(admin)["history"].as_array().unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn what_is_under_way_is_shown_with_its_age() {
    let (provider, admin) = started(Launch::new().delay(Duration::from_secs(3600))).await;
    let id = provider.pick_one().await;
    let operation = expect_ok(provider.create(&id, &Token::unfenced()).await).operation_id;
    let shown = status(admin);
    assert_eq!(shown["running"], 1);
    let running = &shown["oldest"][0];
    assert_eq!(
        (&running["machine"], &running["operation"]),
        (&(&*id).into(), &(&*operation).into())
    );
    let (since, now, deadline) = (&running["since"], &shown["now"], &running["deadline"]);
    assert!(
        since.as_u64() <= now.as_u64() && now.as_u64() < deadline.as_u64(),
        "{running}"
    );
}

#[tokio::test]
async fn ten_thousand_machines_are_told_in_few_words() {
    let (provider, admin) = started(Launch::new().seeds(10_000)).await;
    let ids: Vec<_> = provider.fleet().await.into_keys().take(200).collect();
    for id in &ids {
        expect_ok(provider.create(id, &Token::unfenced()).await);
    }
    let text = scrape::body(admin, "/status.json");
    assert!(text.len() < 64 << 10, "{} bytes", text.len());
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["total"], 10_000);
}

#[tokio::test]
async fn a_host_that_is_down_shows_in_the_probes_and_makes_nothing_unready() {
    let host = Host::start().await;
    let dead = "rack1=qemu+unix:///system?socket=/nonexistent/libvirt-sock";
    let launch = on_hosts().flag(format!("--connect={dead},rack2={}", host.uri()));
    let (provider, admin) = started(launch).await;
    eventually("what is known of both hosts", AWAIT, async || {
        let text = scrape::get(admin, "/readyz?verbose");
        text.contains(" 200 ")
            && text.contains("[-] host rack1 of zone rack1: down: ")
            && text.contains("[+] host rack2 of zone rack2: up")
    })
    .await;
    assert!(!scrape::get(admin, "/readyz").contains("rack1"));
    let zone = async |name: &str| {
        let channel = Endpoint::from_shared(format!("http://{}", provider.address())).unwrap();
        let mut client = HealthClient::new(channel.connect().await.unwrap());
        let service = format!("zone/{name}");
        let answer = client.check(HealthCheckRequest { service }).await;
        answer.ok().map(|answer| answer.into_inner().status())
    };
    eventually("health by zone", AWAIT, async || {
        zone("rack1").await == Some(ServingStatus::NotServing) && zone("rack2").await == Some(ServingStatus::Serving)
    })
    .await;
}

/// What Chromium makes of the page, as HTML, and a picture of it; `None`, with a line that says so, where it is not
/// installed and nothing demands it.
fn seen(admin: SocketAddr, name: &str, dark: bool) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let chromium = |arguments: &[String]| {
        let mut command = Command::new("chromium");
        command
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args([
                "--window-size=1280,1400",
                "--virtual-time-budget=3000",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .args(arguments);
        if dark {
            command.args(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]);
        }
        command.arg(format!("http://{admin}/")).output()
    };
    let output = match chromium(&["--dump-dom".to_owned()]) {
        Ok(output) => output,
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED the status page in a browser: {error} (install Debian's `chromium`)");
            return None;
        }
        Err(error) => panic!("chromium: {error}; install Debian's `chromium`"),
    };
    let picture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("status-{name}.png"));
    let drawn = chromium(&[format!("--screenshot={}", picture.display())]).unwrap();
    assert!(drawn.status.success() && picture.exists(), "{drawn:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for wrong in ["Content Security Policy", "Uncaught"] {
        assert!(!said.contains(wrong), "{said}");
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_draws_the_page_for_few_machines_and_for_ten_thousand() {
    let (host, idle) = (Host::start().await, Host::start().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("provider.toml");
    let one = |zone: &str, name: &str, uri: &str, more: &str| {
        format!("[[hosts]]\nzone = \"{zone}\"\nname = \"{name}\"\nuri = \"{uri}\"\n{more}\n")
    };
    let hosts = [
        one("rack1", "rack1-a", &host.uri(), ""),
        one("rack1", "rack1-b", &idle.uri(), "cordon = true"),
        one(
            "rack2",
            "rack2-a",
            "qemu+unix:///system?socket=/nonexistent/libvirt-sock",
            "",
        ),
    ];
    std::fs::write(&file, hosts.concat()).unwrap();
    let launch = on_hosts().flag(format!("--config={}", file.display())).seeds(10);
    let (few, few_admin) = started(launch).await;
    eventually("slots", AWAIT, async || !few.fleet().await.is_empty()).await;
    let [good, bad] = few.pick().await;
    expect_ok(few.create(&good, &Token::unfenced()).await);
    few.reach(&good, S::Idle).await;
    let refused = Effect::Refuse(ErrorNumber::ERR_INTERNAL_ERROR, "out of luck".to_owned());
    host.daemon.inject(Fault::on("domain_create_with_flags", refused));
    expect_ok(few.create(&bad, &Token::unfenced()).await);
    few.reach(&bad, S::Failed).await;
    let (many, many_admin) = started(Launch::new().seeds(10_000).delay(Duration::from_secs(3600))).await;
    let ids: Vec<_> = many.fleet().await.into_keys().take(200).collect();
    for id in &ids {
        expect_ok(many.create(id, &Token::unfenced()).await);
    }
    for dark in [false, true] {
        let shade = if dark { "dark" } else { "light" };
        let Some(page) = seen(few_admin, &format!("few-{shade}"), dark) else {
            return;
        };
        for text in [
            "certify",
            "serving",
            "rack1-a",
            "IDLE 1",
            "live",
            "2 / 3",
            "cordoned",
            "1 of 1 hosts down",
            "out of luck",
        ] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
        let page = seen(many_admin, &format!("many-{shade}"), dark).unwrap();
        for text in ["10,000", "fake-zone-a", "CREATING 1", "the oldest 20 of them"] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
        assert!(page.matches("<tr>").count() < 120, "not every machine is a row");
    }
}
