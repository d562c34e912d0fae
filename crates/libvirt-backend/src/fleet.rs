//! The hosts and what is for sale on them: what may change while the provider runs.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use libvirt_rpc::wire::xdr::Uuid;
use providerkit_backend::State;

use crate::{
    backend::{Inner, Libvirt},
    catalogue::Catalogue,
    create,
    heal::Healer,
    host::{Host, Link},
    settings::{HostSettings, Settings},
};

/// What was so at one time; replaced as a whole.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) catalogue: Catalogue,
    pub(crate) hosts: Vec<Host>,
    zones: BTreeMap<Arc<str>, Vec<Host>>,
}

impl Fleet {
    pub(crate) fn new(catalogue: Catalogue, zones: BTreeMap<Arc<str>, Vec<Host>>) -> Self {
        Self {
            catalogue,
            hosts: zones.values().flatten().cloned().collect(),
            zones,
        }
    }

    pub(crate) fn hosts_of(&self, zone: &str) -> &[Host] {
        self.zones.get(zone).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = &Arc<str>> {
        self.zones.keys()
    }
}

/// What a person may want to know of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostState {
    /// Its zone.
    pub zone: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Why it cannot be reached; `None` when it can.
    pub down: Option<Arc<str>>,
    /// Why it takes no new machines though it can be reached.
    pub closed: Option<Arc<str>>,
    /// Our machines on it.
    pub machines: usize,
    /// Virtual CPUs that may be given to machines, and those that are given.
    pub vcpus: (u64, u64),
    /// Bytes of memory, likewise.
    pub memory: (u64, u64),
    /// Bytes of the pool, and those that are free.
    pub pool: (u64, u64),
}

/// New settings that cannot be put in force while the provider runs. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[error("host `{host}` cannot move from zone `{from}` to zone `{to}` while the provider runs; restart it")]
pub struct UpdateError {
    host: Arc<str>,
    from: Arc<str>,
    to: Arc<str>,
}

impl Libvirt {
    /// Puts new hosts, cordons, offerings and prices in force; everything else in the settings is left as it is. The
    /// engine hears of it through [`changed`](providerkit_backend::Backend::changed). Must be called within a tokio
    /// runtime.
    ///
    /// A host that is not mentioned any more and may have machines is kept, without new ones, until it has none: its
    /// machines stay listed and can be ended. To give them up, restart the provider without it.
    ///
    /// # Errors
    /// When a host is in another zone than before.
    pub fn update(&self, settings: &Settings) -> Result<(), UpdateError> {
        self.0.update(settings)
    }

    /// What is known of each host; none is asked.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostState> {
        let inner = &self.0;
        let fleet = inner.fleet();
        let uses = inner
            .ledger
            .uses(&fleet.hosts, &inner.settings.budget, inner.provider());
        let states = fleet.hosts.iter().zip(uses).map(|(host, uses)| {
            let uses = uses.unwrap_or_default();
            let bytes = |mib: u64| mib.saturating_mul(1 << 20);
            let (machines, pool) = host.with_inventory(|inventory| {
                let pool = inventory.pool.map_or((0, 0), |pool| (pool.capacity, pool.available));
                (inventory.owned(inner.provider()).count(), pool)
            });
            let (down, broken) = match host.link() {
                Link::Up(lanes) => (
                    None,
                    lanes.facts.platform.as_ref().err().map(|text| text.as_str().into()),
                ),
                Link::Down { reason } => (Some(reason), None),
            };
            HostState {
                zone: Arc::clone(host.zone()),
                name: Arc::clone(host.name()),
                down,
                closed: host.closed().map(Arc::from).or(broken),
                machines,
                vcpus: (uses.capacity.vcpus, uses.allocated.vcpus),
                memory: (bytes(uses.capacity.memory_mib), bytes(uses.allocated.memory_mib)),
                pool,
            }
        });
        states.collect()
    }
}

impl Inner {
    fn update(self: &Arc<Self>, settings: &Settings) -> Result<(), UpdateError> {
        let _turn = self.changing();
        let old = self.fleet();
        let mut left: HashMap<Arc<str>, Host> = old
            .hosts
            .iter()
            .map(|host| (Arc::clone(host.name()), host.clone()))
            .collect();
        for (zone, hosts) in &settings.zones {
            let moved = hosts.iter().filter_map(|wanted| left.get(&wanted.name));
            if let Some(host) = moved.into_iter().find(|host| host.zone() != zone) {
                return Err(UpdateError {
                    host: Arc::clone(host.name()),
                    from: Arc::clone(host.zone()),
                    to: Arc::clone(zone),
                });
            }
        }
        let mut zones: BTreeMap<Arc<str>, Vec<Host>> = BTreeMap::new();
        let mut fresh = Vec::new();
        for (zone, wanted) in settings
            .zones
            .iter()
            .flat_map(|(zone, hosts)| hosts.iter().map(move |host| (zone, host)))
        {
            let host = left.remove(&wanted.name).map_or_else(
                || {
                    tracing::info!(%zone, host = %wanted.name, "host added");
                    let host = self.host(zone, wanted);
                    fresh.push(host.clone());
                    host
                },
                |host| {
                    host.follow_settings(wanted);
                    host
                },
            );
            zones.entry(Arc::clone(zone)).or_default().push(host);
        }
        for (name, host) in left {
            if self.may_have_machines(&old, &host) {
                host.retire();
                tracing::warn!(
                    zone = %host.zone(), host = %name,
                    "a host was taken out of the configuration while it has machines, or may have: it gets no new ones \
                     and is kept until it has none; to give them up, restart the provider without it"
                );
                zones.entry(Arc::clone(host.zone())).or_default().push(host);
            } else {
                tracing::info!(zone = %host.zone(), host = %name, "host removed");
                host.retire();
                host.stop();
            }
        }
        let catalogue = Catalogue::new(&settings.provider, &settings.offerings).knowing(&old.catalogue);
        self.replace_fleet(Fleet::new(catalogue, zones));
        fresh.into_iter().for_each(|host| self.look_after(host));
        self.news.tell();
        Ok(())
    }

    pub(crate) fn host(&self, zone: &Arc<str>, settings: &HostSettings) -> Host {
        Host::new(Arc::clone(zone), settings, self.news.clone(), self.stop.child_token())
    }

    /// Keeps a host connected and its machines running, from now on.
    pub(crate) fn look_after(self: &Arc<Self>, host: Host) {
        let machine = Arc::new(self.settings.machine.clone());
        self.tasks.spawn(host.clone().supervise(machine));
        self.tasks.spawn(Healer::new(Arc::clone(self), host).run());
    }

    /// Lets go of a host that was taken out of the configuration, once it has no machines; whether it did.
    pub(crate) fn let_go(&self, host: &Host) -> bool {
        if !host.is_retired() {
            return false;
        }
        let _turn = self.changing();
        let fleet = self.fleet();
        if !host.is_retired() || self.may_have_machines(&fleet, host) {
            return false;
        }
        let mut zones = fleet.zones.clone();
        for hosts in zones.values_mut() {
            hosts.retain(|other| other.name() != host.name());
        }
        zones.retain(|_, hosts| !hosts.is_empty());
        self.replace_fleet(Fleet::new(fleet.catalogue.clone(), zones));
        host.stop();
        tracing::info!(zone = %host.zone(), host = %host.name(), "host removed: it has no machines any more");
        self.news.tell();
        true
    }

    /// Of a host that cannot be reached, what the engine knows decides: a machine of its zone that is on no other host.
    fn may_have_machines(&self, fleet: &Fleet, host: &Host) -> bool {
        let has_any = host.with_inventory(|inventory| inventory.owned(self.provider()).next().is_some());
        if has_any || self.ledger.has_promised(host) {
            return true;
        }
        if host.is_known() {
            return false;
        }
        let others = fleet
            .hosts_of(host.zone())
            .iter()
            .filter(|other| other.name() != host.name());
        let elsewhere: HashSet<Uuid> = others
            .flat_map(|other| other.with_inventory(|inventory| inventory.uuids().collect::<Vec<_>>()))
            .collect();
        self.watched.known().values().any(|known| {
            let machine = &known.machine;
            let uuid = machine.host.as_ref().and_then(create::domain_of);
            let is_seen = uuid.is_some_and(|uuid| elsewhere.contains(&Uuid(*uuid.as_bytes())));
            machine.state != State::Speculative && *machine.profile.zone == **host.zone() && !is_seen
        })
    }
}
