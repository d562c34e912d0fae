//! What is known of a host: kept true by events and relists, read without asking the host.

use std::collections::{HashMap, HashSet};

use libvirt_rpc::wire::{
    constant::domain::{DomainPausedReason, DomainShutoffReason, DomainState},
    remote::record::DomainRef,
    xdr::Uuid,
};

use providerkit_backend::MachineId;

use crate::owner::Owner;

/// What is known of a host's domains and pool. What is asked of it at every step costs the same however many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory {
    domains: HashMap<Uuid, Seen>,
    pub(crate) pool: Option<PoolSeen>,
    by_name: HashMap<String, Uuid>,
    /// Of any provider.
    by_machine: HashMap<MachineId, HashSet<Uuid>>,
    by_guest_id: HashMap<String, HashSet<Uuid>>,
    by_file: HashMap<String, HashSet<Uuid>>,
    /// How many machines were made from which image: pool, name, revision.
    by_image: HashMap<(String, String, String), usize>,
    /// By all that are active, ours or not.
    running: Taken,
    /// By provider, what its machines take beyond that: their disks, and room to be started again in.
    owned: HashMap<String, Taken>,
    /// The images that machines were made from, by pool and name, as they are now; `None` for one that is gone.
    pub(crate) images: HashMap<(String, String), Option<String>>,
    /// Why no machine can be made from the image that is to be used.
    pub(crate) refusal: Option<String>,
}

/// What domains take of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) memory_mib: u64,
    pub(crate) vcpus: u64,
    pub(crate) disk_bytes: u64,
}

/// A pool in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolSeen {
    pub(crate) capacity: u64,
    pub(crate) available: u64,
}

/// One domain, ours or not.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) domain: DomainRef,
    pub(crate) status: Status,
    pub(crate) owner: Option<Owner>,
    pub(crate) memory_mib: u64,
    pub(crate) vcpus: u32,
    /// The files its disks are on, all of each chain that its description names, and the one of its Ignition.
    pub(crate) files: Vec<String>,
}

/// Whether a domain runs, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) state: DomainState,
    pub(crate) reason: i32,
}

impl Status {
    /// Whether QEMU is there, so that the domain has its memory.
    pub(crate) fn is_active(self) -> bool {
        !matches!(
            self.state,
            DomainState::SHUTOFF | DomainState::NOSTATE | DomainState::CRASHED
        )
    }

    pub(crate) fn is_running(self) -> bool {
        matches!(self.state, DomainState::RUNNING | DomainState::BLOCKED)
    }

    /// On its way to running: libvirt holds it while it starts it.
    pub(crate) fn is_starting(self) -> bool {
        self.state == DomainState::PAUSED && self.reason == DomainPausedReason::STARTING_UP.0
    }

    /// Stopped by QEMU because a write to its disk failed.
    pub(crate) fn is_io_error(self) -> bool {
        self.state == DomainState::PAUSED && self.reason == DomainPausedReason::IOERROR.0
    }

    /// Its memory was saved, most likely by libvirt-guests when the host went down.
    pub(crate) fn is_saved(self) -> bool {
        self.state == DomainState::SHUTOFF && self.reason == DomainShutoffReason::SAVED.0
    }

    /// For people.
    pub(crate) fn describe(self) -> String {
        match self.state {
            DomainState::PAUSED => format!("paused ({:?})", DomainPausedReason(self.reason)).to_lowercase(),
            DomainState::SHUTOFF => format!("shut off ({:?})", DomainShutoffReason(self.reason)).to_lowercase(),
            state => format!("{state:?}").to_lowercase(),
        }
    }
}

impl Inventory {
    /// Takes a domain in, in the place of what was known of it.
    pub(crate) fn insert(&mut self, seen: Seen) {
        let uuid = seen.domain.uuid;
        self.remove(uuid);
        self.by_name
            .insert(seen.domain.name.to_string_lossy().into_owned(), uuid);
        for file in &seen.files {
            self.by_file.entry(file.clone()).or_default().insert(uuid);
        }
        if let Some(owner) = &seen.owner {
            self.by_machine.entry(owner.machine.clone()).or_default().insert(uuid);
            if let Some(key) = image_key(owner) {
                *self.by_image.entry(key).or_default() += 1;
            }
            if let Some(id) = &owner.guest_id {
                self.by_guest_id.entry(id.clone()).or_default().insert(uuid);
            }
        }
        self.count(&seen, u64::saturating_add);
        self.domains.insert(uuid, seen);
    }

    /// Forgets a domain.
    pub(crate) fn remove(&mut self, uuid: Uuid) {
        let Some(seen) = self.domains.remove(&uuid) else {
            return;
        };
        let name = seen.domain.name.to_string_lossy();
        if self.by_name.get(&*name) == Some(&uuid) {
            self.by_name.remove(&*name);
        }
        for file in &seen.files {
            unlist(&mut self.by_file, file, uuid);
        }
        if let Some(owner) = &seen.owner {
            unlist(&mut self.by_machine, &owner.machine, uuid);
            if let Some(key) = image_key(owner)
                && let Some(count) = self.by_image.get_mut(&key)
            {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.by_image.remove(&key);
                }
            }
            if let Some(id) = &owner.guest_id {
                unlist(&mut self.by_guest_id, id, uuid);
            }
        }
        self.count(&seen, u64::saturating_sub);
    }

    /// Adds what a domain takes, or takes it off.
    fn count(&mut self, seen: &Seen, change: fn(u64, u64) -> u64) {
        let mut owned = seen.owner.as_ref().map(|owner| {
            let taken = self.owned.entry(owner.provider.clone()).or_default();
            taken.disk_bytes = change(taken.disk_bytes, owner.disk_bytes);
            taken
        });
        let taken = match &mut owned {
            _ if seen.status.is_active() => &mut self.running,
            Some(owned) => owned,
            None => return,
        };
        taken.memory_mib = change(taken.memory_mib, seen.memory_mib);
        taken.vcpus = change(taken.vcpus, seen.vcpus.into());
    }

    pub(crate) fn get(&self, uuid: Uuid) -> Option<&Seen> {
        self.domains.get(&uuid)
    }

    /// The domain of a name.
    pub(crate) fn named(&self, name: &str) -> Option<&Seen> {
        self.domains.get(self.by_name.get(name)?)
    }

    /// The domain that a machine of a provider has here.
    pub(crate) fn of_machine<'a>(&'a self, provider: &'a str, machine: &MachineId) -> Option<(&'a Seen, &'a Owner)> {
        self.those(self.by_machine.get(machine)?, provider).next()
    }

    /// A provider's domains whose guests have this `/etc/machine-id`.
    pub(crate) fn of_guest_id<'a>(
        &'a self,
        provider: &'a str,
        id: &str,
    ) -> impl Iterator<Item = (&'a Seen, &'a Owner)> {
        let found = self.by_guest_id.get(id);
        found.into_iter().flat_map(move |found| self.those(found, provider))
    }

    fn those<'a>(&'a self, uuids: &'a HashSet<Uuid>, provider: &'a str) -> impl Iterator<Item = (&'a Seen, &'a Owner)> {
        let seen = uuids.iter().filter_map(|uuid| self.domains.get(uuid));
        let owned = seen.filter_map(|seen| Some((seen, seen.owner.as_ref()?)));
        owned.filter(move |(_, owner)| owner.provider == provider)
    }

    /// A domain that a file is a disk of, other than one.
    pub(crate) fn user_of(&self, file: &str, other_than: Option<Uuid>) -> Option<&Seen> {
        let mut users = self.by_file.get(file)?.iter();
        self.domains.get(users.find(|uuid| Some(**uuid) != other_than)?)
    }

    /// The domains there are.
    pub(crate) fn uuids(&self) -> impl Iterator<Item = Uuid> {
        self.domains.keys().copied()
    }

    /// The domains that carry this provider's name.
    pub(crate) fn owned<'a>(&'a self, provider: &'a str) -> impl Iterator<Item = (&'a Seen, &'a Owner)> {
        let owned = self
            .domains
            .values()
            .filter_map(|seen| Some((seen, seen.owner.as_ref()?)));
        owned.filter(move |(_, owner)| owner.provider == provider)
    }

    /// The images that machines were made from, by pool and name.
    pub(crate) fn images_in_use(&self) -> HashSet<(String, String)> {
        let images = self.by_image.keys();
        images.map(|(pool, image, _)| (pool.clone(), image.clone())).collect()
    }

    /// Whether the image below a machine's disk is not what it was: then the disk is lost at the next boot, if not before
    /// (field report F38).
    pub(crate) fn has_lost_its_image(&self, owner: &Owner) -> bool {
        let (Some(then), Some(now)) = (
            &owner.image_revision,
            self.images.get(&(owner.pool.clone(), owner.image.clone())),
        ) else {
            return false;
        };
        now.as_ref() != Some(then)
    }

    /// Why an image that is `now` this must not be used for more machines: others were made from something else that had
    /// its name.
    pub(crate) fn refuses(&self, pool: &str, image: &str, now: Option<&str>) -> Option<String> {
        let now = now?;
        let of_another = self
            .by_image
            .iter()
            .filter(|((of_pool, of_image, then), _)| of_pool == pool && of_image == image && then != now);
        let count: usize = of_another.map(|(_, count)| count).sum();
        (count > 0).then(|| {
            format!(
                "image `{image}` of pool `{pool}` was replaced under {count} machines, whose disks need what it was: put \
                 that back, and stage the new one under another name for `machine.image`"
            )
        })
    }

    /// What all domains take, ours or not: those of this provider also while they are off.
    pub(crate) fn taken(&self, provider: &str) -> Taken {
        let owned = self.owned.get(provider).copied().unwrap_or_default();
        Taken {
            memory_mib: self.running.memory_mib + owned.memory_mib,
            vcpus: self.running.vcpus + owned.vcpus,
            disk_bytes: owned.disk_bytes,
        }
    }
}

fn image_key(owner: &Owner) -> Option<(String, String, String)> {
    let revision = owner.image_revision.clone()?;
    Some((owner.pool.clone(), owner.image.clone(), revision))
}

fn unlist<K: std::hash::Hash + Eq>(index: &mut HashMap<K, HashSet<Uuid>>, key: &K, uuid: Uuid) {
    if let Some(found) = index.get_mut(key) {
        found.remove(&uuid);
        if found.is_empty() {
            index.remove(key);
        }
    }
}

impl Seen {
    /// Reads a domain's description.
    pub(crate) fn parse(domain: DomainRef, status: Status, xml: &str) -> Option<Self> {
        let document = roxmltree::Document::parse(xml).ok()?;
        let root = document.root_element();
        let child = |name: &str| root.children().find(|node| node.has_tag_name(name));
        let memory = child("memory");
        let unit = memory.and_then(|node| node.attribute("unit")).unwrap_or("KiB");
        let memory: u64 = memory.and_then(|node| node.text()?.trim().parse().ok()).unwrap_or(0);
        let vcpus = child("vcpu")
            .and_then(|node| node.text()?.trim().parse().ok())
            .unwrap_or(0);
        // Of disks, and of what the firmware's configuration device hands to the guest.
        let files = root
            .descendants()
            .filter(|node| node.has_tag_name("source") || node.has_tag_name("entry"));
        Some(Self {
            domain,
            status,
            owner: Owner::find(&document),
            memory_mib: match unit {
                "MiB" => memory,
                "GiB" => memory * 1024,
                _ => memory / 1024,
            },
            vcpus,
            files: files
                .filter_map(|node| node.attribute("file"))
                .map(str::to_owned)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: DomainState, reason: i32) -> Status {
        Status { state, reason }
    }

    #[test]
    fn a_foreign_domain_counts_too() {
        let xml = "<domain><name>x</name><memory unit='KiB'>2097152</memory><vcpu placement='static'>3</vcpu>\
            <sysinfo type='fwcfg'><entry name='opt/x' file='/c'/><entry name='opt/y'>z</entry></sysinfo>\
            <devices><disk><source file='/a'/><backingStore><source file='/b'/></backingStore></disk></devices></domain>";
        let seen = Seen::parse(DomainRef::default(), status(DomainState::RUNNING, 0), xml).unwrap();
        assert_eq!(seen.files, ["/c", "/a", "/b"]);
        assert!(seen.owner.is_none());
        let mut inventory = Inventory::default();
        inventory.insert(seen.clone());
        let other = DomainRef {
            uuid: Uuid([2; 16]),
            ..DomainRef::default()
        };
        let stopped = Seen {
            status: status(DomainState::SHUTOFF, 0),
            domain: other,
            ..seen
        };
        inventory.insert(stopped);
        let taken = inventory.taken("p");
        assert_eq!((taken.memory_mib, taken.vcpus), (2048, 3));
        assert_eq!(inventory.user_of("/b", None).unwrap().memory_mib, 2048);
        assert!(inventory.user_of("/b", Some(Uuid::default())).is_some());
        inventory.remove(Uuid::default());
        assert!(inventory.user_of("/b", Some(Uuid([2; 16]))).is_none());
        inventory.remove(Uuid([2; 16]));
        assert_eq!(inventory.taken("p"), Taken::default());
        assert!(inventory.user_of("/b", None).is_none());
    }

    #[test]
    fn a_machine_is_found_by_its_owner_and_takes_its_room_also_while_it_is_off() {
        let machine = MachineId::new("m").unwrap();
        let profile = providerkit_backend::Profile::new("k", "z", providerkit_backend::CapacityType::OnDemand);
        let operation = providerkit_backend::OperationId::mint();
        let mut owner = Owner::new("p", machine.clone(), "s", operation, profile);
        owner.disk_bytes = 7;
        owner.guest_id = Some("twin".into());
        let seen = |state| Seen {
            domain: DomainRef::default(),
            status: status(state, 0),
            owner: Some(owner.clone()),
            memory_mib: 100,
            vcpus: 2,
            files: Vec::new(),
        };
        let mut inventory = Inventory::default();
        for state in [DomainState::RUNNING, DomainState::SHUTOFF] {
            inventory.insert(seen(state));
            let own = Taken {
                memory_mib: 100,
                vcpus: 2,
                disk_bytes: 7,
            };
            assert_eq!(inventory.taken("p"), own);
        }
        assert_eq!(inventory.taken("other"), Taken::default());
        assert!(inventory.of_machine("p", &machine).is_some() && inventory.of_machine("q", &machine).is_none());
        assert_eq!(inventory.of_guest_id("p", "twin").count(), 1);
        inventory.remove(Uuid::default());
        assert!(inventory.of_machine("p", &machine).is_none());
        assert_eq!(inventory.taken("p"), Taken::default());
    }

    #[test]
    fn states_are_told_in_words() {
        let paused = status(DomainState::PAUSED, DomainPausedReason::IOERROR.0);
        assert!(paused.is_io_error() && paused.is_active() && !paused.is_running());
        assert_eq!(paused.describe(), "paused (ioerror)");
        assert_eq!(status(DomainState::RUNNING, 1).describe(), "running");
    }

    #[test]
    fn an_image_that_was_replaced_is_noticed_and_not_used() {
        use providerkit_backend::{CapacityType, MachineId, OperationId, Profile};
        let profile = Profile::new("t", "z", CapacityType::OnDemand);
        let mut owner = Owner::new("p", MachineId::new("m").unwrap(), "s", OperationId::mint(), profile);
        (owner.pool, owner.image) = ("default".into(), "golden.qcow2".into());
        let image = (owner.pool.clone(), owner.image.clone());
        let mut inventory = Inventory::default();
        inventory.images.insert(image.clone(), Some("2".into()));
        assert!(!inventory.has_lost_its_image(&owner), "nobody knows what it was");
        owner.image_revision = Some("1".into());
        assert!(inventory.has_lost_its_image(&owner));
        let mut seen = Seen::parse(DomainRef::default(), status(DomainState::RUNNING, 0), "<domain/>").unwrap();
        seen.owner = Some(owner.clone());
        inventory.insert(seen);
        let refused = |now| inventory.refuses("default", "golden.qcow2", Some(now));
        assert!(refused("2").is_some_and(|reason| reason.contains("under 1 machines")));
        assert_eq!(refused("1"), None);
        assert_eq!(inventory.refuses("default", "other.qcow2", Some("2")), None);
        inventory.images.insert(image, None);
        assert!(inventory.has_lost_its_image(&owner), "it is gone");
    }
}
