//! The networks that machines are put on.

use std::net::IpAddr;

use libvirt_rpc::wire::constant::network::NetworkXMLFlags;

use super::{Check, failed};
use crate::{
    failure::{Absent as _, Doing as _, Failure},
    host::Lanes,
    plan::no_network,
    settings::{Network, Settings},
};

pub(super) async fn look(lanes: &Lanes, settings: &Settings, zone: &str, tell: &mut (dyn FnMut(Check) + Send)) {
    let offerings = settings.offerings.iter().filter(|offering| *offering.zone == *zone);
    let slots = offerings.map(|offering| u64::from(offering.count)).sum();
    for network in &settings.machine.networks {
        let looked = match network {
            Network::Network(name) => libvirt_network(lanes, name, settings.machine.start_networks, slots, tell).await,
            Network::Bridge(name) => bridge(lanes, name, tell).await,
        };
        if let Err(failure) = looked {
            tell(failed("network", failure));
        }
    }
}

async fn libvirt_network(
    lanes: &Lanes,
    name: &str,
    start: bool,
    slots: u64,
    tell: &mut (dyn FnMut(Check) + Send),
) -> Result<(), Failure> {
    let control = &lanes.control;
    let doing = || format!("look at network `{name}`");
    let Some(network) = control.network_lookup_by_name(name).await.absent().doing(doing)? else {
        let failure = no_network(lanes, name).await?;
        tell(failed("network", failure));
        return Ok(());
    };
    let both = format!("`virsh net-start {name} && virsh net-autostart {name}` on the host");
    if control.network_is_active(&network).await.doing(doing)? {
        if control.network_autostart(&network).await.doing(doing)? {
            tell(Check::ok(
                "network",
                format!("network `{name}` is active, and starts with its host"),
            ));
        } else {
            let check = Check::warn(
                "network",
                format!("network `{name}` is active, but does not start with its host"),
            );
            tell(check.remedy(format!("`virsh net-autostart {name}` on the host")));
        }
    } else if start {
        let check = Check::warn(
            "network",
            format!("network `{name}` is not active; the first Create will start it"),
        );
        tell(check.remedy(both));
    } else {
        let check = Check::fail(
            "network",
            format!("network `{name}` is not active, and `machine.start_networks` is off"),
        );
        tell(check.remedy(both));
    }
    let xml = control
        .network_xml(&network, NetworkXMLFlags::empty())
        .await
        .doing(doing)?;
    tell(leases(name, &xml, slots));
    Ok(())
}

/// Leases outlive machines, so there must be twice as many as slots (field report F100).
fn leases(name: &str, xml: &str, slots: u64) -> Check {
    let Some(leases) = lease_count(xml) else {
        let detail = format!("network `{name}` hands out no addresses itself; somebody else there must");
        return Check::ok("addresses", detail);
    };
    let detail = format!("network `{name}` has {leases} addresses for {slots} slots");
    if leases >= slots * 2 {
        Check::ok("addresses", detail)
    } else {
        Check::warn(
            "addresses",
            format!("{detail}; leases outlive machines, so twice as many are needed"),
        )
        .remedy(format!("widen the DHCP range: `virsh net-edit {name}`"))
    }
}

/// All addresses in the IPv4 ranges of a network's description; `None` where it has none.
fn lease_count(xml: &str) -> Option<u64> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let ranges = document.descendants().filter(|node| node.has_tag_name("range"));
    let counts = ranges.filter_map(|range| {
        let end = |name| match range.attribute(name)?.parse().ok()? {
            IpAddr::V4(address) => Some(u64::from(u32::from(address))),
            IpAddr::V6(_) => None,
        };
        Some((end("end")? + 1).saturating_sub(end("start")?))
    });
    counts.reduce(|all, count| all + count)
}

/// libvirt looks at a bridge only when it plugs a machine in (field report F96).
async fn bridge(lanes: &Lanes, name: &str, tell: &mut (dyn FnMut(Check) + Send)) -> Result<(), Failure> {
    use libvirt_rpc::wire::constant::nodedev::ConnectListAllNodeDeviceFlags as Flags;
    let listed = lanes.control.node_devices(Flags::CAP_NET).await;
    let devices = match listed {
        Err(error) if error.is_unsupported() => {
            tell(Check::skipped(
                "network",
                format!("whether there is a bridge `{name}` cannot be told: {error}"),
            ));
            return Ok(());
        }
        listed => listed.doing(|| "list the host's network devices".into())?,
    };
    let start = format!("net_{}_", name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    if devices
        .iter()
        .any(|device| device.name.to_string_lossy().starts_with(&start))
    {
        tell(Check::ok("network", format!("there is a device `{name}`")));
    } else {
        let check = Check::fail("network", format!("there is no bridge `{name}` on the host"));
        tell(check.remedy("make the bridge on the host, with a forward delay of 0, or set `machine.networks`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Outcome;

    #[test]
    fn addresses_are_counted_and_compared_with_slots() {
        let xml = "<network><ip address='192.168.122.1'><dhcp><range start='192.168.122.2' end='192.168.122.254'/>\
            <range start='192.168.123.1' end='192.168.123.1'/></dhcp></ip></network>";
        assert_eq!(lease_count(xml), Some(254));
        assert_eq!(lease_count("<network><bridge name='br0'/></network>"), None);
        assert_eq!(leases("n", xml, 127).outcome, Outcome::Ok);
        let few = leases("n", xml, 128);
        assert!(few.outcome == Outcome::Warn && few.remedy.unwrap().contains("net-edit n"));
    }
}
