//! How guests are spoken to, and how much of a host is sold, as configured.

use std::time::Duration;

use libvirt_backend::settings::{Budget, Delivery, DrainReset, GuestSettings, IdleWhen, Readiness};
use providerkit_runtime::config::{Findings, Period};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How guests are spoken to.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct GuestConfig {
    /// What a machine must have done to be IDLE.
    idle_when: IdleWhenConfig,
    /// How a bootstrap blob gets into a guest.
    delivery: DeliveryConfig,
    /// How it is told that a node is Ready.
    readiness: ReadinessConfig,
    /// What a Drain leaves.
    drain_reset: DrainResetConfig,
    /// How much longer than its grace period a Drain may take before the machine is made anew.
    drain_margin: Period,
    /// How long a guest may take to stop by itself when its machine is deleted.
    stop_grace: Period,
    /// Whether a machine that was stopped, by its guest or with its host, is started again.
    restart: bool,
    /// Whether a guest with the `/etc/machine-id` of another is refused: its image was not generalised.
    unique_machine_id: bool,
}

impl Default for GuestConfig {
    fn default() -> Self {
        let usual = GuestSettings::default();
        Self {
            idle_when: IdleWhenConfig::default(),
            delivery: DeliveryConfig::default(),
            readiness: ReadinessConfig::default(),
            drain_reset: DrainResetConfig::default(),
            drain_margin: Period(usual.drain_margin),
            stop_grace: Period(usual.stop_grace),
            restart: usual.restart,
            unique_machine_id: usual.unique_machine_id,
        }
    }
}

/// What a machine must have done to be IDLE.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdleWhenConfig {
    /// It runs, and goes on running.
    Running,
    /// Its agent answers and may run programs.
    Agent,
    /// cloud-init has finished, too, where the image has it.
    #[default]
    CloudInit,
}

/// How a bootstrap blob gets into a guest.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DeliveryConfig {
    /// Through the agent, or by seed where the image does not let it run programs.
    #[default]
    Auto,
    /// Through the agent; an image that does not let it run programs is refused.
    Agent,
    /// By a seed that carries it, with which the guest is started again.
    Seed,
}

/// How it is told that a node is Ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReadinessConfig {
    /// By the image's `/opt/bigfleet/ready` where it has one, else by the node's own credentials and `kubectl`.
    #[default]
    Auto,
    /// By the image's `/opt/bigfleet/ready`.
    Hook,
    /// By the node's own credentials and `kubectl`.
    Kubelet,
    /// Not at all: CONFIGURED means that the bootstrap succeeded.
    None,
}

/// What a Drain leaves.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DrainResetConfig {
    /// The same machine, as clean as the image's `/opt/bigfleet/drain` makes it.
    #[default]
    Unjoin,
    /// A machine with a fresh disk.
    Recreate,
}

impl GuestConfig {
    pub(crate) fn parse(&self) -> GuestSettings {
        GuestSettings {
            idle_when: match self.idle_when {
                IdleWhenConfig::Running => IdleWhen::Running,
                IdleWhenConfig::Agent => IdleWhen::Agent,
                IdleWhenConfig::CloudInit => IdleWhen::CloudInit,
            },
            delivery: match self.delivery {
                DeliveryConfig::Auto => Delivery::Auto,
                DeliveryConfig::Agent => Delivery::Agent,
                DeliveryConfig::Seed => Delivery::Seed,
            },
            readiness: match self.readiness {
                ReadinessConfig::Auto => Readiness::Auto,
                ReadinessConfig::Hook => Readiness::Hook,
                ReadinessConfig::Kubelet => Readiness::Kubelet,
                ReadinessConfig::None => Readiness::None,
            },
            drain_reset: match self.drain_reset {
                DrainResetConfig::Unjoin => DrainReset::Unjoin,
                DrainResetConfig::Recreate => DrainReset::Recreate,
            },
            drain_margin: Duration::from(self.drain_margin),
            stop_grace: Duration::from(self.stop_grace),
            restart: self.restart,
            unique_machine_id: self.unique_machine_id,
        }
    }
}

/// How much of a host is sold.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct BudgetConfig {
    /// Memory in MiB that stays the host's own; the larger of 2 GiB and a tenth of it when absent.
    memory_reserve_mib: Option<u64>,
    /// How often the rest of the memory is sold.
    memory_overcommit: f64,
    /// How often each of the host's CPUs is sold.
    cpu_overcommit: f64,
    /// GiB of the pool that stay free; the larger of 10 GiB and a twentieth of it when absent.
    pool_reserve_gib: Option<u64>,
    /// How often the rest of the pool is sold: disks are thin, and grow as their guests write.
    storage_overcommit: f64,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        let usual = Budget::default();
        Self {
            memory_reserve_mib: None,
            memory_overcommit: usual.memory_overcommit,
            cpu_overcommit: usual.cpu_overcommit,
            pool_reserve_gib: None,
            storage_overcommit: usual.storage_overcommit,
        }
    }
}

impl BudgetConfig {
    pub(crate) fn parse(&self, findings: &mut Findings) -> Budget {
        for (key, ratio) in [
            ("budget.memory_overcommit", self.memory_overcommit),
            ("budget.cpu_overcommit", self.cpu_overcommit),
            ("budget.storage_overcommit", self.storage_overcommit),
        ] {
            if !(ratio > 0.0 && ratio <= 1000.0) {
                findings.refuse(key, format_args!("is {ratio}; it must be above 0 and at most 1000"));
            }
        }
        Budget {
            memory_reserve_mib: self.memory_reserve_mib,
            memory_overcommit: self.memory_overcommit,
            cpu_overcommit: self.cpu_overcommit,
            pool_reserve: self.pool_reserve_gib.map(|gib| gib << 30),
            storage_overcommit: self.storage_overcommit,
        }
    }
}
