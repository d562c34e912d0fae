//! Who may call, and what may be reached.

use serde_json::{Value, json};

use super::{Chart, Rendering, list};

const ALL: &[&str] = &["--set=networkPolicy.enabled=true"];

/// The ports out, but for those of DNS.
fn ports_out(rendering: &Rendering) -> Vec<Value> {
    let rules = list(&rendering.one("NetworkPolicy")["spec"]["egress"]);
    let ports = rules.iter().flat_map(|rule| list(&rule["ports"]));
    let ports = ports.map(|port| port["port"].clone());
    ports.filter(|port| *port != 53).collect()
}

#[test]
fn what_may_be_reached_follows_from_the_hosts() {
    let Some(chart) = Chart::new() else { return };
    for (example, ports) in [
        ("minimal", json!([22])),
        ("ssh", json!([22, 2222])),
        ("tls", json!([16514, 16515])),
        ("host-socket", json!([])),
        ("fake", json!([])),
        ("everything", json!([22, 16514, 4317, 8080])),
    ] {
        assert_eq!(
            Value::Array(ports_out(&chart.example(example, ALL))),
            ports,
            "{example}"
        );
    }
}

#[test]
fn the_collector_of_traces_may_be_reached() {
    let Some(chart) = Chart::new() else { return };
    for (endpoint, port) in [("http://collector.monitoring:4319", 4319), ("http://collector", 4317)] {
        let set = format!("--set=config.traces.endpoint={endpoint}");
        let more = [ALL[0], &set];
        assert_eq!(ports_out(&chart.example("minimal", &more)), [22, port], "{endpoint}");
    }
}

#[test]
fn hosts_may_be_kept_to_their_networks() {
    let Some(chart) = Chart::new() else { return };
    let rendering = chart.example("tls", &[]);
    let hosts = &rendering.one("NetworkPolicy")["spec"]["egress"][1];
    assert_eq!(hosts["to"], json!([{"ipBlock": {"cidr": "10.20.0.0/16"}}]));
    let anywhere = chart.example("ssh", &[]);
    assert!(anywhere.one("NetworkPolicy")["spec"]["egress"][1]["to"].is_null());
}

#[test]
fn callers_and_monitoring_reach_each_their_own_port() {
    let Some(chart) = Chart::new() else { return };
    let rendering = chart.example("minimal", ALL);
    let rules = list(&rendering.one("NetworkPolicy")["spec"]["ingress"]);
    let ports: Vec<_> = rules.iter().map(|rule| &rule["ports"]).collect();
    assert_eq!(ports, [&json!([{"port": "grpc"}]), &json!([{"port": "admin"}])]);
    // No rule without `from`: that would let in everybody.
    assert!(rules.iter().all(|rule| !list(&rule["from"]).is_empty()), "{rules:#?}");
    let closed = chart.example(
        "minimal",
        &[
            "--set=networkPolicy.enabled=true",
            "--set-json=networkPolicy.monitoring=[]",
        ],
    );
    assert_eq!(list(&closed.one("NetworkPolicy")["spec"]["ingress"]).len(), 1);
}

#[test]
fn there_is_no_policy_unless_it_is_wanted() {
    let Some(chart) = Chart::new() else { return };
    assert!(chart.example("minimal", &[]).all("NetworkPolicy").is_empty());
}
