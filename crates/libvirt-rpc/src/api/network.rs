//! Networks.

use super::calls;
use crate::wire::{
    constant::network::{NetworkUpdateCommand, NetworkUpdateFlags, NetworkUpdateSection, NetworkXMLFlags},
    remote::{
        network::{
            NetworkCreate, NetworkCreateArgs, NetworkCreateXml, NetworkCreateXmlArgs, NetworkDefineXml,
            NetworkDefineXmlArgs, NetworkDestroy, NetworkDestroyArgs, NetworkGetAutostart, NetworkGetAutostartArgs,
            NetworkGetBridgeName, NetworkGetBridgeNameArgs, NetworkGetDhcpLeases, NetworkGetDhcpLeasesArgs,
            NetworkGetXmlDesc, NetworkGetXmlDescArgs, NetworkIsActive, NetworkIsActiveArgs, NetworkIsPersistent,
            NetworkIsPersistentArgs, NetworkLookupByName, NetworkLookupByNameArgs, NetworkLookupByUuid,
            NetworkLookupByUuidArgs, NetworkSetAutostart, NetworkSetAutostartArgs, NetworkUndefine,
            NetworkUndefineArgs, NetworkUpdate, NetworkUpdateArgs,
        },
        record::{NetworkDhcpLease, NetworkRef},
    },
    xdr::{Text, Uuid},
};
use crate::{Connection, Error};

/// The feature of daemons that take command and section of an update in this order.
const UPDATE_HAS_CORRECT_ORDER: i32 = 16;
/// Any element of a section.
const NO_PARENT: i32 = -1;

calls! {
    /// The network of a name.
    network_lookup_by_name(name: &str) -> NetworkRef
        = NetworkLookupByName (NetworkLookupByNameArgs { name: name.into() }) => |r| r.net;
    /// The network of a UUID.
    network_lookup_by_uuid(uuid: Uuid) -> NetworkRef
        = NetworkLookupByUuid (NetworkLookupByUuidArgs { uuid }) => |r| r.net;
    /// Defines a network.
    network_define(xml: &str) -> NetworkRef
        = NetworkDefineXml (NetworkDefineXmlArgs { xml: xml.into() }) => |r| r.net;
    /// Starts a network that is gone when it stops.
    network_create_xml(xml: &str) -> NetworkRef
        = NetworkCreateXml (NetworkCreateXmlArgs { xml: xml.into() }) => |r| r.net;
    /// Starts a network.
    network_create(network: &NetworkRef) = NetworkCreate (NetworkCreateArgs { net: network.clone() });
    /// Stops a network.
    network_destroy(network: &NetworkRef) = NetworkDestroy (NetworkDestroyArgs { net: network.clone() });
    /// Forgets a network.
    network_undefine(network: &NetworkRef) = NetworkUndefine (NetworkUndefineArgs { net: network.clone() });
    /// The description.
    network_xml(network: &NetworkRef, flags: NetworkXMLFlags) -> String
        = NetworkGetXmlDesc (NetworkGetXmlDescArgs { net: network.clone(), flags: flags.bits() })
        => |r| r.xml.into_string_lossy();
    /// The bridge of a running network.
    network_bridge(network: &NetworkRef) -> String
        = NetworkGetBridgeName (NetworkGetBridgeNameArgs { net: network.clone() }) => |r| r.name.into_string_lossy();
    /// Whether it starts with the host.
    network_autostart(network: &NetworkRef) -> bool
        = NetworkGetAutostart (NetworkGetAutostartArgs { net: network.clone() }) => |r| r.autostart != 0;
    /// Says whether it starts with the host.
    network_set_autostart(network: &NetworkRef, autostart: bool)
        = NetworkSetAutostart (NetworkSetAutostartArgs { net: network.clone(), autostart: autostart.into() });
    /// Whether it is started.
    network_is_active(network: &NetworkRef) -> bool
        = NetworkIsActive (NetworkIsActiveArgs { net: network.clone() }) => |r| r.active != 0;
    /// Whether it outlives its stop.
    network_is_persistent(network: &NetworkRef) -> bool
        = NetworkIsPersistent (NetworkIsPersistentArgs { net: network.clone() }) => |r| r.persistent != 0;
    /// The leases of a network's DHCP server, of one MAC address or of all.
    network_dhcp_leases(network: &NetworkRef, mac: Option<&str>) -> Vec<NetworkDhcpLease>
        = NetworkGetDhcpLeases (NetworkGetDhcpLeasesArgs {
            net: network.clone(),
            mac: mac.map(Text::from),
            need_results: 1,
            flags: 0,
        }) => |r| r.leases;
}

impl Connection {
    /// Adds, changes or removes an element of a section (a DHCP host, say) without a restart.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn network_update(
        &self,
        network: &NetworkRef,
        command: NetworkUpdateCommand,
        section: NetworkUpdateSection,
        xml: &str,
        flags: NetworkUpdateFlags,
    ) -> Result<(), Error> {
        // Daemons before 7.2 take the two in the wrong order, and those that do not say so.
        let (mut command, mut section) = (command.0.cast_unsigned(), section.0.cast_unsigned());
        if !self.supports_feature(UPDATE_HAS_CORRECT_ORDER).await? {
            std::mem::swap(&mut command, &mut section);
        }
        let args = NetworkUpdateArgs {
            net: network.clone(),
            command,
            section,
            parent_index: NO_PARENT,
            xml: xml.into(),
            flags: flags.bits(),
        };
        self.call::<NetworkUpdate>(&args).await
    }
}
