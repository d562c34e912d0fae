//! Calls about networks.

use super::{
    call::{Call, Refusal},
    event,
    world::{Network, World},
    xml::{Description, normalised},
};
use crate::wire::{
    constant::{error::ErrorNumber, network::NetworkEventLifecycleType as Event},
    remote::{
        connect::{ConnectListAllNetworks, ConnectListAllNetworksRet},
        network::{
            NetworkCreate, NetworkCreateXml, NetworkCreateXmlRet, NetworkDefineXml, NetworkDefineXmlRet,
            NetworkDestroy, NetworkGetAutostart, NetworkGetAutostartRet, NetworkGetBridgeName, NetworkGetBridgeNameRet,
            NetworkGetDhcpLeases, NetworkGetDhcpLeasesRet, NetworkGetXmlDesc, NetworkGetXmlDescRet, NetworkIsActive,
            NetworkIsActiveRet, NetworkIsPersistent, NetworkIsPersistentRet, NetworkLookupByName,
            NetworkLookupByNameRet, NetworkLookupByUuid, NetworkLookupByUuidRet, NetworkSetAutostart, NetworkUndefine,
        },
        record::NetworkRef,
    },
    xdr::Uuid,
};

impl World {
    fn network(&mut self, wanted: &NetworkRef) -> Result<&mut Network, Refusal> {
        self.network_by(|n| n.uuid == wanted.uuid, &wanted.name.to_string_lossy())
    }

    fn network_by(&mut self, is: impl Fn(&Network) -> bool, name: &str) -> Result<&mut Network, Refusal> {
        let found = self.networks.iter_mut().find(|n| is(n));
        let message = || format!("Network not found: no network with matching name '{name}'");
        found.ok_or_else(|| Refusal::new(ErrorNumber::ERR_NO_NETWORK, message()))
    }

    pub(super) fn define_network(&mut self, xml: &str, persistent: bool) -> Result<Uuid, Refusal> {
        let description = Description::parse(xml, "network")?;
        let name = description.name()?;
        let given = description.uuid()?;
        if let Some(known) = self.networks.iter_mut().find(|n| n.name == name) {
            known.xml = normalised(xml, "network", known.uuid);
            known.persistent |= persistent;
            return Ok(known.uuid);
        }
        let uuid = given.unwrap_or_else(|| self.next_uuid());
        let xml = normalised(xml, "network", uuid);
        self.networks.push(Network {
            name,
            uuid,
            xml,
            active: false,
            persistent,
            autostart: false,
        });
        self.tell_network(uuid, Event::DEFINED);
        Ok(uuid)
    }

    fn set_network(&mut self, uuid: Uuid, active: bool) -> Result<NetworkRef, Refusal> {
        let network = self.network_by(|n| n.uuid == uuid, "")?;
        if network.active == active {
            let state = if active { "already" } else { "not" };
            return Err(Refusal::invalid(format!(
                "Requested operation is not valid: network is {state} active"
            )));
        }
        network.active = active;
        let net = network.to_ref();
        self.tell_network(uuid, if active { Event::STARTED } else { Event::STOPPED });
        self.networks.retain(|n| n.persistent || n.active);
        Ok(net)
    }

    fn tell_network(&self, uuid: Uuid, what: Event) {
        if let Some(network) = self.networks.iter().find(|n| n.uuid == uuid) {
            event::network(self, &network.to_ref(), what.0);
        }
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<ConnectListAllNetworks>(|world, _| {
        let nets: Vec<_> = world.networks.iter().map(Network::to_ref).collect();
        Ok(ConnectListAllNetworksRet {
            ret: u32::try_from(nets.len()).unwrap_or(u32::MAX),
            nets,
        })
    });
    call.on::<NetworkLookupByName>(|world, args| {
        let name = args.name.to_string_lossy();
        world
            .network_by(|n| n.name == name, &name)
            .map(|n| NetworkLookupByNameRet { net: n.to_ref() })
    });
    call.on::<NetworkLookupByUuid>(|world, args| {
        let name = args.uuid.to_string();
        world
            .network_by(|n| n.uuid == args.uuid, &name)
            .map(|n| NetworkLookupByUuidRet { net: n.to_ref() })
    });
    call.on::<NetworkDefineXml>(|world, args| {
        let uuid = world.define_network(&args.xml.to_string_lossy(), true)?;
        world
            .network_by(|n| n.uuid == uuid, "")
            .map(|n| NetworkDefineXmlRet { net: n.to_ref() })
    });
    call.on::<NetworkCreateXml>(|world, args| {
        let uuid = world.define_network(&args.xml.to_string_lossy(), false)?;
        world.set_network(uuid, true).map(|net| NetworkCreateXmlRet { net })
    });
    call.on::<NetworkCreate>(|world, args| {
        world.network(&args.net)?;
        world.set_network(args.net.uuid, true).map(drop)
    });
    call.on::<NetworkDestroy>(|world, args| {
        world.network(&args.net)?;
        world.set_network(args.net.uuid, false).map(drop)
    });
    call.on::<NetworkUndefine>(|world, args| {
        world.network(&args.net)?.persistent = false;
        world.tell_network(args.net.uuid, Event::UNDEFINED);
        world.networks.retain(|n| n.persistent || n.active);
        Ok(())
    });
    call.on::<NetworkGetXmlDesc>(|world, args| {
        world.network(&args.net).map(|n| NetworkGetXmlDescRet {
            xml: n.xml.as_str().into(),
        })
    });
    call.on::<NetworkGetBridgeName>(|world, args| {
        let network = world.network(&args.net)?;
        let xml = network.xml.clone();
        let description = Description::parse(&xml, "network")?;
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
    call.on::<NetworkSetAutostart>(|world, args| world.network(&args.net).map(|n| n.autostart = args.autostart != 0));
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
        world.network(&args.net).map(|_| NetworkGetDhcpLeasesRet {
            leases: Vec::new(),
            ret: 0,
        })
    });
}
