//! What lies in the chart's folder.

use std::process::Command;

use serde_json::Value;

use super::{CHART, Chart};
use crate::support::{provider, read, run, tool};

#[test]
fn the_generated_files_are_those_of_today() {
    let Some(provider) = provider() else { return };
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let checked = run(xtask.args(["chart", "--check", "--provider"]).arg(provider));
    checked.unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn helm_has_nothing_to_complain_about() {
    let Some(chart) = Chart::new() else { return };
    for example in Chart::examples() {
        let mut helm = Command::new(&chart.helm);
        helm.args(["lint", "--strict"])
            .arg(Chart::folder())
            .arg("--values")
            .arg(Chart::values(&example));
        run(&mut helm).unwrap_or_else(|said| panic!("{example}: {said}"));
    }
}

#[test]
fn the_chart_has_the_version_of_the_workspace() {
    let chart: Value = serde_saphyr::from_str(&read(&format!("{CHART}/Chart.yaml"))).unwrap();
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    let version = version.unwrap().trim_matches('"');
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&version.into(), &version.into())
    );
    let images = chart["annotations"]["artifacthub.io/images"].as_str().unwrap();
    assert!(images.contains(&format!(":{version}\n")), "{images}");
}

/// The paths of all values; lists and empty tables are values.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value.as_object() {
        Some(table) if !table.is_empty() => {
            for (key, value) in table {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                leaves(value, &path, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn the_readme_describes_every_value() {
    let values: Value = serde_saphyr::from_str(&read(&format!("{CHART}/values.yaml"))).unwrap();
    let readme = read(&format!("{CHART}/README.md"));
    let mut found = Vec::new();
    leaves(&values, "", &mut found);
    assert!(found.len() > 80, "{found:?}");
    for path in found {
        let mut at = path.as_str();
        // Of a table that is described as a whole, the parts need no words of their own.
        while !readme.contains(&format!("| `{at}` |")) {
            let Some((parent, _)) = at.rsplit_once('.') else {
                panic!("`{path}` is in no row of the README; give it a comment `# -- …` in values.yaml");
            };
            at = parent;
        }
    }
}

#[test]
fn what_is_packed_is_what_is_installed() {
    let Some(chart) = Chart::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    run(Command::new(&chart.helm)
        .arg("package")
        .arg(Chart::folder())
        .arg("--destination")
        .arg(folder.path()))
    .unwrap();
    let archive = std::fs::read_dir(folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let names = run(Command::new("tar").arg("-tzf").arg(archive)).unwrap();
    for (file, there) in [
        ("values.schema.json", true),
        ("README.md", true),
        ("templates/tests/probe.yaml", true),
        ("ci/", false),
        ("files/alerts.yaml", true),
        ("files/alerts_test.yaml", false),
        ("values.schema.in.json", false),
    ] {
        assert_eq!(
            names.contains(&format!("libvirt-provider/{file}")),
            there,
            "{file}\n{names}"
        );
    }
}

#[test]
fn alerts_and_dashboard_are_installed_as_they_are_in_the_files() {
    let Some(chart) = Chart::new() else { return };
    let rendering = chart.example("everything", &[]);
    let alerts: Value = serde_saphyr::from_str(&read(&format!("{CHART}/files/alerts.yaml"))).unwrap();
    assert!(alerts["groups"][0]["rules"][0]["alert"].is_string());
    assert_eq!(rendering.one("PrometheusRule")["spec"], alerts);
    let dashboard: Value = serde_json::from_str(&read(&format!("{CHART}/files/dashboard.json"))).unwrap();
    let maps = rendering.all("ConfigMap");
    let installed = maps
        .iter()
        .find_map(|map| map["data"]["libvirt-provider.json"].as_str())
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(installed).unwrap(), dashboard);
    assert!(dashboard["panels"].is_array());
}

/// The commands of the first console block after a heading.
fn console(readme: &str, heading: &str) -> String {
    let section = readme.split_once(heading).unwrap().1;
    let block = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    block.replace("\\\n", " ")
}

#[test]
fn the_secret_that_the_readme_makes_is_the_one_that_is_read() {
    let Some(kubectl) = tool("kubectl") else { return };
    let commands = console(&read(&format!("{CHART}/README.md")), "## Install");
    let create = commands
        .lines()
        .find(|line| line.starts_with("kubectl create secret"))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    for file in ["id_ed25519", "known_hosts"] {
        std::fs::write(folder.path().join(file), file).unwrap();
    }
    let mut command = Command::new(kubectl);
    command
        .args(create.split_whitespace().skip(1))
        .args(["--dry-run=client", "--output=yaml"]);
    let secret: Value = serde_saphyr::from_str(&run(command.current_dir(folder.path())).unwrap()).unwrap();
    let values: Value = serde_saphyr::from_str(&read(&format!("{CHART}/values.yaml"))).unwrap();
    let ssh = &values["credentials"]["ssh"];
    for key in ["privateKey", "knownHosts"] {
        assert!(secret["data"][ssh[key].as_str().unwrap()].is_string(), "{secret}");
    }
    assert!(commands.contains(&format!(
        "existingSecret={}",
        secret["metadata"]["name"].as_str().unwrap()
    )));
}

#[test]
fn the_install_of_the_readme_renders() {
    let Some(chart) = Chart::new() else { return };
    let commands = console(&read(&format!("{CHART}/README.md")), "## Install");
    let install = commands
        .lines()
        .find(|line| line.starts_with("helm install"))
        .unwrap()
        .replace('\'', "");
    let sets = install
        .split_whitespace()
        .skip_while(|word| *word != "--set")
        .collect::<Vec<_>>();
    assert_eq!(sets.len(), 6, "three values: {sets:?}");
    let rendering = chart.render(&[], &sets).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(rendering.text, chart.example("minimal", &[]).text);
}

#[test]
fn the_notes_say_what_one_has_to_know() {
    let Some(chart) = Chart::new() else { return };
    let notes = |example: &str| {
        let mut helm = Command::new(&chart.helm);
        helm.args(["install", "demo", "--namespace", "bigfleet", "--dry-run=client"]);
        helm.arg(Chart::folder()).arg("--values").arg(Chart::values(example));
        let said = run(helm.env("KUBECONFIG", "/dev/null")).unwrap_or_else(|said| panic!("{example}: {said}"));
        said.split_once("NOTES:\n").unwrap().1.to_owned()
    };
    for example in Chart::examples() {
        let said = notes(&example);
        assert_eq!(said.contains("DEMONSTRATION"), example == "fake", "{example}\n{said}");
        assert_eq!(
            said.contains("hostSocket mounts"),
            example == "host-socket",
            "{example}\n{said}"
        );
        assert_eq!(
            said.contains("gRPC is plaintext"),
            !["tls", "ssh", "everything"].contains(&&*example),
            "{said}"
        );
        assert!(said.contains("helm test demo --namespace bigfleet"), "{said}");
        assert!(!said.contains("<no value>"), "{said}");
    }
    assert!(notes("everything").contains("capacity.bigfleet.svc:9443"));
}
