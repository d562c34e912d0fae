//! `cargo xtask chart`: what of the chart is generated, from the binary's own types and from comments.

mod readme;
mod schema;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{process, workspace};

const CHART: &str = "charts/libvirt-provider";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only compare; fail if a file would change
    #[arg(long)]
    check: bool,
    /// Ask this libvirt-provider for its configuration's schema, instead of building one
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
}

/// Writes `values.schema.json` and the table in `README.md`, or only compares them.
///
/// # Errors
/// When the binary cannot be asked, or with `check` when a committed file differs from what would be written.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let chart = workspace::root().join(CHART);
    let read = |name: &str| {
        let path = chart.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let provider = match &arguments.provider {
        Some(path) => path.clone(),
        None => build()?,
    };
    let values = read("values.yaml")?;
    let fresh = [
        (
            "values.schema.json",
            schema::of_values(&read("values.schema.in.json")?, &ask(&provider)?)?,
        ),
        ("README.md", readme::with_table(&read("README.md")?, &values)?),
    ];
    let mut stale = Vec::new();
    for (name, text) in fresh {
        let path = chart.join(name);
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        if arguments.check {
            stale.push(format!("{CHART}/{name}"));
        } else {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    ensure!(
        stale.is_empty(),
        "{} would change; run `cargo xtask chart`",
        stale.join(", ")
    );
    Ok(())
}

fn build() -> Result<PathBuf> {
    process::run(&mut process::cargo([
        "build",
        "--quiet",
        "--package",
        "libvirt-provider",
    ]))?;
    Ok(workspace::target().join("debug/libvirt-provider"))
}

/// The schema of the provider's configuration.
fn ask(provider: &Path) -> Result<String> {
    let output = Command::new(provider)
        .args(["config", "schema"])
        .output()
        .with_context(|| format!("starting {}", provider.display()))?;
    if !output.status.success() {
        bail!(
            "{} config schema: {}",
            provider.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}
