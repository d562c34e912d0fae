//! The configuration that the chart writes: what the values say, and what is the chart's to say.

use std::{fs, process::Command};

use serde_json::json;

use super::{Chart, list};
use crate::support::{provider, run};

#[test]
fn the_provider_accepts_what_every_example_renders() {
    let (Some(chart), Some(provider)) = (Chart::new(), provider()) else {
        return;
    };
    for name in Chart::examples() {
        let rendering = chart.example(&name, &[]);
        let folder = tempfile::tempdir().unwrap();
        let mut config = rendering.config();
        // The one file that the configuration's check reads is elsewhere here.
        if let Some(path) = config["machine"].get_mut("user_data") {
            let maps = rendering.all("ConfigMap");
            let text = maps.iter().find_map(|map| map["data"]["user-data"].as_str()).unwrap();
            let file = folder.path().join("user-data");
            fs::write(&file, text).unwrap();
            *path = json!(file);
        }
        let file = folder.path().join("config.json");
        fs::write(&file, config.to_string()).unwrap();
        let checked = run(Command::new(&provider).arg("check").arg("--config").arg(&file));
        checked.unwrap_or_else(|said| panic!("{name}: {said}"));
    }
}

#[test]
fn numbers_stay_as_they_were_written() {
    let Some(chart) = Chart::new() else { return };
    let capacity = chart.example("everything", &[]).config()["capacity"].clone();
    assert_eq!(capacity["offerings"][0]["count"].as_u64(), Some(1_000_000));
    assert_eq!(capacity["price_per_vcpu_hour"].as_f64(), Some(0.004));
}

#[test]
fn hosts_get_the_secrets_files_where_they_name_none() {
    let Some(chart) = Chart::new() else { return };
    let uris = |example: &str| {
        let config = chart.example(example, &[]).config();
        let hosts = list(&config["hosts"])
            .iter()
            .map(|host| host["uri"].as_str().unwrap().to_owned());
        hosts.collect::<Vec<_>>()
    };
    let ssh = "/etc/libvirt-provider/ssh";
    assert_eq!(
        uris("ssh"),
        [
            format!("qemu+ssh://bigfleet@host-a/system?keyfile={ssh}/id_ed25519&known_hosts={ssh}/known_hosts"),
            format!("qemu+libssh://bigfleet@host-b:2222/system?keyfile={ssh}/id_ed25519&known_hosts={ssh}/known_hosts"),
            format!("qemu+ssh://bigfleet@host-c/system?keyfile={ssh}/host-c&known_hosts={ssh}/known_hosts"),
        ]
    );
    let pki = "pkipath=/etc/libvirt-provider/pki";
    assert_eq!(
        uris("tls"),
        [
            format!("qemu+tls://host-a/system?{pki}"),
            format!("qemu://host-b:16515/system?{pki}")
        ]
    );
    assert_eq!(uris("host-socket"), ["qemu:///system"]);
}

#[test]
fn every_file_in_the_configuration_is_mounted() {
    let Some(chart) = Chart::new() else { return };
    for name in Chart::examples() {
        let rendering = chart.example(&name, &[]);
        let container = &rendering.one("Deployment")["spec"]["template"]["spec"]["containers"][0];
        let mounts: Vec<_> = list(&container["volumeMounts"])
            .iter()
            .map(|mount| format!("{}/", mount["mountPath"].as_str().unwrap()))
            .collect();
        let config = rendering.config().to_string();
        let paths: Vec<_> = config
            .split(['"', '=', '&'])
            .filter(|text| text.starts_with("/etc/") || text.starts_with("/var/"))
            .collect();
        assert!(!paths.is_empty() || name == "fake" || name == "host-socket", "{name}");
        for path in paths {
            let inside = format!("{path}/");
            assert!(
                mounts.iter().any(|mount| inside.starts_with(mount)),
                "{name}: {path} not in {mounts:?}"
            );
        }
    }
}

#[test]
fn the_test_calls_the_provider_as_its_tls_demands() {
    let Some(chart) = Chart::new() else { return };
    let files = "/etc/libvirt-provider/tls";
    let arguments = |example: &str| {
        let rendering = chart.example(example, &[]);
        let all = list(&rendering.one("Pod")["spec"]["containers"][0]["args"]);
        let texts = all.iter().map(|argument| argument.as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    let plain = ["probe", "--addr=demo-libvirt-provider.bigfleet.svc:9000"].map(str::to_owned);
    assert_eq!(arguments("minimal"), plain);
    let one_way = [&plain[..], &[format!("--tls-ca={files}/ca.crt")]].concat();
    assert_eq!(arguments("ssh"), one_way);
    let own = [
        format!("--tls-cert={files}/tls.crt"),
        format!("--tls-key={files}/tls.key"),
    ];
    assert_eq!(arguments("tls"), [&one_way[..], &own].concat());
}

#[test]
fn a_demonstration_is_simulated_and_anything_else_is_not() {
    let Some(chart) = Chart::new() else { return };
    let fake = chart.example("fake", &[]).config();
    assert_eq!((&fake["fake"]["enabled"], &fake["state"]), (&json!(true), &json!(null)));
    let real = chart.example("minimal", &[]).config();
    assert_eq!((&real["backend"], &real["fake"]), (&json!("libvirt"), &json!(null)));
    assert_eq!(real["state"], "/var/lib/libvirt-provider/state.db");
}
