//! What holds for every rendering, whatever the values.

use serde_json::{Value, json};

use super::{Chart, Rendering, list};

fn everywhere(check: impl Fn(&Rendering, &str)) {
    let Some(chart) = Chart::new() else { return };
    for name in Chart::examples() {
        check(&chart.example(&name, &[]), &name);
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    list(&spec["containers"]).iter().chain(list(&spec["initContainers"]))
}

/// Kubernetes' `restricted` Pod Security level, control by control.
fn breaches_of_restricted(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[key] == true {
            found.push(key.to_owned());
        }
    }
    for volume in list(&spec["volumes"]) {
        let allowed = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        let kinds = volume.as_object().unwrap().keys().filter(|key| *key != "name");
        found.extend(
            kinds
                .filter(|kind| !allowed.contains(&kind.as_str()))
                .map(|kind| format!("volume {kind}")),
        );
    }
    let pod = &spec["securityContext"];
    for container in containers(spec) {
        let own = &container["securityContext"];
        let effective = |key: &str| if own[key].is_null() { &pod[key] } else { &own[key] };
        let wrong = [
            ("privileged", own["privileged"] == true),
            ("allowPrivilegeEscalation", own["allowPrivilegeEscalation"] != false),
            ("runAsNonRoot", *effective("runAsNonRoot") != true),
            ("runAsUser", *effective("runAsUser") == 0),
            ("seccomp", effective("seccompProfile")["type"] != "RuntimeDefault"),
            ("capabilities", own["capabilities"] != json!({"drop": ["ALL"]})),
            (
                "hostPort",
                list(&container["ports"]).iter().any(|port| !port["hostPort"].is_null()),
            ),
        ];
        found.extend(
            wrong
                .iter()
                .filter(|(_, wrong)| *wrong)
                .map(|(what, _)| (*what).to_owned()),
        );
    }
    found
}

#[test]
fn every_pod_keeps_to_the_restricted_level_but_for_the_sockets_folder() {
    everywhere(|rendering, example| {
        let pods = rendering.pods();
        assert_eq!(pods.len(), 2, "{}", rendering.name);
        for (name, _, spec) in pods {
            let expected: &[&str] = match example {
                "host-socket" if name.ends_with("deployment") => &["volume hostPath"],
                _ => &[],
            };
            assert_eq!(breaches_of_restricted(spec), expected, "{name}");
        }
    });
}

#[test]
fn the_check_of_the_restricted_level_finds_every_breach() {
    let good = json!({
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "a", "secret": {}}],
        "containers": [{"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    });
    assert!(breaches_of_restricted(&good).is_empty());
    for (pointer, bad) in [
        ("/hostNetwork", json!(true)),
        ("/volumes/0", json!({"name": "a", "hostPath": {}})),
        ("/securityContext/runAsNonRoot", json!(null)),
        ("/securityContext/runAsUser", json!(0)),
        ("/securityContext/seccompProfile", json!(null)),
        ("/containers/0/securityContext/allowPrivilegeEscalation", json!(null)),
        ("/containers/0/securityContext/privileged", json!(true)),
        ("/containers/0/securityContext/capabilities/add", json!(["NET_ADMIN"])),
        ("/containers/0/ports", json!([{"hostPort": 1}])),
    ] {
        let mut spec = good.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = spec.pointer_mut(parent).unwrap();
        match parent {
            Value::Array(items) => items[0] = bad,
            _ => parent[key] = bad,
        }
        assert_eq!(breaches_of_restricted(&spec).len(), 1, "{pointer}");
    }
}

#[test]
fn nothing_speaks_to_the_api_server() {
    everywhere(|rendering, _| {
        for (name, _, spec) in rendering.pods() {
            assert_eq!(spec["automountServiceAccountToken"], false, "{name}");
            assert_eq!(spec["enableServiceLinks"], false, "{name}");
        }
        assert_eq!(rendering.one("ServiceAccount")["automountServiceAccountToken"], false);
        for kind in ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"] {
            assert!(rendering.all(kind).is_empty(), "{} {kind}", rendering.name);
        }
    });
}

#[test]
fn there_is_one_provider_and_never_two_at_a_time() {
    everywhere(|rendering, _| {
        let spec = &rendering.one("Deployment")["spec"];
        assert_eq!(
            (&spec["replicas"], &spec["strategy"]),
            (&json!(1), &json!({"type": "Recreate"}))
        );
    });
}

#[test]
fn ids_are_numbers_and_the_root_is_read_only_and_memory_is_bounded() {
    everywhere(|rendering, _| {
        for (name, _, spec) in rendering.pods() {
            for id in ["runAsUser", "runAsGroup", "fsGroup"] {
                assert_eq!(spec["securityContext"][id], 65532, "{name} {id}");
            }
            for container in containers(spec) {
                assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{name}");
                let resources = &container["resources"];
                assert!(resources["requests"]["cpu"].is_string(), "{name}");
                assert!(resources["requests"]["memory"].is_string(), "{name}");
                assert_eq!(resources["requests"]["memory"], resources["limits"]["memory"], "{name}");
            }
        }
    });
}

/// Whether labels have all that a selector wants.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
}

#[test]
fn selectors_select_the_provider_and_not_the_test() {
    everywhere(|rendering, _| {
        let provider = &rendering.one("Deployment")["spec"]["template"]["metadata"]["labels"];
        let test = &rendering.one("Pod")["metadata"]["labels"];
        let mut selectors = vec![
            &rendering.one("Deployment")["spec"]["selector"]["matchLabels"],
            &rendering.one("Service")["spec"]["selector"],
        ];
        let others = rendering
            .all("PodDisruptionBudget")
            .into_iter()
            .chain(rendering.all("PodMonitor"));
        selectors.extend(others.map(|object| &object["spec"]["selector"]["matchLabels"]));
        let policies = rendering.all("NetworkPolicy");
        selectors.extend(
            policies
                .iter()
                .map(|policy| &policy["spec"]["podSelector"]["matchLabels"]),
        );
        for selector in selectors {
            assert!(selects(selector, provider), "{} {selector} {provider}", rendering.name);
            assert!(!selects(selector, test), "{} {selector} {test}", rendering.name);
        }
        for policy in policies {
            let first = &policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
            assert!(selects(first, test), "{}: the test is not let in", rendering.name);
        }
    });
}

#[test]
fn every_name_of_a_port_is_one_of_the_container() {
    everywhere(|rendering, _| {
        let container = &rendering.one("Deployment")["spec"]["template"]["spec"]["containers"][0];
        let ports: Vec<_> = list(&container["ports"]).iter().map(|port| &port["name"]).collect();
        assert_eq!(ports, ["grpc", "admin"], "{}", rendering.name);
        for port in list(&rendering.one("Service")["spec"]["ports"]) {
            assert!(ports.contains(&&port["targetPort"]), "{} {port}", rendering.name);
        }
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let probe = &container[probe];
            let asked = [&probe["httpGet"]["port"], &probe["grpc"]["port"]];
            let admin = &list(&container["ports"])[1]["containerPort"];
            assert!(
                asked.iter().any(|port| **port == *"admin" || **port == *admin),
                "{} {probe}",
                rendering.name
            );
        }
    });
}

#[test]
fn every_mount_has_its_volume_and_secrets_are_for_the_group_alone() {
    everywhere(|rendering, _| {
        let spec = &rendering.one("Deployment")["spec"]["template"]["spec"];
        let volumes = list(&spec["volumes"]);
        for mount in list(&spec["containers"][0]["volumeMounts"]) {
            let found = volumes.iter().filter(|volume| volume["name"] == mount["name"]).count();
            assert_eq!(found, 1, "{} {mount}", rendering.name);
        }
        for secret in volumes.iter().filter_map(|volume| volume.get("secret")) {
            assert_eq!(secret["defaultMode"], 0o440, "{} {secret}", rendering.name);
        }
    });
}

#[test]
fn every_object_is_labelled_and_in_the_namespace_and_shortly_named() {
    let Some(chart) = Chart::new() else { return };
    let long = format!("--set=fullnameOverride={}", "a".repeat(70));
    for name in Chart::examples() {
        for more in [&[][..], &[long.as_str()], &["--set=nameOverride=x"]] {
            let rendering = chart.example(&name, more);
            for object in &rendering.objects {
                let meta = &object["metadata"];
                let called = meta["name"].as_str().unwrap();
                assert!(called.len() <= 63, "{name} {called}");
                assert_eq!(meta["namespace"], "bigfleet", "{name} {called}");
                for label in ["name", "instance", "version", "part-of", "managed-by"] {
                    let value = meta["labels"][format!("app.kubernetes.io/{label}")].as_str();
                    assert!(
                        value.is_some_and(|value| (1..=63).contains(&value.len())),
                        "{name} {called} {label}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_change_of_the_configuration_starts_the_pod_anew() {
    let Some(chart) = Chart::new() else { return };
    let sum = |more: &[&str]| {
        let rendering = chart.example("minimal", more);
        let template = &rendering.one("Deployment")["spec"]["template"];
        template["metadata"]["annotations"]["checksum/config"].to_string()
    };
    assert_eq!(sum(&[]), sum(&["--set=pod.labels.a=b"]));
    assert_ne!(sum(&[]), sum(&["--set=config.log.level=debug"]));
    assert_ne!(sum(&[]), sum(&["--set=userData=x"]));
}

#[test]
fn the_claim_outlives_the_release() {
    everywhere(|rendering, _| {
        for claim in rendering.all("PersistentVolumeClaim") {
            assert_eq!(claim["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        }
    });
    let Some(chart) = Chart::new() else { return };
    for (version, mode) in [("1.31.0", "ReadWriteOncePod"), ("1.27.3", "ReadWriteOnce")] {
        let rendering = chart.example("minimal", &["--kube-version", version]);
        let claim = rendering.one("PersistentVolumeClaim");
        assert_eq!(claim["spec"]["accessModes"], json!([mode]), "{version}");
    }
}
