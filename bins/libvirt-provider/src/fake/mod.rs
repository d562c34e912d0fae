//! Hosts that exist only here, to try BigFleet with and to be certified against: in-memory libvirtds of `libvirt-rpc`,
//! whose guests only pretend to work. All that is before them is the real thing: the backend, its client, the wire.
//!
//! As real hosts would, they outlive the provider: with a state file, what they remember is kept beside it.

mod guest;
mod hook;
mod host;
mod keep;
mod shell;
mod slot;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use libvirt_backend::{
    Libvirt, UserData,
    settings::{
        Accelerator, Budget, Bus, Firmware, GuestSettings, HostSettings, MachineSettings, Network, Offering, Settings,
    },
};

use self::{
    hook::Hooks,
    host::{CPUS, Size},
    keep::Shelf,
};
use crate::config::Fake;

const ZONES: [&str; 2] = ["fake-zone-a", "fake-zone-b"];
const POOL: &str = "default";
const IMAGE: &str = "golden.qcow2";
/// How much longer than it takes a guest may take to stop.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// What `--use-fake-backend` stands for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) provider: Arc<str>,
    pub(crate) fake: Fake,
    /// How guests are spoken to.
    pub(crate) guest: GuestSettings,
    /// The provider's state file.
    pub(crate) state: Option<PathBuf>,
    /// How long a Configure may take.
    pub(crate) configure: Duration,
}

impl Plan {
    /// Starts the hosts, or finds them as they were left, and the backend on them.
    ///
    /// # Errors
    /// When what they remembered cannot be used.
    pub(crate) async fn start(self) -> anyhow::Result<Libvirt> {
        let shelf = match &self.state {
            Some(state) => Some(Shelf::open(state)?),
            None => None,
        };
        let offerings = slot::offerings(&self.provider, self.fake.seed_count, self.fake.faults);
        let hooks = Hooks {
            delay: self.fake.delay,
            faults: self.fake.faults,
            too_late: self.configure + Duration::from_secs(1),
        };
        let mut zones = std::collections::BTreeMap::new();
        for zone in ZONES {
            let size = Size::of(offerings.iter().filter(|offering| *offering.zone == *zone));
            let host = host::start(zone, size, hooks, shelf.as_ref());
            let endpoint = host
                .await
                .with_context(|| format!("fake host `{zone}` cannot be started"))?;
            let host = HostSettings {
                name: format!("{zone}-host").into(),
                endpoint,
                cordon: false,
            };
            zones.insert(Arc::from(zone), vec![host]);
        }
        Ok(Libvirt::start(Settings {
            provider: self.provider,
            zones,
            budget: budget(&offerings),
            offerings,
            machine: MachineSettings {
                pool: POOL.to_owned(),
                image: IMAGE.to_owned(),
                networks: vec![Network::Network("default".to_owned())],
                firmware: Firmware::default(),
                accelerator: Accelerator::default(),
                machine_type: None,
                cpu: None,
                seed_bus: Bus::default(),
                user_data: UserData::none(),
                autostart: true,
                start_networks: true,
            },
            guest: GuestSettings {
                stop_grace: self.guest.stop_grace.max(self.fake.delay + STOP_MARGIN),
                ..self.guest
            },
        }))
    }
}

/// A host tells of each of its CPUs, so it has few and sells them often.
fn budget(offerings: &[Offering]) -> Budget {
    let usual = Budget::default();
    let largest = ZONES.iter().map(|zone| {
        let there = offerings.iter().filter(|offering| *offering.zone == **zone);
        there
            .map(|offering| f64::from(offering.count) * f64::from(offering.instance_type.vcpus))
            .sum::<f64>()
    });
    let ratio = largest.fold(0.0, f64::max) / f64::from(CPUS);
    Budget {
        cpu_overcommit: usual.cpu_overcommit.max(ratio.ceil()),
        ..usual
    }
}
