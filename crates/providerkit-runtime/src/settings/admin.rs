//! The port for probes and metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Address;
use crate::config::{Findings, Origin};

/// The port for probes and metrics, as configured.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct AdminConfig {
    /// `host:port` or `:port`; empty switches it off. A port that is taken only matters when it was named.
    pub addr: String,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { addr: ":9090".into() }
    }
}

/// The port for probes and metrics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Admin {
    /// Where it listens.
    pub address: Address,
    /// Whether the process must not start without it: somebody named the address. Several providers on one machine
    /// share the default, and all but one do without (contract trap 7).
    pub required: bool,
}

impl Admin {
    pub(super) fn parse(config: &AdminConfig, findings: &mut Findings) -> Option<Self> {
        if config.addr.is_empty() {
            return None;
        }
        Some(Self {
            address: super::address("admin.addr", &config.addr, findings),
            required: findings.origin("admin.addr") != Origin::Default,
        })
    }
}
