//! What is known of a host: kept true by events and relists, read without asking the host.

use std::collections::HashMap;

use libvirt_rpc::wire::{
    constant::domain::{DomainPausedReason, DomainShutoffReason, DomainState},
    remote::record::DomainRef,
    xdr::Uuid,
};

use crate::owner::Owner;

/// What is known of a host's domains and pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) domains: HashMap<Uuid, Seen>,
    pub(crate) pool: Option<PoolSeen>,
    /// The images that machines were made from, by pool and name, as they are now; `None` for one that is gone.
    pub(crate) images: HashMap<(String, String), Option<String>>,
    /// Why no machine can be made from the image that is to be used.
    pub(crate) refusal: Option<String>,
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
    /// The files its disks are on, all of each chain that its description names.
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
    /// The domain of a name.
    pub(crate) fn named(&self, name: &str) -> Option<&Seen> {
        self.domains.values().find(|seen| seen.domain.name == *name)
    }

    /// The domains that carry this provider's name.
    pub(crate) fn owned<'a>(&'a self, provider: &'a str) -> impl Iterator<Item = (&'a Seen, &'a Owner)> {
        let owned = self
            .domains
            .values()
            .filter_map(|seen| Some((seen, seen.owner.as_ref()?)));
        owned.filter(move |(_, owner)| owner.provider == provider)
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
        let owners = self.domains.values().filter_map(|seen| seen.owner.as_ref());
        let of_another = owners
            .filter(|owner| owner.pool == pool && owner.image == image)
            .filter(|owner| owner.image_revision.as_deref().is_some_and(|then| then != now));
        let count = of_another.count();
        (count > 0).then(|| {
            format!(
                "image `{image}` of pool `{pool}` was replaced under {count} machines, whose disks need what it was: put \
                 that back, and stage the new one under another name for `machine.image`"
            )
        })
    }

    /// Memory (MiB) and virtual CPUs of all active domains, ours or not.
    pub(crate) fn used(&self) -> (u64, u64) {
        let active = self.domains.values().filter(|seen| seen.status.is_active());
        active.fold((0, 0), |(memory, vcpus), seen| {
            (memory + seen.memory_mib, vcpus + u64::from(seen.vcpus))
        })
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
        let sources = root.descendants().filter(|node| node.has_tag_name("source"));
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
            files: sources
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
            <devices><disk><source file='/a'/><backingStore><source file='/b'/></backingStore></disk></devices></domain>";
        let seen = Seen::parse(DomainRef::default(), status(DomainState::RUNNING, 0), xml).unwrap();
        assert_eq!(seen.files, ["/a", "/b"]);
        assert!(seen.owner.is_none());
        let mut inventory = Inventory::default();
        inventory.domains.insert(Uuid([1; 16]), seen.clone());
        let stopped = Seen {
            status: status(DomainState::SHUTOFF, 0),
            ..seen
        };
        inventory.domains.insert(Uuid([2; 16]), stopped);
        assert_eq!(inventory.used(), (2048, 3));
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
        inventory.domains.insert(Uuid([1; 16]), seen);
        let refused = |now| inventory.refuses("default", "golden.qcow2", Some(now));
        assert!(refused("2").is_some_and(|reason| reason.contains("under 1 machines")));
        assert_eq!(refused("1"), None);
        assert_eq!(inventory.refuses("default", "other.qcow2", Some("2")), None);
        inventory.images.insert(image, None);
        assert!(inventory.has_lost_its_image(&owner), "it is gone");
    }
}
