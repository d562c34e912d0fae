//! Who may import whom.

use cargo_metadata::{DependencyKind, Package};

use super::Finding;
use crate::workspace;

/// What each crate of the workspace may import from the workspace; its own tests may import no more than that.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("bigfleet-proto", &[]),
    ("cloud-init", &[]),
    ("libvirt-rpc", &[]),
    ("providerkit-backend", &[]),
    ("providerkit", &["bigfleet-proto", "providerkit-backend"]),
    // A backend compiles and is tested without tonic or SQLite, so never the engine.
    ("libvirt-backend", &["cloud-init", "libvirt-rpc", "providerkit-backend"]),
    (
        "providerkit-runtime",
        &["bigfleet-proto", "providerkit", "providerkit-backend"],
    ),
    // It certifies a provider in any language, so it knows the wire only.
    ("conformance", &["bigfleet-proto"]),
    // Only the binary knows both BigFleet's side and libvirt's.
    (
        "libvirt-provider",
        &[
            "libvirt-backend",
            "libvirt-rpc",
            "providerkit",
            "providerkit-backend",
            "providerkit-runtime",
        ],
    ),
    ("xtask", &[]),
    // A part of xtask that has to speak to what it measures.
    ("rpc-bench", &["libvirt-rpc"]),
];

/// What tests and examples may import on top: they speak to the binary from outside.
const TESTS_MAY_IMPORT: &[(&str, &[&str])] = &[("libvirt-provider", &["bigfleet-proto", "conformance"])];

/// Crates from outside that only some of ours may use.
struct Kept {
    /// The crate itself, and all whose names go on from it with a dash.
    names: &'static [&'static str],
    only_in: &'static [&'static str],
    also_in_tests_of: &'static [&'static str],
}

const KEPT: &[Kept] = &[
    Kept {
        names: &["tonic", "prost"],
        // xtask generates the code.
        only_in: &[
            "bigfleet-proto",
            "providerkit",
            "providerkit-runtime",
            "conformance",
            "xtask",
        ],
        also_in_tests_of: &["libvirt-provider"],
    },
    Kept {
        names: &["figment", "metrics-exporter-prometheus"],
        only_in: &["providerkit-runtime"],
        also_in_tests_of: &[],
    },
    Kept {
        names: &["opentelemetry", "opentelemetry_sdk", "tracing-opentelemetry"],
        only_in: &["providerkit-runtime"],
        // A receiver of traces.
        also_in_tests_of: &["libvirt-provider"],
    },
    Kept {
        names: &["anyhow"],
        only_in: &["libvirt-provider", "xtask", "rpc-bench", "conformance"],
        also_in_tests_of: &[],
    },
    Kept {
        names: &["rusqlite", "libsqlite3-sys"],
        // The binary keeps its fake hosts so.
        only_in: &["providerkit", "libvirt-provider"],
        also_in_tests_of: &[],
    },
];

/// A crate of the workspace, as far as the rules care.
#[derive(Debug)]
pub(super) struct Crate {
    name: String,
    manifest: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug)]
struct Dependency {
    name: String,
    ours: bool,
    tests_only: bool,
}

impl Crate {
    pub(super) fn new(package: &Package) -> Self {
        let dependencies = package.dependencies.iter().map(|dependency| Dependency {
            name: dependency.name.clone(),
            ours: dependency.path.is_some(),
            tests_only: dependency.kind == DependencyKind::Development,
        });
        Self {
            name: package.name.to_string(),
            manifest: workspace::relative(package.manifest_path.as_std_path()),
            dependencies: dependencies.collect(),
        }
    }
}

/// Every import that points up or sideways.
pub(super) fn check(crates: &[Crate]) -> Vec<Finding> {
    crates.iter().flat_map(check_one).collect()
}

fn check_one(it: &Crate) -> Vec<Finding> {
    let Some(allowed) = row(MAY_IMPORT, &it.name) else {
        let what = format!(
            "crate `{}` has no place in the layers; give it one in xtask/src/tidy/layers.rs",
            it.name
        );
        return vec![Finding::new(&it.manifest, what)];
    };
    let allowed_in_tests = row(TESTS_MAY_IMPORT, &it.name).unwrap_or_default();
    let mut findings = Vec::new();
    for dependency in &it.dependencies {
        let name = dependency.name.as_str();
        let permitted = if dependency.ours {
            allowed.contains(&name) || dependency.tests_only && allowed_in_tests.contains(&name)
        } else {
            KEPT.iter().all(|kept| kept.permits(&it.name, dependency))
        };
        if !permitted {
            let from = if dependency.tests_only { "tests of " } else { "" };
            let what = format!("{from}`{}` must not import `{name}`", it.name);
            findings.push(Finding::new(&it.manifest, what));
        }
    }
    findings
}

impl Kept {
    fn permits(&self, importer: &str, dependency: &Dependency) -> bool {
        !self.names.iter().any(|name| goes_on_from(&dependency.name, name))
            || self.only_in.contains(&importer)
            || dependency.tests_only && self.also_in_tests_of.contains(&importer)
    }
}

fn goes_on_from(name: &str, start: &str) -> bool {
    name.strip_prefix(start)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn row(table: &[(&str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(of, _)| *of == name).map(|(_, row)| *row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn importing(importer: &str, name: &str, ours: bool, tests_only: bool) -> Vec<Finding> {
        check(&[Crate {
            name: importer.into(),
            manifest: "Cargo.toml".into(),
            dependencies: vec![Dependency {
                name: name.into(),
                ours,
                tests_only,
            }],
        }])
    }

    #[test]
    fn arrows_between_our_crates_point_down() {
        for (importer, name) in [
            ("providerkit", "providerkit-backend"),
            ("libvirt-backend", "libvirt-rpc"),
            ("libvirt-provider", "providerkit-runtime"),
            ("conformance", "bigfleet-proto"),
        ] {
            assert_eq!(importing(importer, name, true, false), [], "{importer} -> {name}");
        }
        for (importer, name) in [
            ("libvirt-backend", "providerkit"),
            ("providerkit", "libvirt-rpc"),
            ("conformance", "providerkit"),
            ("providerkit-backend", "bigfleet-proto"),
            ("xtask", "providerkit"),
            ("libvirt-provider", "bigfleet-proto"),
        ] {
            assert_eq!(importing(importer, name, true, false).len(), 1, "{importer} -> {name}");
        }
    }

    #[test]
    fn tests_of_the_binary_speak_the_wire_and_those_of_a_backend_do_not() {
        assert_eq!(importing("libvirt-provider", "bigfleet-proto", true, true), []);
        assert_eq!(importing("libvirt-backend", "providerkit", true, true).len(), 1);
    }

    #[test]
    fn crates_from_outside_stay_where_they_are_kept() {
        for (importer, name) in [
            ("bigfleet-proto", "tonic-prost"),
            ("providerkit-runtime", "figment"),
            ("libvirt-provider", "anyhow"),
            ("providerkit-backend", "tokio-util"),
        ] {
            assert_eq!(importing(importer, name, false, false), [], "{importer} -> {name}");
        }
        for (importer, name) in [
            ("providerkit-backend", "tonic"),
            ("libvirt-provider", "tonic-health"),
            ("providerkit", "figment"),
            ("libvirt-provider", "opentelemetry-otlp"),
            ("providerkit", "anyhow"),
            ("libvirt-backend", "rusqlite"),
        ] {
            assert_eq!(importing(importer, name, false, false).len(), 1, "{importer} -> {name}");
        }
        assert_eq!(importing("libvirt-provider", "tonic", false, true), []);
    }

    #[test]
    fn a_crate_without_a_place_in_the_layers_is_found() {
        let findings = importing("newcomer", "serde", false, false);
        assert!(findings[0].what.contains("no place in the layers"), "{findings:?}");
    }
}
