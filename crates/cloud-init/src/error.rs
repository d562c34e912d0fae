//! Why something cannot go into a seed.

/// Why something cannot go into a seed. One line each, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a host name.
    #[error("host name {name:?} is no RFC 1123 label: use 1 to 63 of a-z, 0-9 and -, not - at either end")]
    Hostname {
        /// What was given.
        name: String,
    },
    /// Not an instance-id.
    #[error("instance-id {id:?} is not usable: use 1 to 128 of a-z, A-Z, 0-9, ., _ and -, the first a letter or digit")]
    InstanceId {
        /// What was given.
        id: String,
    },
    /// Not the name of an extra value in meta-data.
    #[error("meta-data key {key:?} is not usable: use a-z, 0-9 and _, a letter first, and none of cloud-init's own")]
    MetaDataKey {
        /// What was given.
        key: String,
    },
    /// Not a MAC address of one network card.
    #[error("MAC address {text:?} is not usable: write six bytes as 52:54:00:12:34:56, neither zero nor a group's")]
    MacAddress {
        /// What was given.
        text: String,
    },
    /// Not an IP network.
    #[error("network {text:?} is not usable: write an address and a prefix length, as 192.0.2.7/24 or 2001:db8::7/64")]
    Cidr {
        /// What was given.
        text: String,
    },
    /// Not a DNS domain.
    #[error("search domain {domain:?} is no DNS name")]
    SearchDomain {
        /// What was given.
        domain: String,
    },
    /// An MTU no network card has.
    #[error("MTU {mtu} is out of range: use 576 to 65535, and at least 1280 where there is IPv6")]
    Mtu {
        /// What was given.
        mtu: u16,
    },
    /// The same MAC address on two network cards.
    #[error("MAC address {mac} is on two network cards; give each its own")]
    DuplicateMac {
        /// The address.
        mac: crate::MacAddress,
    },
    /// A default route that no card could use.
    #[error("gateway {gateway} is on network card {mac}, which has no fixed address of IPv6; give it one")]
    Gateway {
        /// The gateway.
        gateway: std::net::Ipv6Addr,
        /// The card.
        mac: crate::MacAddress,
    },
    /// A first line that cloud-init does not know.
    #[error("user-data begins with \"{start}\", which cloud-init does not know: {remedy}")]
    UnknownUserData {
        /// The first 40 bytes, what is not printable escaped.
        start: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A known kind, but broken.
    #[error("user-data is no valid {kind}: {reason}")]
    BrokenUserData {
        /// What its first line promises.
        kind: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// More user-data than a machine should be given.
    #[error("user-data has {size} bytes; at most {limit} are allowed")]
    UserDataTooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A part that is not what it is called.
    #[error("part {name:?} is not usable: {reason}")]
    Part {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Not the name of a file in a seed.
    #[error(
        "file name {name:?} is not usable: use 1 to 64 of a-z, A-Z, 0-9, ., _ and -, the first a letter, digit or _"
    )]
    FileName {
        /// What was given.
        name: String,
    },
    /// The same name twice.
    #[error("file {name:?} occurs twice in the seed")]
    DuplicateFile {
        /// The name.
        name: String,
    },
    /// More files than an image holds.
    #[error("seed has {count} files; at most {limit} are allowed")]
    TooManyFiles {
        /// How many there are.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// More bytes than an image holds.
    #[error("seed has {size} bytes of files; at most {limit} are allowed")]
    SeedTooLarge {
        /// All files' sizes.
        size: u64,
        /// The limit.
        limit: u64,
    },
}
