//! The rules of `docs/architecture.md` that a program can check.

mod layers;
mod manifests;
mod messages;
mod sizes;
mod sources;
mod words;

use std::{fmt, fs};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

use crate::{codegen, workspace};

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    place: String,
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Checks the workspace and prints what breaks a rule.
///
/// # Errors
/// When something does, or when the workspace cannot be read.
pub(crate) fn run() -> Result<()> {
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} found; docs/architecture.md has the rules", findings.len());
    }
    println!("tidy");
    Ok(())
}

fn findings() -> Result<Vec<Finding>> {
    let root = workspace::root();
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("asking cargo for the workspace's crates")?;
    let crates: Vec<_> = metadata.packages.iter().map(layers::Crate::new).collect();
    let mut findings = layers::check(&crates);
    for package in &metadata.packages {
        let path = package.manifest_path.as_std_path();
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        findings.extend(manifests::check(&workspace::relative(path), &text));
    }
    let mut reasons = Vec::new();
    for path in workspace::files()? {
        let place = workspace::relative(&path);
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        findings.extend(sizes::check(&place, &text));
        findings.extend(sources::check(&place, &text));
        findings.extend(words::check(&place, &text));
        reasons.extend(messages::of(&place, &text)?);
    }
    let document = fs::read_to_string(root.join(messages::DOCUMENT)).context(messages::DOCUMENT)?;
    findings.extend(messages::check(&reasons, &document));
    if let Err(stale) = codegen::proto(true) {
        findings.push(Finding::new("generated code", stale.to_string()));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let findings: Vec<String> = findings().unwrap().iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    }
}
