//! Calls about networks.

use serde::{Deserialize, Serialize};

use super::{
    call::{Call, Refusal},
    event,
    lease::Leases,
    saved,
    table::Entry,
    world::World,
    xml::{Description, normalised},
};
use crate::wire::{
    constant::{
        error::ErrorNumber,
        network::{ConnectListAllNetworksFlags as Flags, NetworkEventLifecycleType as Event},
    },
    remote::{
        connect::{ConnectListAllNetworks, ConnectListAllNetworksRet},
        network::{
            NetworkCreate, NetworkCreateXml, NetworkCreateXmlRet, NetworkDefineXml, NetworkDefineXmlRet,
            NetworkDestroy, NetworkGetAutostart, NetworkGetAutostartRet, NetworkGetBridgeName, NetworkGetBridgeNameRet,
            NetworkGetDhcpLeases, NetworkGetDhcpLeasesRet, NetworkGetXmlDesc, NetworkGetXmlDescRet, NetworkIsActive,
            NetworkIsActiveRet, NetworkIsPersistent, NetworkIsPersistentRet, NetworkLookupByName,
            NetworkLookupByNameRet, NetworkLookupByUuid, NetworkLookupByUuidRet, NetworkSetAutostart, NetworkUndefine,
        },
        record::{NetworkDhcpLease, NetworkRef},
    },
    xdr::Uuid,
};

pub(super) use super::lease::Lease;

/// How long a lease lasts, in seconds.
const LEASE_TIME: i64 = 3600;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Network {
    pub(super) name: String,
    #[serde(with = "saved::text")]
    pub(super) uuid: Uuid,
    pub(super) xml: String,
    pub(super) active: bool,
    pub(super) persistent: bool,
    pub(super) autostart: bool,
    #[serde(skip)]
    pub(super) leases: Leases,
}

impl Entry for Network {
    type Id = Uuid;

    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> Uuid {
        self.uuid
    }
}

impl Network {
    pub(super) fn to_ref(&self) -> NetworkRef {
        NetworkRef {
            name: self.name.as_str().into(),
            uuid: self.uuid,
        }
    }
}

/// A network that is not there.
pub(super) fn absent(name: impl std::fmt::Display) -> Refusal {
    let message = format!("Network not found: no network with matching name '{name}'");
    Refusal::new(ErrorNumber::ERR_NO_NETWORK, message)
}

impl World {
    pub(super) fn network(&self, wanted: &NetworkRef) -> Result<&Network, Refusal> {
        let found = self.networks.find(&wanted.uuid);
        found.ok_or_else(|| absent(&wanted.name))
    }

    pub(super) fn network_mut(&mut self, wanted: &NetworkRef) -> Result<&mut Network, Refusal> {
        let found = self.networks.find_mut(&wanted.uuid);
        found.ok_or_else(|| absent(&wanted.name))
    }

    pub(super) fn define_network(&mut self, xml: &str, persistent: bool) -> Result<NetworkRef, Refusal> {
        let description = Description::parse(xml, "network")?;
        let name = description.name()?;
        let given = description.uuid()?;
        if let Some(known) = self.networks.named_mut(&name) {
            if given.is_some_and(|given| given != known.uuid) {
                let message = format!("network '{name}' already exists with uuid {}", known.uuid);
                return Err(Refusal::new(
                    ErrorNumber::ERR_OPERATION_FAILED,
                    format!("operation failed: {message}"),
                ));
            }
            known.xml = normalised(xml, known.uuid);
            known.persistent |= persistent;
            let net = known.to_ref();
            event::network(self, &net, Event::DEFINED.0);
            return Ok(net);
        }
        let uuid = given.unwrap_or_else(|| self.next_uuid());
        let network = Network {
            name,
            uuid,
            xml: normalised(xml, uuid),
            active: false,
            persistent,
            autostart: false,
            leases: Leases::default(),
        };
        let net = network.to_ref();
        self.networks.push(network);
        if persistent {
            event::network(self, &net, Event::DEFINED.0);
        }
        Ok(net)
    }

    fn set_network(&mut self, net: &NetworkRef, active: bool) -> Result<(), Refusal> {
        let network = self.network_mut(net)?;
        if network.active == active {
            let state = if active { "already" } else { "not" };
            return Err(Refusal::invalid(format!(
                "Requested operation is not valid: network is {state} active"
            )));
        }
        network.active = active;
        let persistent = network.persistent;
        event::network(self, net, if active { Event::STARTED.0 } else { Event::STOPPED.0 });
        if !active && !persistent {
            self.networks.forget(&net.uuid);
        }
        Ok(())
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    find(call);
    change(call);
    call.on::<NetworkGetXmlDesc>(|world, args| {
        world.network(&args.net).map(|n| NetworkGetXmlDescRet {
            xml: n.xml.as_str().into(),
        })
    });
    call.on::<NetworkGetBridgeName>(|world, args| {
        let network = world.network(&args.net)?;
        let description = Description::parse(&network.xml, "network")?;
        let bridge = description.element(&["bridge"]).and_then(|b| b.attribute("name"));
        Ok(NetworkGetBridgeNameRet {
            name: bridge.unwrap_or("virbr0").into(),
        })
    });
    call.on::<NetworkGetAutostart>(|world, args| {
        world.network(&args.net).map(|n| NetworkGetAutostartRet {
            autostart: n.autostart.into(),
        })
    });
    call.on::<NetworkSetAutostart>(|world, args| {
        world.network_mut(&args.net).map(|n| n.autostart = args.autostart != 0)
    });
    call.on::<NetworkIsActive>(|world, args| {
        world.network(&args.net).map(|n| NetworkIsActiveRet {
            active: n.active.into(),
        })
    });
    call.on::<NetworkIsPersistent>(|world, args| {
        world.network(&args.net).map(|n| NetworkIsPersistentRet {
            persistent: n.persistent.into(),
        })
    });
    call.on::<NetworkGetDhcpLeases>(|world, args| {
        let network = world.network(&args.net)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let wanted = |lease: &&Lease| args.mac.as_ref().is_none_or(|mac| *mac == *lease.mac);
        let lease = |lease: &Lease| NetworkDhcpLease {
            iface: "virbr0".into(),
            expirytime: now + LEASE_TIME,
            kind: 0,
            mac: Some(lease.mac.as_str().into()),
            iaid: None,
            ipaddr: lease.address.to_string().into(),
            prefix: lease.prefix.into(),
            hostname: Some(lease.hostname.as_str().into()),
            clientid: None,
        };
        let leases: Vec<_> = network.leases.iter().filter(wanted).map(lease).collect();
        Ok(NetworkGetDhcpLeasesRet {
            ret: u32::try_from(leases.len()).unwrap_or(u32::MAX),
            leases,
        })
    });
}

fn find(call: &mut Call<'_>) {
    call.on::<ConnectListAllNetworks>(|world, args| {
        let flags = Flags(args.flags);
        let pair = |yes: Flags, no: Flags, is: bool| {
            (!flags.contains(yes) && !flags.contains(no)) || flags.contains(if is { yes } else { no })
        };
        let fits = |n: &&Network| {
            pair(Flags::ACTIVE, Flags::INACTIVE, n.active)
                && pair(Flags::PERSISTENT, Flags::TRANSIENT, n.persistent)
                && pair(Flags::AUTOSTART, Flags::NO_AUTOSTART, n.autostart)
        };
        let nets: Vec<_> = world.networks.iter().filter(fits).map(Network::to_ref).collect();
        Ok(ConnectListAllNetworksRet {
            ret: u32::try_from(nets.len()).unwrap_or(u32::MAX),
            nets,
        })
    });
    call.on::<NetworkLookupByName>(|world, args| {
        let found = world.networks.named(&args.name.to_string_lossy());
        let found = found.map(|n| NetworkLookupByNameRet { net: n.to_ref() });
        found.ok_or_else(|| absent(&args.name))
    });
    call.on::<NetworkLookupByUuid>(|world, args| {
        let found = world.networks.find(&args.uuid);
        let found = found.map(|n| NetworkLookupByUuidRet { net: n.to_ref() });
        found.ok_or_else(|| absent(args.uuid))
    });
}

fn change(call: &mut Call<'_>) {
    call.on::<NetworkDefineXml>(|world, args| {
        let net = world.define_network(&args.xml.to_string_lossy(), true)?;
        Ok(NetworkDefineXmlRet { net })
    });
    call.on::<NetworkCreateXml>(|world, args| {
        let net = world.define_network(&args.xml.to_string_lossy(), false)?;
        world.set_network(&net, true)?;
        Ok(NetworkCreateXmlRet { net })
    });
    call.on::<NetworkCreate>(|world, args| world.set_network(&args.net, true));
    call.on::<NetworkDestroy>(|world, args| world.set_network(&args.net, false));
    call.on::<NetworkUndefine>(|world, args| {
        let network = world.network_mut(&args.net)?;
        network.persistent = false;
        if !network.active {
            world.networks.forget(&args.net.uuid);
        }
        event::network(world, &args.net, Event::UNDEFINED.0);
        Ok(())
    });
}
