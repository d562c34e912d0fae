//! Names of what a machine is made of on its host.
//!
//! All are derived from provider, machine and operation, so that every attempt of an operation finds what an earlier
//! one made, and none can collide with another machine's. A machine id may be any text; a domain's name ends up in
//! paths of files and sockets, so it holds 50 characters of `[a-z0-9-]` at most (libvirt cuts longer ones off or
//! refuses them).

use std::fmt;

use cloud_init::MacAddress;
use providerkit_backend::{MachineId, OperationId};
use ring::digest::{Context, SHA256};
use uuid::Uuid;

/// Marks what this program made, for people who look at `virsh list`; ownership is decided by metadata alone.
const PREFIX: &str = "bf";
/// How names of disks and of seeds end.
const SUFFIXES: [&str; 3] = [".qcow2", "-seed.iso", ".ign"];
/// How much of a machine id is kept readable.
const READABLE: usize = 36;
/// The space of our UUIDs.
const SPACE: Uuid = Uuid::from_u128(0x5b1c_9c1e_6d0f_4d3c_9a53_b1f1_ee7c_0a11);

/// The name of a machine's domain: stable over all its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(String);

impl DomainName {
    /// The domain of a machine of a provider.
    #[must_use]
    pub fn new(provider: &str, machine: &MachineId) -> Self {
        let readable = readable(machine.as_str());
        let hash = hex(&digest(&[provider, machine.as_str()]), 4);
        let dash = if readable.is_empty() { "" } else { "-" };
        Self(format!("{PREFIX}{dash}{readable}-{hash}"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One life of a machine's disk: from a Create, or from a Drain that made it anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation {
    domain: DomainName,
    tag: String,
}

impl Incarnation {
    /// The incarnation that an operation makes.
    #[must_use]
    pub fn new(domain: DomainName, operation: OperationId) -> Self {
        let tag = hex(&digest(&[domain.as_str(), &operation.to_string()]), 4);
        Self { domain, tag }
    }

    /// The volume of the disk, copied on write from the golden image.
    #[must_use]
    pub fn disk(&self) -> String {
        format!("{self}.qcow2")
    }

    /// The volume of the cloud-init seed.
    #[must_use]
    pub fn seed(&self) -> String {
        format!("{self}-seed.iso")
    }

    /// The volume of the configuration for Ignition, which such an image has instead of a seed.
    #[must_use]
    pub fn ignition(&self) -> String {
        format!("{self}.ign")
    }

    /// Every volume that an incarnation may have.
    #[must_use]
    pub fn volumes(&self) -> [String; 3] {
        [self.disk(), self.seed(), self.ignition()]
    }

    /// What the guest calls itself: another one each time, so that no cluster takes it for a node it knew (63
    /// characters at most).
    #[must_use]
    pub fn hostname(&self) -> String {
        self.to_string()
    }

    /// What cloud-init tells a first boot by.
    #[must_use]
    pub fn instance_id(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.domain, self.tag)
    }
}

/// Whether a volume's name is like those of our machines' volumes; whose it is must be looked up.
pub(crate) fn is_like_ours(volume: &str) -> bool {
    volume.starts_with(PREFIX) && SUFFIXES.iter().any(|suffix| volume.ends_with(suffix))
}

/// Whether a volume's name is one that some incarnation of this domain has.
#[must_use]
pub fn is_volume_of(domain: &DomainName, volume: &str) -> bool {
    let rest = volume
        .strip_prefix(domain.as_str())
        .and_then(|rest| rest.strip_prefix('-'));
    let Some((tag, suffix)) = rest.and_then(|rest| rest.split_at_checked(8)) else {
        return false;
    };
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    tag.bytes().all(hex) && SUFFIXES.contains(&suffix)
}

/// The UUID of the domain that a Create makes: a second define of the same Create fails instead of doubling it.
#[must_use]
pub fn domain_uuid(provider: &str, machine: &MachineId, operation: OperationId) -> Uuid {
    let seed = digest(&[provider, machine.as_str(), &operation.to_string()]);
    Uuid::new_v5(&SPACE, &seed)
}

/// The hardware address of a machine's network card, the same in every life, so that it takes its own lease back.
///
/// The first byte says: one card's, given locally. The rest are 40 bits of a hash, enough for a hundred thousand
/// machines on one network, where the 24 bits below QEMU's own prefix are not.
#[must_use]
pub fn mac_address(provider: &str, machine: &MachineId, card: usize) -> MacAddress {
    let digest = digest(&[provider, machine.as_str(), &format!("card {card}")]);
    let mut bytes = [0x52; 6];
    for (byte, random) in bytes.iter_mut().skip(1).zip(&digest) {
        *byte = *random;
    }
    // invariant: 0x52 is neither a group's nor is the address all zero.
    MacAddress::new(bytes).unwrap_or_else(|_| MacAddress::derive(machine.as_str()))
}

/// The readable part: the end of the id, where ids of one provider differ.
fn readable(text: &str) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let mut words = String::new();
    for c in text.chars().map(legal) {
        if c != '-' || !words.ends_with('-') {
            words.push(c);
        }
    }
    let start = words.len().saturating_sub(READABLE);
    words.get(start..).unwrap_or_default().trim_matches('-').to_owned()
}

/// A hash of parts that cannot be confused with the parts of another.
fn digest(parts: &[&str]) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finish().as_ref().to_owned()
}

fn hex(bytes: &[u8], count: usize) -> String {
    bytes
        .iter()
        .take(count)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn machine(id: &str) -> MachineId {
        MachineId::new(id).unwrap()
    }

    #[test]
    fn a_person_recognizes_the_machine() {
        let name = DomainName::new("libvirt-dc1", &machine("libvirt-dc1-rack1-kvm.small-003"));
        let (readable, hash) = name.as_str().rsplit_once('-').unwrap();
        assert_eq!(readable, "bf-libvirt-dc1-rack1-kvm-small-003");
        assert_eq!(hash.len(), 8);
    }

    #[test]
    fn two_providers_do_not_share_a_name() {
        let name = |provider| DomainName::new(provider, &machine("m-1"));
        assert_ne!(name("a"), name("b"));
        assert_ne!(
            DomainName::new("ab", &machine("c")),
            DomainName::new("a", &machine("bc"))
        );
    }

    #[test]
    fn volumes_are_recognized_by_the_whole_name() {
        let domain = DomainName::new("p", &machine("m"));
        let incarnation = Incarnation::new(domain.clone(), OperationId::mint());
        for name in incarnation.volumes() {
            assert!(is_volume_of(&domain, &name) && is_like_ours(&name), "{name}");
        }
        let other = Incarnation::new(DomainName::new("p", &machine("m2")), OperationId::mint());
        for name in [
            other.disk(),
            format!("{domain}-data.qcow2"),
            format!("{domain}-0123456g.qcow2"),
            format!("{domain}-01234567.qcow2.bak"),
            format!("x{}", incarnation.disk()),
            domain.to_string(),
            format!("{domain}-0123456ä.qcow2"),
        ] {
            assert!(!is_volume_of(&domain, &name), "{name}");
        }
    }

    #[test]
    fn hardware_addresses_differ_and_stay() {
        let addresses: HashSet<_> = (0..10_000)
            .map(|n| mac_address("p", &machine(&format!("m-{n}")), 0))
            .collect();
        assert_eq!(addresses.len(), 10_000);
        assert_eq!(mac_address("p", &machine("m"), 0), mac_address("p", &machine("m"), 0));
        assert_ne!(mac_address("p", &machine("m"), 0), mac_address("p", &machine("m"), 1));
    }

    proptest! {
        #[test]
        fn every_id_has_a_legal_name_of_its_own(one in ".{1,200}", other in ".{1,200}") {
            let name = DomainName::new("p", &machine(&one));
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            prop_assert!(name.as_str().chars().all(legal) && name.as_str().len() <= 50, "{name}");
            let host = Incarnation::new(name.clone(), OperationId::mint()).hostname();
            prop_assert!(host.len() <= 63 && !host.starts_with('-') && !host.ends_with('-'));
            prop_assert_eq!(one == other, name == DomainName::new("p", &machine(&other)));
        }
    }
}
