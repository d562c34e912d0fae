//! What a host can still take: its size, less what runs on it, ours or not, less what is being made.
//!
//! Decided before a Create is acknowledged, because a Create that is refused later costs the caller that machine
//! (contract §11.3), and reserved in one step, because what a guest was given is not yet taken (field report F25).

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use providerkit_backend::MachineId;
use tokio::time::Instant;

use crate::{
    host::{Facts, Host, Inventory, Link, inventory::Taken},
    settings::{Budget, InstanceType},
};

/// A Create that was admitted but never came: its commit failed.
const PROVISIONAL: Duration = Duration::from_secs(30);
const GIB: u64 = 1 << 30;

/// What is promised to machines that are being made.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<HashMap<MachineId, Promise>>);

#[derive(Clone, Debug)]
struct Promise {
    host: std::sync::Arc<str>,
    need: Need,
    /// Until then only, unless the Create comes.
    until: Option<Instant>,
}

/// What a machine takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Need {
    pub(crate) memory_mib: u64,
    pub(crate) vcpus: u64,
    pub(crate) disk_bytes: u64,
}

impl From<&InstanceType> for Need {
    fn from(kind: &InstanceType) -> Self {
        Self {
            memory_mib: kind.memory_mib,
            vcpus: kind.vcpus.into(),
            disk_bytes: kind.disk_gib.unwrap_or(0) * GIB,
        }
    }
}

impl From<Taken> for Need {
    fn from(taken: Taken) -> Self {
        Self {
            memory_mib: taken.memory_mib,
            vcpus: taken.vcpus,
            disk_bytes: taken.disk_bytes,
        }
    }
}

impl Need {
    fn add(&mut self, more: &Self) {
        self.memory_mib = self.memory_mib.saturating_add(more.memory_mib);
        self.vcpus = self.vcpus.saturating_add(more.vcpus);
        self.disk_bytes = self.disk_bytes.saturating_add(more.disk_bytes);
    }
}

/// How much of a host there is for machines, and how much of that is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) capacity: Need,
    pub(crate) allocated: Need,
}

impl Use {
    fn room(&self) -> Room {
        let mut room = Room {
            memory_mib: self.capacity.memory_mib,
            vcpus: self.capacity.vcpus,
            disk_bytes: self.capacity.disk_bytes,
        };
        room.take(&self.allocated);
        room
    }
}

/// What is left of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    memory_mib: u64,
    vcpus: u64,
    disk_bytes: u64,
}

impl Room {
    /// What is missing for a machine, in words; `None` if it fits.
    pub(crate) fn lacks(&self, need: &Need) -> Option<String> {
        let lacking = |what: &str, unit: &str, asked: u64, left: u64| {
            (asked > left).then(|| format!("{asked}{unit} of {what} asked, {left}{unit} left"))
        };
        lacking("memory", " MiB", need.memory_mib, self.memory_mib)
            .or_else(|| lacking("vCPUs", "", need.vcpus, self.vcpus))
            .or_else(|| lacking("disk", " GiB", need.disk_bytes.div_ceil(GIB), self.disk_bytes / GIB))
    }

    pub(crate) fn memory(&self) -> u64 {
        self.memory_mib
    }

    pub(crate) fn take(&mut self, need: &Need) {
        self.memory_mib = self.memory_mib.saturating_sub(need.memory_mib);
        self.vcpus = self.vcpus.saturating_sub(need.vcpus);
        self.disk_bytes = self.disk_bytes.saturating_sub(need.disk_bytes);
    }
}

impl Ledger {
    /// Promises a place to a machine on the roomiest of the hosts.
    ///
    /// # Errors
    /// A sentence on why no host can take it now.
    pub(crate) fn admit(
        &self,
        hosts: &[Host],
        machine: &MachineId,
        need: Need,
        budget: &Budget,
        provider: &str,
    ) -> Result<Host, String> {
        let mut promises = self.lock();
        promises.remove(machine);
        let mut reasons = Vec::new();
        let mut best: Option<(&Host, Room)> = None;
        for host in hosts {
            match room(host, &promises, budget, provider) {
                Ok(room) => match room.lacks(&need) {
                    None if best.is_none_or(|(_, other)| room.memory_mib > other.memory_mib) => {
                        best = Some((host, room));
                    }
                    None => {}
                    Some(lack) => reasons.push(format!("host `{}`: {lack}", host.name())),
                },
                Err(reason) => reasons.push(format!("host `{}`: {reason}", host.name())),
            }
        }
        let Some((host, _)) = best else {
            return Err(if reasons.is_empty() {
                "its zone has no hosts".to_owned()
            } else {
                reasons.join("; ")
            });
        };
        let promise = Promise {
            host: host.name().clone(),
            need,
            until: Some(Instant::now() + PROVISIONAL),
        };
        promises.insert(machine.clone(), promise);
        Ok(host.clone())
    }

    /// Keeps a promise for as long as the Create runs; gives it on this host if there was none.
    pub(crate) fn keep(&self, host: &Host, machine: &MachineId, need: Need) {
        let promise = Promise {
            host: host.name().clone(),
            need,
            until: None,
        };
        self.lock().insert(machine.clone(), promise);
    }

    /// The host that was promised, if it is one of these.
    pub(crate) fn promised(&self, hosts: &[Host], machine: &MachineId) -> Option<Host> {
        let promises = self.lock();
        let promise = promises.get(machine)?;
        hosts.iter().find(|host| *host.name() == promise.host).cloned()
    }

    /// Whether something is being made on a host, or about to be.
    pub(crate) fn has_promised(&self, host: &Host) -> bool {
        let now = Instant::now();
        let is_open = |promise: &Promise| promise.until.is_none_or(|until| until > now);
        let promises = self.lock();
        promises
            .values()
            .any(|promise| promise.host == *host.name() && is_open(promise))
    }

    /// Forgets a promise: the machine is there, or never will be.
    pub(crate) fn release(&self, machine: &MachineId) {
        self.lock().remove(machine);
    }

    /// What each of the hosts can still take.
    pub(crate) fn rooms(&self, hosts: &[Host], budget: &Budget, provider: &str) -> Vec<Result<Room, String>> {
        let mut promises = self.lock();
        let now = Instant::now();
        promises.retain(|_, promise| promise.until.is_none_or(|until| until > now));
        hosts
            .iter()
            .map(|host| room(host, &promises, budget, provider))
            .collect()
    }

    /// How much of each host there is and is given; `None` for one that cannot be reached.
    pub(crate) fn uses(&self, hosts: &[Host], budget: &Budget, provider: &str) -> Vec<Option<Use>> {
        let promises = self.lock();
        let of = |host: &Host| Some(uses(host, &host.lanes()?.facts, &promises, budget, provider));
        hosts.iter().map(of).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MachineId, Promise>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn room(host: &Host, promises: &HashMap<MachineId, Promise>, budget: &Budget, provider: &str) -> Result<Room, String> {
    let lanes = match host.link() {
        Link::Up(lanes) => lanes,
        Link::Down { reason } => return Err(format!("it cannot be reached: {reason}")),
    };
    if let Some(reason) = host.closed() {
        return Err(reason.to_owned());
    }
    lanes.facts.platform.as_ref().map_err(Clone::clone)?;
    if let Some(reason) = host.with_inventory(|inventory| inventory.refusal.clone()) {
        return Err(reason);
    }
    Ok(uses(host, &lanes.facts, promises, budget, provider).room())
}

fn uses(host: &Host, facts: &Facts, promises: &HashMap<MachineId, Promise>, budget: &Budget, provider: &str) -> Use {
    let now = Instant::now();
    host.with_inventory(|inventory| {
        let mut uses = Use {
            capacity: capacity(facts, inventory, budget),
            allocated: inventory.taken(provider).into(),
        };
        // What is there already is in the inventory.
        let open = promises.iter().filter(|(machine, promise)| {
            promise.host == *host.name()
                && promise.until.is_none_or(|until| until > now)
                && inventory.of_machine(provider, machine).is_none()
        });
        for (_, promise) in open {
            uses.allocated.add(&promise.need);
        }
        uses
    })
}

/// What a host has for machines, ours or not.
fn capacity(facts: &Facts, inventory: &Inventory, budget: &Budget) -> Need {
    let reserve = budget
        .memory_reserve_mib
        .unwrap_or_else(|| (facts.memory_mib / 10).max(2048));
    let mut capacity = Need {
        memory_mib: scale(facts.memory_mib.saturating_sub(reserve), budget.memory_overcommit),
        vcpus: scale(facts.cpus.into(), budget.cpu_overcommit),
        disk_bytes: 0,
    };
    if let Some(pool) = inventory.pool {
        let reserve = pool_reserve(budget, pool.capacity);
        if pool.available > reserve {
            capacity.disk_bytes = scale(pool.capacity.saturating_sub(reserve), budget.storage_overcommit);
        }
    }
    capacity
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of hosts are far below 2^52, and ratios are not negative"
)]
fn scale(total: u64, ratio: f64) -> u64 {
    (total as f64 * ratio) as u64
}

/// Bytes of a pool that stay free.
pub(crate) fn pool_reserve(budget: &Budget, capacity: u64) -> u64 {
    budget.pool_reserve.unwrap_or_else(|| (capacity / 20).max(10 * GIB))
}

#[cfg(test)]
mod tests {
    use libvirt_rpc::wire::{constant::domain::DomainState, remote::record::DomainRef, xdr::Uuid};

    use super::*;
    use crate::host::{Seen, Status, inventory::PoolSeen};

    fn facts() -> Facts {
        Facts {
            memory_mib: 32 * 1024,
            cpus: 8,
            platform: Err("unused".into()),
        }
    }

    fn left(inventory: &Inventory) -> Room {
        let uses = Use {
            capacity: capacity(&facts(), inventory, &Budget::default()),
            allocated: inventory.taken("p").into(),
        };
        uses.room()
    }

    fn foreign(number: u8, state: DomainState) -> Seen {
        Seen {
            domain: DomainRef {
                uuid: Uuid([number; 16]),
                ..DomainRef::default()
            },
            status: Status { state, reason: 0 },
            owner: None,
            memory_mib: 4096,
            vcpus: 4,
            files: Vec::new(),
        }
    }

    #[test]
    fn foreign_machines_that_run_leave_less() {
        let mut inventory = Inventory::default();
        inventory.insert(foreign(1, DomainState::RUNNING));
        inventory.insert(foreign(2, DomainState::SHUTOFF));
        let room = left(&inventory);
        assert_eq!(room.memory_mib, 32 * 1024 - 3276 - 4096);
        assert_eq!(room.vcpus, 8 * 4 - 4);
    }

    #[test]
    fn a_pool_that_is_nearly_full_takes_nothing() {
        let pool = |available| PoolSeen {
            capacity: 100 * GIB,
            available,
        };
        let room = |available| {
            let mut inventory = Inventory::default();
            inventory.pool = Some(pool(available));
            left(&inventory).disk_bytes / GIB
        };
        assert_eq!(room(50 * GIB), 180);
        assert_eq!(room(9 * GIB), 0);
    }

    #[test]
    fn what_is_missing_is_told() {
        let room = Room {
            memory_mib: 1000,
            vcpus: 2,
            disk_bytes: 0,
        };
        let need = |memory_mib, vcpus, disk_bytes| Need {
            memory_mib,
            vcpus,
            disk_bytes,
        };
        assert_eq!(room.lacks(&need(1000, 2, 0)), None);
        assert_eq!(
            room.lacks(&need(1001, 2, 0)).unwrap(),
            "1001 MiB of memory asked, 1000 MiB left"
        );
        assert_eq!(room.lacks(&need(1, 3, 0)).unwrap(), "3 of vCPUs asked, 2 left");
        assert!(room.lacks(&need(1, 1, 1)).unwrap().contains("1 GiB of disk"));
    }
}
