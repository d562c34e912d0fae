//! The chart: rendered by Helm, compared, and held to what a cluster may demand.

mod config;
mod files;
mod network;
mod policy;
mod refusals;
mod snapshots;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::support::{root, run, tool};

const CHART: &str = "charts/libvirt-provider";

/// Helm, and the chart.
struct Chart {
    helm: PathBuf,
}

/// What one set of values makes.
struct Rendering {
    name: String,
    text: String,
    objects: Vec<Value>,
}

impl Chart {
    fn new() -> Option<Self> {
        tool("helm").map(|helm| Self { helm })
    }

    fn folder() -> PathBuf {
        root().join(CHART)
    }

    /// The names of all `ci/NAME.values.yaml`.
    fn examples() -> Vec<String> {
        let entries = fs::read_dir(Self::folder().join("ci")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".values.yaml").map(str::to_owned))
            .collect();
        names.sort();
        assert!(names.len() >= 6, "{names:?}");
        names
    }

    fn values(example: &str) -> PathBuf {
        Self::folder().join(format!("ci/{example}.values.yaml"))
    }

    /// Renders; what Helm said if it would not.
    fn render(&self, values: &[&Path], more: &[&str]) -> Result<Rendering, String> {
        let mut helm = Command::new(&self.helm);
        helm.args(["template", "demo", "--namespace", "bigfleet"])
            .arg(Self::folder());
        for file in values {
            helm.arg("--values").arg(file);
        }
        let text = run(helm.args(more))?;
        let objects = serde_saphyr::from_multiple::<Value>(&text).map_err(|error| format!("{error}\n{text}"))?;
        Ok(Rendering {
            name: format!("{values:?} {more:?}"),
            text,
            objects: objects.into_iter().filter(|object| !object.is_null()).collect(),
        })
    }

    /// Renders an example.
    fn example(&self, name: &str, more: &[&str]) -> Rendering {
        let rendered = self.render(&[&Self::values(name)], more);
        rendered.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Rendering {
    /// The objects of a kind.
    fn all(&self, kind: &str) -> Vec<&Value> {
        self.objects.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The only object of a kind.
    fn one(&self, kind: &str) -> &Value {
        match self.all(kind)[..] {
            [object] => object,
            ref other => panic!("{}: {} of {kind}", self.name, other.len()),
        }
    }

    /// The pods it makes, each with what it is called here.
    fn pods(&self) -> Vec<(String, &Value, &Value)> {
        let pods = self.objects.iter().filter_map(|object| match object["kind"].as_str()? {
            "Deployment" => {
                let template = &object["spec"]["template"];
                Some((
                    format!("{} deployment", self.name),
                    &template["metadata"],
                    &template["spec"],
                ))
            }
            "Pod" => Some((format!("{} pod", self.name), &object["metadata"], &object["spec"])),
            _ => None,
        });
        pods.collect()
    }

    /// The provider's configuration.
    fn config(&self) -> Value {
        let maps = self.all("ConfigMap");
        let texts: Vec<&str> = maps
            .iter()
            .filter_map(|map| map["data"]["config.json"].as_str())
            .collect();
        assert_eq!(texts.len(), 1, "{}", self.name);
        serde_json::from_str(texts[0]).unwrap()
    }
}

/// Everything in a list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
