//! The configuration of this binary: the runtime's, and what is our own.

mod capacity;
mod guest;
mod hosts;
mod machine;

use std::{sync::Arc, time::Duration};

use libvirt_backend::{UserData, settings::Delivery};
use providerkit_runtime::{
    config::{Findings, Period},
    settings,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::{
    capacity::CapacityConfig,
    guest::{BudgetConfig, GuestConfig},
    hosts::HostConfig,
    machine::MachineConfig,
};
use crate::fake;

/// What people write.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Config {
    #[serde(flatten)]
    runtime: settings::Config,
    /// What machines are made on: `libvirt`, `fake`, or `auto` for libvirt when there are hosts.
    backend: String,
    /// One libvirt URI for the default zone, or `zone=uri,…`; `hosts` says the same at more length.
    connect: String,
    /// The zone of hosts that name none.
    default_zone: String,
    /// The libvirt hosts.
    hosts: Vec<HostConfig>,
    /// How machines are built.
    machine: MachineConfig,
    /// How guests are spoken to.
    guest: GuestConfig,
    /// How much of a host is sold.
    budget: BudgetConfig,
    /// What is for sale.
    capacity: CapacityConfig,
    /// Hosts that are only pretended.
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
            backend: "auto".into(),
            connect: String::new(),
            default_zone: "local".into(),
            hosts: Vec::new(),
            machine: MachineConfig::default(),
            guest: GuestConfig::default(),
            budget: BudgetConfig::default(),
            capacity: CapacityConfig::default(),
            fake: FakeConfig::default(),
        }
    }
}

/// Machines of fake hosts, as configured.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct FakeConfig {
    /// Whether to serve them. Nothing else does, so that nobody takes them for capacity by accident.
    enabled: bool,
    /// How long each transition takes at least.
    delay: Period,
    /// Whether some machines and clusters fail, for a certification: `conformance.fault/create=error`, `fault-error`,
    /// `fault-timeout`, `fault-slow-ok`, `fault-drain-error`, `fault-readiness-block`.
    faults: bool,
}

impl Default for FakeConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            // Long enough that transitional states can be seen, short enough to be no burden.
            delay: Period(Duration::from_millis(20)),
            faults: false,
        }
    }
}

/// What the program works with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) runtime: settings::Settings,
    pub(crate) substrate: Substrate,
}

/// What machines are made on.
#[derive(Clone, Debug)]
pub(crate) enum Substrate {
    /// Real hosts.
    Libvirt(Box<libvirt_backend::settings::Settings>),
    /// Fake ones.
    Fake(Box<fake::Plan>),
}

/// Machines of fake hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fake {
    pub(crate) seed_count: u32,
    /// How long each transition takes at least.
    pub(crate) delay: Duration,
    /// Whether some machines and clusters fail.
    pub(crate) faults: bool,
}

impl Settings {
    /// Reads a configuration that was loaded, noting every mistake.
    pub(crate) fn parse(config: Config, findings: &mut Findings) -> Self {
        let runtime = settings::Settings::parse(config.runtime.clone(), findings);
        let has_hosts = !config.hosts.is_empty() || !config.connect.trim().is_empty();
        let plan = fake::Plan {
            provider: Arc::clone(&runtime.provider),
            fake: Fake {
                seed_count: config.capacity.seed_count,
                delay: config.fake.delay.into(),
                faults: config.fake.faults,
            },
            guest: config.guest.parse(),
            state: runtime.state.clone(),
            configure: runtime.transitions.configure,
        };
        let fake = Substrate::Fake(Box::new(plan));
        let substrate = match (config.backend.as_str(), config.fake.enabled) {
            ("auto" | "libvirt", true) if has_hosts => {
                findings.refuse("fake.enabled", "is set, and so are hosts; it must be one or the other");
                fake
            }
            ("libvirt", true) => {
                findings.refuse("fake.enabled", "is set, but `backend` is `libvirt`");
                fake
            }
            ("auto" | "fake", true) | ("fake", false) => fake,
            ("auto" | "libvirt", false) => Substrate::Libvirt(Box::new(libvirt(config, &runtime, findings))),
            (other, _) => {
                findings.refuse("backend", format_args!("is `{other}`; use auto, libvirt or fake"));
                fake
            }
        };
        Self { runtime, substrate }
    }
}

fn libvirt(
    config: Config,
    runtime: &settings::Settings,
    findings: &mut Findings,
) -> libvirt_backend::settings::Settings {
    let zones = hosts::parse(&config.hosts, &config.connect, &config.default_zone, findings);
    if config.hosts.is_empty() && config.connect.trim().is_empty() {
        findings.refuse(
            "connect",
            "names no host to make machines on; give one with --connect or `hosts`, or start with --use-fake-backend for \
             machines of fake hosts",
        );
    }
    let names: Vec<Arc<str>> = zones.keys().cloned().collect();
    let settings = libvirt_backend::settings::Settings {
        provider: Arc::clone(&runtime.provider),
        offerings: if names.is_empty() {
            Vec::new()
        } else {
            config.capacity.parse(&names, findings)
        },
        zones,
        machine: config.machine.parse(findings),
        guest: config.guest.parse(),
        budget: config.budget.parse(findings),
    };
    if let (UserData::Ignition(_), Delivery::Seed) = (&settings.machine.user_data, settings.guest.delivery) {
        findings.refuse(
            "guest.delivery",
            "is `seed`, which needs cloud-init, but `machine.user_data_format` is `ignition`; use `agent`, and an image whose \
             agent may run programs",
        );
    }
    settings
}
