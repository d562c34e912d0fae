//! The configuration of this binary: the runtime's, and what is our own.

use std::time::Duration;

use providerkit_runtime::{
    config::{Findings, Period},
    settings,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What people write.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Config {
    #[serde(flatten)]
    runtime: settings::Config,
    /// Machines that are only simulated.
    fake: FakeConfig,
}

impl Default for Config {
    fn default() -> Self {
        let runtime = settings::Config {
            provider: "libvirt".into(),
            ..settings::Config::default()
        };
        Self {
            runtime,
            fake: FakeConfig::default(),
        }
    }
}

/// Machines that are only simulated, as configured.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct FakeConfig {
    /// Whether to serve them. Nothing else does, so that nobody takes them for capacity by accident.
    enabled: bool,
    /// How many there are.
    #[schemars(range(max = 1_000_000))]
    seed_count: u32,
    /// How long each transition takes.
    delay: Period,
}

impl Default for FakeConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            seed_count: 32,
            // Long enough that transitional states can be seen, short enough to be no burden.
            delay: Period(Duration::from_millis(20)),
        }
    }
}

/// What the program works with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) runtime: settings::Settings,
    pub(crate) fake: Fake,
}

/// Machines that are only simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fake {
    pub(crate) enabled: bool,
    pub(crate) seed_count: u32,
    pub(crate) delay: Duration,
}

impl Settings {
    /// Reads a configuration that was loaded, noting every mistake.
    pub(crate) fn parse(config: Config, findings: &mut Findings) -> Self {
        let FakeConfig {
            enabled,
            seed_count,
            delay,
        } = config.fake;
        Self {
            runtime: settings::Settings::parse(config.runtime, findings),
            fake: Fake {
                enabled,
                seed_count,
                delay: delay.into(),
            },
        }
    }
}
