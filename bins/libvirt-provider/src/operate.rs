//! What the runtime is told of the hosts, and reading the configuration again.

use std::sync::{Arc, OnceLock};

use libvirt_backend::{HostState, Libvirt};
use providerkit_runtime::{HostStatus, Operator, Reloaded, Share, Storage, config};

use crate::{
    cli::Flags,
    config::{Config, Settings, Substrate},
};

/// Keys, or sections, whose changes are in force without a restart. Those of the second kind need real hosts.
const ALWAYS: [&str; 1] = ["log.level"];
const ON_HOSTS: [&str; 4] = ["hosts", "connect", "default_zone", "capacity"];

/// The binary's own part of the process.
pub(crate) struct Operation {
    flags: Flags,
    /// What the process was started with.
    started: Config,
    backend: Arc<OnceLock<Libvirt>>,
}

impl Operation {
    pub(crate) fn new(flags: Flags, started: Config) -> Self {
        Self {
            flags,
            started,
            backend: Arc::default(),
        }
    }

    /// Where the backend is put once it runs.
    pub(crate) fn backend(&self) -> Arc<OnceLock<Libvirt>> {
        Arc::clone(&self.backend)
    }
}

impl Operator for Operation {
    fn record_gauges(&self) {
        if let Some(backend) = self.backend.get() {
            backend.record_gauges();
        }
    }

    fn hosts(&self) -> Vec<HostStatus> {
        let hosts = self.backend.get().map(Libvirt::hosts).unwrap_or_default();
        hosts.into_iter().map(status).collect()
    }

    fn reload(&self) -> Result<Reloaded, Vec<String>> {
        let loaded = self.flags.load(std::env::vars_os());
        let changed = config::changed(&self.started, loaded.config());
        let settings = loaded
            .finish(Settings::parse)
            .map_err(|error| error.findings().iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let mut in_force = ALWAYS.to_vec();
        if let (Some(backend), Substrate::Libvirt(hosts)) = (self.backend.get(), &settings.substrate) {
            backend.update(hosts).map_err(|error| vec![error.to_string()])?;
            in_force.extend(ON_HOSTS);
        }
        let is_in_force = |key: &String| in_force.iter().any(|known| is_within(key, known));
        let needs_restart = changed.into_iter().filter(|key| !is_in_force(key)).collect();
        Ok(Reloaded::new(settings.runtime.log, needs_restart))
    }
}

fn status(host: HostState) -> HostStatus {
    let share = |(capacity, allocated)| Share { capacity, allocated };
    let (capacity, free) = host.pool;
    HostStatus {
        zone: host.zone.to_string(),
        name: host.name.to_string(),
        down: host.down.map(|reason| reason.to_string()),
        closed: host.closed.map(|reason| reason.to_string()),
        machines: host.machines,
        vcpus: share(host.vcpus),
        memory: share(host.memory),
        pool: Storage { capacity, free },
    }
}

/// Whether a key is this one, or belongs to it.
fn is_within(key: &str, section: &str) -> bool {
    key.strip_prefix(section)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
