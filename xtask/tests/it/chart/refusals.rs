//! What could not work is not rendered, and the reason names the value.

use super::Chart;

/// Changes to an example, and what must be said about them.
const COULD_NOT_WORK: &[(&str, &[&str], &str)] = &[
    ("minimal", &["--set-json=config.hosts=[]"], "config.hosts is empty"),
    (
        "minimal",
        &["--set=config.machine.image="],
        "config.machine.image is empty",
    ),
    (
        "minimal",
        &["--set=config.hosts[0].zone=a,config.hosts[0].uri="],
        "config.hosts[0].uri is empty",
    ),
    (
        "minimal",
        &["--set=credentials.ssh.existingSecret="],
        "credentials.ssh.existingSecret is empty",
    ),
    (
        "minimal",
        &["--set=config.hosts[0].uri=qemu+tls://a/system"],
        "credentials.tls.existingSecret is empty",
    ),
    (
        "minimal",
        &["--set=config.hosts[0].uri=qemu://a/system"],
        "credentials.tls.existingSecret is empty",
    ),
    (
        "minimal",
        &["--set=config.hosts[0].uri=qemu:///system"],
        "set hostSocket.enabled",
    ),
    (
        "minimal",
        &["--set=config.hosts[0].uri=qemu+tcp://a/system"],
        "has the transport `tcp`",
    ),
    (
        "minimal",
        &["--set=hostSocket.enabled=true"],
        "no host is `qemu:///system`",
    ),
    ("minimal", &["--set=state.enabled=false"], "state.enabled is false"),
    (
        "minimal",
        &["--set=mode=fake"],
        "mode is `fake`, but config.hosts names hosts",
    ),
    (
        "minimal",
        &["--set=config.state=/x"],
        "config.state is set by the chart",
    ),
    (
        "minimal",
        &["--set=config.connect=qemu:///system"],
        "config.connect is set by the chart",
    ),
    (
        "minimal",
        &["--set=config.backend=fake"],
        "config.backend is set by the chart",
    ),
    (
        "minimal",
        &["--set=config.fake.enabled=true"],
        "config.fake.enabled is set by the chart",
    ),
    (
        "minimal",
        &["--set=config.listen.tls.cert=/x"],
        "config.listen.tls is set by the chart",
    ),
    (
        "minimal",
        &["--set=config.listen.addr=127.0.0.1:9000"],
        "config.listen.addr is `127.0.0.1:9000`",
    ),
    ("minimal", &["--set=config.admin.addr="], "config.admin.addr is ``"),
    ("minimal", &["--set=config.admin.addr=:9000"], "have the same port"),
    (
        "minimal",
        &["--set=tls.enabled=true"],
        "tls.enabled is true without a certificate",
    ),
    (
        "minimal",
        &["--set=tls.existingSecret=x"],
        "tls.enabled is false: gRPC would be plaintext",
    ),
    (
        "minimal",
        &["--set=tls.clientAuthority=ca.crt"],
        "tls.enabled is false: gRPC would be plaintext",
    ),
    ("tls", &["--set=tls.existingSecret=x"], "exclude each other"),
    (
        "tls",
        &["--set=tls.certManager.issuerRef.name="],
        "tls.certManager.issuerRef.name is empty",
    ),
    (
        "everything",
        &["--set=metrics.serviceMonitor.enabled=true"],
        "both enabled",
    ),
    (
        "minimal",
        &["--set=config.shutdown.grace=1m55s"],
        "but config.shutdown needs 120 s",
    ),
    (
        "minimal",
        &["--set=pod.terminationGracePeriodSeconds=60"],
        "terminationGracePeriodSeconds is 60",
    ),
    (
        "minimal",
        &["--set=metrics.podMonitor.enabled=true,metrics.podMonitor.renderMode=fail"],
        "metrics.podMonitor.renderMode is `fail`",
    ),
];

#[test]
fn what_could_not_work_is_refused_with_the_value_and_the_remedy() {
    let Some(chart) = Chart::new() else { return };
    for (example, changes, sentence) in COULD_NOT_WORK {
        match chart.render(&[&Chart::values(example)], changes) {
            Ok(_) => panic!("{example} {changes:?} renders"),
            Err(said) => assert!(said.contains(sentence), "{example} {changes:?}: {said}"),
        }
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let Some(chart) = Chart::new() else { return };
    let said = chart.render(&[], &[]).err().unwrap();
    assert!(
        said.contains("config.hosts is empty") && said.contains("config.machine.image is empty"),
        "{said}"
    );
}

/// What is not in the schema, or not as there.
const NOT_IN_THE_SCHEMA: &[(&str, &str)] = &[
    ("bogusKey=1", "bogusKey"),
    ("ports.grpc=abc", "ports"),
    ("replicas=3", "replicas"),
    ("replicaCount=3", "replicaCount"),
    ("pod.replicas=3", "replicas"),
    ("mode=both", "/mode"),
    ("image.tagg=1", "tagg"),
    ("image.digest=sha256:abc", "/image/digest"),
    ("state.size=lots", "/state/size"),
    ("state.accessMode=ReadWriteMany", "/state/accessMode"),
    ("metrics.podMonitor.renderMode=maybe", "renderMode"),
    (
        "pod.terminationGracePeriodSeconds=soon",
        "terminationGracePeriodSeconds",
    ),
    ("config.hostz=1", "hostz"),
    ("config.listen.adr=:1", "adr"),
    ("config.hosts[0].url=x", "url"),
    ("config.machine.firmware=coreboot", "firmware"),
    ("config.capacity.seed_count=many", "seed_count"),
    ("config.transitions.on_restart=panic", "on_restart"),
];

#[test]
fn what_is_not_in_the_schema_is_refused() {
    let Some(chart) = Chart::new() else { return };
    let values = Chart::values("minimal");
    for (set, named) in NOT_IN_THE_SCHEMA {
        match chart.render(&[&values], &["--set", set]) {
            Ok(_) => panic!("{set} renders"),
            Err(said) => assert!(said.contains("schema") && said.contains(named), "{set}: {said}"),
        }
    }
}

#[test]
fn a_missing_operator_is_skipped_or_ignored_as_one_says() {
    let Some(chart) = Chart::new() else { return };
    let monitors = |mode: &str, more: &[&str]| {
        let set = format!("--set=metrics.podMonitor.enabled=true,metrics.podMonitor.renderMode={mode}");
        let mut all = vec![set.as_str()];
        all.extend(more);
        chart.example("minimal", &all).all("PodMonitor").len()
    };
    let installed = ["--api-versions=monitoring.coreos.com/v1"];
    assert_eq!(monitors("skip", &[]), 0);
    assert_eq!(monitors("skip", &installed), 1);
    assert_eq!(monitors("fail", &installed), 1);
    assert_eq!(monitors("always", &[]), 1);
}
