//! How the process ends.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Period;

/// How the process ends, as configured.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct ShutdownConfig {
    /// How long calls are still taken after the probes say that we are leaving, so that others can notice.
    pub delay: Period,
    /// How long running transitions and calls may take to end by themselves. What is left is kept in the state file
    /// and goes on at the next start.
    pub grace: Period,
}

impl Default for ShutdownConfig {
    fn default() -> Self {
        Self {
            delay: Period::default(),
            grace: Period::seconds(10),
        }
    }
}

/// How the process ends.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Shutdown {
    /// How long calls are still taken.
    pub delay: Duration,
    /// How long what runs may take to end by itself.
    pub grace: Duration,
}

impl Shutdown {
    pub(super) fn parse(config: &ShutdownConfig) -> Self {
        Self {
            delay: config.delay.0,
            grace: config.grace.0,
        }
    }
}
