//! What the summary says of a `report.json`.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;

/// A run of the harness.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) timestamp: String,
    pub(super) verdict: String,
    pub(super) seed: u64,
    pub(super) profiles: Vec<String>,
    pub(super) environment: Environment,
    pub(super) baseline: Baseline,
    pub(super) behaviors: Vec<Behaviour>,
    pub(super) latencies: Vec<Latency>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Environment {
    pub(super) cpus: usize,
    pub(super) timeout_factor: f64,
    pub(super) jobs: usize,
    pub(super) scale_seed: usize,
    pub(super) soak_seconds: f64,
    pub(super) wall_seconds: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Baseline {
    #[serde(default)]
    pub(super) cases: Vec<Behaviour>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Behaviour {
    pub(super) id: String,
    pub(super) area: String,
    pub(super) title: String,
    pub(super) status: String,
    pub(super) reason: Option<String>,
}

impl Behaviour {
    pub(super) fn passed(&self) -> bool {
        self.status == "passed"
    }
}

/// The calls of one method in one lane: `scale/List`.
#[derive(Debug, Deserialize)]
pub(super) struct Latency {
    pub(super) method: String,
    pub(super) count: usize,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Report {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Everything that was run, the baseline first.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Behaviour> {
        self.baseline.cases.iter().chain(&self.behaviors)
    }
}
