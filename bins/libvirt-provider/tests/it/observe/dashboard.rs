//! The Grafana dashboard, as code: what it asks for exists, and the file is what is written here.

use serde_json::{Value, json};

use super::{
    alerts::mentioned,
    metrics::{PREFIX, documented},
    tool,
};

const FILE: &str = "charts/libvirt-provider/files/dashboard.json";
/// Grafana's grid is 24 wide.
const WIDTH: u32 = 8;
const HEIGHT: u32 = 7;

/// A panel: title, unit, what is stacked, and its lines as (legend, expression). `$m` is the prefix, `$s` the selector.
struct Panel {
    title: &'static str,
    unit: &'static str,
    stacked: bool,
    lines: &'static [(&'static str, &'static str)],
}

const fn panel(title: &'static str, unit: &'static str, lines: &'static [(&'static str, &'static str)]) -> Panel {
    Panel {
        title,
        unit,
        stacked: false,
        lines,
    }
}

const fn stacked(title: &'static str, unit: &'static str, lines: &'static [(&'static str, &'static str)]) -> Panel {
    Panel {
        title,
        unit,
        stacked: true,
        lines,
    }
}

const ROWS: &[(&str, &[Panel])] = &[
    (
        "Fleet",
        &[
            stacked(
                "Machines by state",
                "none",
                &[("{{state}}", "sum by (state) ($mmachines{$s})")],
            ),
            stacked(
                "Machines by zone",
                "none",
                &[("{{zone}}", "sum by (zone) ($mmachines{$s,state!=\"SPECULATIVE\"})")],
            ),
            panel(
                "Slots withheld",
                "none",
                &[("{{zone}}", "sum by (zone) ($mslots_withheld{$s})")],
            ),
        ],
    ),
    (
        "Transitions",
        &[
            stacked(
                "Ended",
                "ops",
                &[(
                    "{{transition}} {{outcome}}",
                    "sum by (transition, outcome) (rate($mtransitions_total{$s}[$__rate_interval]))",
                )],
            ),
            panel(
                "Time, 95th percentile",
                "s",
                &[(
                    "{{transition}}",
                    "histogram_quantile(0.95, sum by (le, transition) (rate($mtransition_duration_seconds_bucket{$s}[$__rate_interval])))",
                )],
            ),
            stacked(
                "Under way",
                "none",
                &[("{{transition}}", "sum by (transition) ($mtransitions_in_flight{$s})")],
            ),
            panel(
                "Failed slots",
                "ops",
                &[
                    ("came back", "sum(rate($mslots_recycled_total{$s}[$__rate_interval]))"),
                    (
                        "cleanup {{outcome}}",
                        "sum by (outcome) (rate($mcleanups_total{$s}[$__rate_interval]))",
                    ),
                ],
            ),
            panel(
                "Dealings with guest agents, 95th percentile",
                "s",
                &[(
                    "{{phase}}",
                    "histogram_quantile(0.95, sum by (le, phase) (rate($magent_exec_duration_seconds_bucket{$s}[$__rate_interval])))",
                )],
            ),
            panel(
                "Drains by force, machines brought back",
                "ops",
                &[
                    (
                        "forced drains {{zone}}",
                        "sum by (zone) (rate($mforced_drains_total{$s}[$__rate_interval]))",
                    ),
                    (
                        "{{action}} {{outcome}}",
                        "sum by (action, outcome) (rate($mhealed_total{$s}[$__rate_interval]))",
                    ),
                ],
            ),
        ],
    ),
    (
        "Hosts",
        &[
            panel("Up", "bool_yes_no", &[("{{host}}", "max by (host) ($mhost_up{$s})")]),
            panel(
                "CPUs given",
                "percentunit",
                &[(
                    "{{host}}",
                    "sum by (host) ($mhost_allocated_vcpus{$s}) / sum by (host) ($mhost_capacity_vcpus{$s} > 0)",
                )],
            ),
            panel(
                "Memory given",
                "percentunit",
                &[(
                    "{{host}}",
                    "sum by (host) ($mhost_allocated_memory_bytes{$s}) / sum by (host) ($mhost_capacity_memory_bytes{$s} > 0)",
                )],
            ),
            panel(
                "Connections lost",
                "ops",
                &[(
                    "{{host}} {{reason}}",
                    "sum by (host, reason) (rate($mhost_reconnects_total{$s}[$__rate_interval]))",
                )],
            ),
            panel(
                "Leftovers and machines that do not run",
                "none",
                &[
                    ("{{host}} {{kind}}", "sum by (host, kind) ($morphans{$s}) > 0"),
                    (
                        "{{host}} {{reason}}",
                        "sum by (host, reason) ($mmachines_stopped{$s}) > 0",
                    ),
                ],
            ),
            panel(
                "Cordoned",
                "bool_yes_no",
                &[("{{host}}", "max by (host) ($mhost_cordoned{$s})")],
            ),
        ],
    ),
    (
        "Calls to libvirt",
        &[
            stacked(
                "Calls",
                "reqps",
                &[(
                    "{{outcome}}",
                    "sum by (outcome) (rate($mrpc_calls_total{$s}[$__rate_interval]))",
                )],
            ),
            panel(
                "Time, 95th percentile",
                "s",
                &[
                    (
                        "{{zone}}",
                        "histogram_quantile(0.95, sum by (le, zone) (rate($mrpc_duration_seconds_bucket{$s}[$__rate_interval])))",
                    ),
                    (
                        "{{zone}}, waiting here",
                        "histogram_quantile(0.95, sum by (le, zone) (rate($mrpc_queue_seconds_bucket{$s}[$__rate_interval])))",
                    ),
                ],
            ),
            panel(
                "Without an answer yet",
                "none",
                &[("{{zone}}", "sum by (zone) ($mrpc_in_flight{$s})")],
            ),
        ],
    ),
    (
        "Calls of BigFleet",
        &[
            stacked(
                "Calls",
                "reqps",
                &[(
                    "{{method}} {{code}}",
                    "sum by (method, code) (rate($mgrpc_requests_total{$s}[$__rate_interval]))",
                )],
            ),
            panel(
                "Time, 99th percentile",
                "s",
                &[(
                    "{{method}}",
                    "histogram_quantile(0.99, sum by (le, method) (rate($mgrpc_request_duration_seconds_bucket{$s}[$__rate_interval])))",
                )],
            ),
            panel(
                "Fenced off, repeated",
                "ops",
                &[
                    (
                        "{{reason}}",
                        "sum by (reason) (rate($mfence_rejections_total{$s}[$__rate_interval]))",
                    ),
                    (
                        "repeated {{method}}",
                        "sum by (method) (rate($midempotent_replays_total{$s}[$__rate_interval]))",
                    ),
                ],
            ),
        ],
    ),
    (
        "Process",
        &[
            panel(
                "Commits",
                "s",
                &[(
                    "99th percentile",
                    "histogram_quantile(0.99, sum by (le) (rate($mstore_commit_duration_seconds_bucket{$s}[$__rate_interval])))",
                )],
            ),
            panel("State file", "bytes", &[("{{instance}}", "$mstore_size_bytes{$s}")]),
            panel(
                "Since hosts and state were compared",
                "s",
                &[(
                    "{{instance}}",
                    "time() - $mreconcile_last_success_timestamp_seconds{$s}",
                )],
            ),
            panel(
                "Memory",
                "bytes",
                &[("{{instance}}", "process_resident_memory_bytes{$s}")],
            ),
            panel(
                "CPU",
                "percentunit",
                &[("{{instance}}", "rate(process_cpu_seconds_total{$s}[$__rate_interval])")],
            ),
            panel(
                "Until the certificate expires",
                "s",
                &[(
                    "{{listener}}",
                    "$mtls_certificate_not_after_timestamp_seconds{$s} - time()",
                )],
            ),
        ],
    ),
];

fn expression(template: &str) -> String {
    template
        .replace("$s", "job=~\"$job\",instance=~\"$instance\"")
        .replace("$m", PREFIX)
}

fn draw(panel: &Panel, id: u32, x: u32, y: u32) -> Value {
    let targets = panel.lines.iter().zip('A'..).map(|((legend, template), name)| {
        json!({ "refId": name.to_string(), "expr": expression(template), "legendFormat": legend, "datasource": source() })
    });
    json!({
        "id": id,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source(),
        "gridPos": { "x": x, "y": y, "w": WIDTH, "h": HEIGHT },
        "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0, "custom": {
            "fillOpacity": if panel.stacked { 30 } else { 0 },
            "stacking": { "mode": if panel.stacked { "normal" } else { "none" } },
        } }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name, "type": "query", "datasource": source(), "query": query, "refresh": 2,
        "includeAll": true, "multi": true, "current": { "text": "All", "value": "$__all" },
    })
}

fn dashboard() -> Value {
    let (mut panels, mut y, mut ids) = (Vec::new(), 0, 1..);
    let mut id = || ids.next().unwrap();
    for (title, row) in ROWS {
        panels.push(json!({
            "id": id(), "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": { "x": 0, "y": y, "w": 24, "h": 1 },
        }));
        y += 1;
        for line in row.chunks(3) {
            for (panel, x) in line.iter().zip((0..).step_by(WIDTH as usize)) {
                panels.push(draw(panel, id(), x, y));
            }
            y += HEIGHT;
        }
    }
    json!({
        "uid": "bigfleet-libvirt",
        "title": "BigFleet libvirt provider",
        "tags": ["bigfleet", "libvirt"],
        "schemaVersion": 39,
        "editable": true,
        "time": { "from": "now-6h", "to": "now" },
        "refresh": "30s",
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus" },
            variable("job", &format!("label_values({PREFIX}build_info, job)")),
            variable("instance", &format!("label_values({PREFIX}build_info{{job=~\"$job\"}}, instance)")),
        ] },
        "panels": panels,
    })
}

#[test]
fn the_dashboard_is_what_is_written_here() {
    let text = serde_json::to_string_pretty(&dashboard()).unwrap();
    tool::generated(FILE, &format!("{text}\n"));
}

#[test]
fn every_panel_asks_for_metrics_and_labels_that_exist() {
    let known = documented();
    for panel in ROWS.iter().flat_map(|(_, row)| *row) {
        for (legend, template) in panel.lines {
            let expression = expression(template);
            let asked = mentioned(&expression);
            assert!(!asked.is_empty(), "{}: {expression}", panel.title);
            let unknown: Vec<_> = asked.difference(&known).collect();
            assert!(
                unknown.is_empty(),
                "{}: {unknown:?} are not in docs/observability.md",
                panel.title
            );
            let labels = legend
                .split("{{")
                .skip(1)
                .filter_map(|rest| Some(rest.split_once("}}")?.0));
            for label in labels.filter(|label| *label != "instance") {
                let has = |name: &String| tool::documented_labels(name).contains(&label.to_owned());
                assert!(asked.iter().all(has), "{}: {asked:?} has no label {label}", panel.title);
            }
        }
    }
}

/// Prometheus itself reads every expression: as the recording rules they might be.
#[test]
fn every_expression_is_valid() {
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (_, template) in ROWS.iter().flat_map(|(_, row)| *row).flat_map(|panel| panel.lines) {
        let text = expression(template).replace("$__rate_interval", "5m");
        rules.push_str(&format!(
            "      - record: dashboard:line\n        labels: {{ of: {text:?} }}\n        expr: {text:?}\n"
        ));
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), rules).unwrap();
    let Some((well, said)) = tool::promtool_in(folder.path(), &["check", "rules", "rules.yaml"], "") else {
        return;
    };
    assert!(well, "{said}");
}
