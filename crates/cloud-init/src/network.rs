//! `network-config`, version 2.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use crate::{Error, mac::MacAddress, yaml::quoted};

/// An address or a network with its prefix length, as `192.0.2.7/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Checks the length against the address's family.
    ///
    /// # Errors
    /// [`Error::Cidr`].
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, Error> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(Error::Cidr {
                text: format!("{address}/{prefix}"),
            });
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Cidr { text: text.to_owned() };
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        Self::new(address.parse().map_err(|_| bad())?, prefix.parse().map_err(|_| bad())?)
    }
}

/// One network card, found by its MAC address and never renamed: names differ by image and by PCI slot (F47).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    mac: MacAddress,
    dhcp: bool,
    addresses: Vec<Cidr>,
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<Ipv6Addr>,
    routes: Vec<(Cidr, IpAddr)>,
    nameservers: Vec<IpAddr>,
    search: Vec<String>,
    mtu: Option<u16>,
}

impl Nic {
    /// A card that asks a DHCP server for an IPv4 address.
    ///
    /// It identifies itself by its MAC address: clones of an image that was booted share a machine-id, which would give
    /// them one address (F44).
    #[must_use]
    pub fn dhcp(mac: MacAddress) -> Self {
        Self {
            dhcp: true,
            ..Self::fixed(mac, Vec::new())
        }
    }

    /// A card with these addresses, and no DHCP.
    #[must_use]
    pub fn fixed(mac: MacAddress, addresses: Vec<Cidr>) -> Self {
        Self {
            mac,
            dhcp: false,
            addresses,
            gateway4: None,
            gateway6: None,
            routes: Vec::new(),
            nameservers: Vec::new(),
            search: Vec::new(),
            mtu: None,
        }
    }

    /// One more address.
    #[must_use]
    pub fn address(mut self, address: Cidr) -> Self {
        self.addresses.push(address);
        self
    }

    /// The default route of the gateway's family. For IPv6 the card needs a fixed address, too.
    #[must_use]
    pub fn gateway(mut self, gateway: IpAddr) -> Self {
        match gateway {
            IpAddr::V4(gateway) => self.gateway4 = Some(gateway),
            IpAddr::V6(gateway) => self.gateway6 = Some(gateway),
        }
        self
    }

    /// A route to `network`.
    #[must_use]
    pub fn route(mut self, network: Cidr, gateway: IpAddr) -> Self {
        self.routes.push((network, gateway));
        self
    }

    /// One more name server.
    #[must_use]
    pub fn nameserver(mut self, server: IpAddr) -> Self {
        self.nameservers.push(server);
        self
    }

    /// One more domain to search.
    ///
    /// # Errors
    /// [`Error::SearchDomain`].
    pub fn search(mut self, domain: impl Into<String>) -> Result<Self, Error> {
        let domain = domain.into();
        let label = |label: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=63).contains(&label.len()) && label.bytes().all(plain)
        };
        if domain.len() > 253 || !domain.split('.').all(label) {
            return Err(Error::SearchDomain { domain });
        }
        self.search.push(domain);
        Ok(self)
    }

    /// Bytes of the largest packet.
    ///
    /// # Errors
    /// [`Error::Mtu`] below 576, or below 1280 on a card that has an IPv6 address.
    pub fn mtu(mut self, mtu: u16) -> Result<Self, Error> {
        if mtu < if self.has_ipv6() { 1280 } else { 576 } {
            return Err(Error::Mtu { mtu });
        }
        self.mtu = Some(mtu);
        Ok(self)
    }

    /// Its MAC address.
    #[must_use]
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    fn has_ipv6(&self) -> bool {
        self.addresses.iter().any(|cidr| cidr.address.is_ipv6())
    }

    fn write(&self, number: usize, out: &mut String) {
        let mut line = |indent: usize, text: &str| {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(text);
            out.push('\n');
        };
        line(2, &format!("nic{number}:"));
        line(4, "match:");
        line(6, &format!("macaddress: {}", quoted(&self.mac.to_string())));
        line(4, &format!("dhcp4: {}", self.dhcp));
        if self.dhcp {
            line(4, "dhcp-identifier: mac");
        }
        if let Some(mtu) = self.mtu {
            line(4, &format!("mtu: {mtu}"));
        }
        if !self.addresses.is_empty() {
            line(4, "addresses:");
            for address in &self.addresses {
                line(6, &format!("- {}", quoted(&address.to_string())));
            }
        }
        // `gateway4` is deprecated, and `to: default` unknown to cloud-init before 23; but `::/0` became `::/64` there.
        if let Some(gateway) = self.gateway6 {
            line(4, &format!("gateway6: {}", quoted(&gateway.to_string())));
        }
        let default = self
            .gateway4
            .map(|gateway| ("0.0.0.0/0".to_owned(), gateway.to_string()));
        let others = self
            .routes
            .iter()
            .map(|(network, gateway)| (network.to_string(), gateway.to_string()));
        let routes: Vec<_> = default.into_iter().chain(others).collect();
        if !routes.is_empty() {
            line(4, "routes:");
            for (network, gateway) in routes {
                line(6, &format!("- to: {}", quoted(&network)));
                line(8, &format!("via: {}", quoted(&gateway)));
            }
        }
        if !self.nameservers.is_empty() || !self.search.is_empty() {
            line(4, "nameservers:");
            line(6, &format!("addresses: [{}]", list(self.nameservers.iter())));
            line(6, &format!("search: [{}]", list(self.search.iter())));
        }
    }
}

/// The `network-config` document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    nics: Vec<Nic>,
}

impl NetworkConfig {
    /// The cards in the order of the machine's, called `nic0`, `nic1`, … in the document and nowhere else.
    ///
    /// # Errors
    /// [`Error::DuplicateMac`]; [`Error::Gateway`] for a gateway of IPv6 on a card without a fixed address of IPv6.
    pub fn new(nics: Vec<Nic>) -> Result<Self, Error> {
        for nic in &nics {
            if let Some(gateway) = nic.gateway6.filter(|_| !nic.has_ipv6()) {
                return Err(Error::Gateway { gateway, mac: nic.mac });
            }
        }
        let mut macs: Vec<MacAddress> = nics.iter().map(Nic::mac).collect();
        macs.sort_unstable();
        let twice = macs.iter().zip(macs.iter().skip(1)).find(|(one, next)| one == next);
        match twice {
            Some((mac, _)) => Err(Error::DuplicateMac { mac: *mac }),
            None => Ok(Self { nics }),
        }
    }

    /// The cards.
    #[must_use]
    pub fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// The document.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        if self.nics.is_empty() {
            return "version: 2\nethernets: {}\n".to_owned();
        }
        let mut out = "version: 2\nethernets:\n".to_owned();
        for (number, nic) in self.nics.iter().enumerate() {
            nic.write(number, &mut out);
        }
        out
    }
}

fn list(values: impl Iterator<Item = impl ToString>) -> String {
    let quoted: Vec<String> = values.map(|value| quoted(&value.to_string())).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(last: u8) -> MacAddress {
        MacAddress::new([0x52, 0x54, 0, 0, 0, last]).unwrap()
    }

    #[test]
    fn a_dhcp_card_identifies_itself_by_its_mac_and_keeps_its_name() {
        let yaml = NetworkConfig::new(vec![Nic::dhcp(mac(1))]).unwrap().to_yaml();
        assert_eq!(
            yaml,
            "version: 2\nethernets:\n  nic0:\n    match:\n      macaddress: \"52:54:00:00:00:01\"\n    dhcp4: true\n    \
             dhcp-identifier: mac\n"
        );
    }

    #[test]
    fn every_card_is_there_with_all_it_has() {
        let nic = Nic::fixed(mac(2), vec!["192.0.2.7/24".parse().unwrap()])
            .address("2001:db8::7/64".parse().unwrap())
            .gateway("192.0.2.1".parse().unwrap())
            .gateway("2001:db8::1".parse().unwrap())
            .route("198.51.100.0/24".parse().unwrap(), "192.0.2.2".parse().unwrap())
            .nameserver("192.0.2.53".parse().unwrap())
            .search("lab.example")
            .unwrap()
            .mtu(9000)
            .unwrap();
        let yaml = NetworkConfig::new(vec![Nic::dhcp(mac(1)), nic, Nic::dhcp(mac(3))])
            .unwrap()
            .to_yaml();
        for expected in [
            "  nic1:\n",
            "  nic2:\n",
            "- \"2001:db8::7/64\"\n",
            "mtu: 9000\n",
            "- to: \"0.0.0.0/0\"\n        via: \"192.0.2.1\"\n",
            "gateway6: \"2001:db8::1\"\n",
            "- to: \"198.51.100.0/24\"\n",
            "addresses: [\"192.0.2.53\"]\n",
            "search: [\"lab.example\"]\n",
        ] {
            assert!(yaml.contains(expected), "{expected} in\n{yaml}");
        }
        assert!(!yaml.contains("set-name"));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let lost = Nic::dhcp(mac(1)).gateway("2001:db8::1".parse().unwrap());
        assert!(matches!(NetworkConfig::new(vec![lost]), Err(Error::Gateway { .. })));
        assert!(NetworkConfig::new(vec![Nic::dhcp(mac(1)), Nic::dhcp(mac(1))]).is_err());
        for text in ["192.0.2.7", "192.0.2.7/33", "2001:db8::/129", "x/24", "192.0.2.7/"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        for domain in ["", "a..b", "a b", "-\n"] {
            assert!(Nic::dhcp(mac(1)).search(domain).is_err(), "{domain}");
        }
        assert!(Nic::dhcp(mac(1)).mtu(575).is_err());
        assert!(
            Nic::fixed(mac(1), vec!["2001:db8::7/64".parse().unwrap()])
                .mtu(1279)
                .is_err()
        );
    }
}
