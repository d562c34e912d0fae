//! Addresses that networks' DHCP servers give to guests.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use serde::{Deserialize, Serialize};

use super::{
    domain::Domain,
    network::Network,
    world::World,
    xml::{Description, child},
};
use crate::wire::xdr::Uuid;

/// An address a guest has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) mac: String,
    pub(super) address: Ipv4Addr,
    pub(super) prefix: u8,
    pub(super) hostname: String,
}

/// What a network's DHCP server has given away.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_mac: BTreeMap<String, Lease>,
    by_address: BTreeMap<Ipv4Addr, String>,
    last: Option<Ipv4Addr>,
    touched: BTreeSet<String>,
}

/// What a description says of DHCP.
struct Server {
    first: Ipv4Addr,
    last: Ipv4Addr,
    prefix: u8,
    reserved: BTreeMap<String, Ipv4Addr>,
}

impl Server {
    fn read(xml: &str) -> Option<Self> {
        let description = Description::parse(xml, "network").ok()?;
        let ip = description.all("ip").find(|ip| child(*ip, "dhcp").is_some())?;
        let dhcp = child(ip, "dhcp")?;
        let range = child(dhcp, "range")?;
        let prefix = match (ip.attribute("prefix"), ip.attribute("netmask")) {
            (Some(prefix), _) => prefix.parse().ok()?,
            (None, Some(mask)) => u8::try_from(u32::from(mask.parse::<Ipv4Addr>().ok()?).count_ones()).ok()?,
            (None, None) => return None,
        };
        let hosts = dhcp.children().filter(|host| host.has_tag_name("host"));
        let host = |host: roxmltree::Node<'_, '_>| {
            Some((
                host.attribute("mac")?.to_ascii_lowercase(),
                host.attribute("ip")?.parse().ok()?,
            ))
        };
        Some(Self {
            first: range.attribute("start")?.parse().ok()?,
            last: range.attribute("end")?.parse().ok()?,
            prefix,
            reserved: hosts.filter_map(host).collect(),
        })
    }
}

impl Leases {
    fn give(&mut self, server: &Server, mac: &str, hostname: &str) {
        let known = self.by_mac.get(mac).map(|lease| lease.address);
        let reserved = server.reserved.get(&mac.to_ascii_lowercase()).copied();
        let Some(address) = reserved.or(known).or_else(|| self.free(server)) else {
            return;
        };
        self.take_back(mac);
        self.by_address.insert(address, mac.to_owned());
        let lease = Lease {
            mac: mac.to_owned(),
            address,
            prefix: server.prefix,
            hostname: hostname.to_owned(),
        };
        self.by_mac.insert(mac.to_owned(), lease);
        self.touched.insert(mac.to_owned());
    }

    fn free(&mut self, server: &Server) -> Option<Ipv4Addr> {
        let (first, last) = (u32::from(server.first), u32::from(server.last));
        let from = self.last.map_or(first, |last| u32::from(last) + 1).max(first);
        let mut candidates = (from..=last).chain(first..from.min(last)).map(Ipv4Addr::from);
        let free = candidates.find(|address| {
            !self.by_address.contains_key(address) && !server.reserved.values().any(|taken| taken == address)
        })?;
        self.last = Some(free);
        Some(free)
    }

    pub(super) fn take_back(&mut self, mac: &str) {
        if let Some(lease) = self.by_mac.remove(mac) {
            self.by_address.remove(&lease.address);
            self.touched.insert(mac.to_owned());
        }
    }

    pub(super) fn find(&self, mac: &str) -> Option<&Lease> {
        self.by_mac.get(mac)
    }

    /// Puts a lease where it was in another life.
    pub(super) fn put_back(&mut self, lease: Lease) {
        self.by_address.insert(lease.address, lease.mac.clone());
        self.last = self.last.max(Some(lease.address));
        self.by_mac.insert(lease.mac.clone(), lease);
    }

    /// The cards whose leases changed since this was last asked.
    pub(super) fn take_touched(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.by_mac.values()
    }
}

impl World {
    /// A guest that has booted asks for addresses.
    pub(super) fn give_leases(&mut self, uuid: Uuid) {
        let Some(domain) = self.domains.find(&uuid) else {
            return;
        };
        let (nics, name) = (domain.hardware.nics.clone(), domain.name.clone());
        for nic in nics {
            let network = nic.network.and_then(|name| self.networks.named_mut(&name));
            if let Some(network) = network
                && let Some(server) = Server::read(&network.xml)
            {
                network.leases.give(&server, &nic.mac, &name);
            }
        }
    }

    /// The addresses a domain has while it runs.
    pub(super) fn leases_of(&self, domain: &Domain) -> Vec<Lease> {
        if !domain.is_active() || !domain.guest.booted {
            return Vec::new();
        }
        let nics = domain.hardware.nics.iter();
        nics.filter_map(|nic| {
            let network: &Network = self.networks.named(nic.network.as_deref()?)?;
            network.leases.by_mac.get(&nic.mac).cloned()
        })
        .collect()
    }
}
