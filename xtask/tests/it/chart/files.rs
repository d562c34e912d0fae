//! What lies in the chart's folder.

use std::process::Command;

use serde_json::Value;

use super::{CHART, Chart};
use crate::support::{provider, read, run};

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
        ("values.schema.in.json", false),
    ] {
        assert_eq!(
            names.contains(&format!("libvirt-provider/{file}")),
            there,
            "{file}\n{names}"
        );
    }
}
