//! The host's devices.

use super::calls;
use crate::wire::{
    remote::{
        node_device::{
            NodeDeviceDetachFlags, NodeDeviceDetachFlagsArgs, NodeDeviceGetParent, NodeDeviceGetParentArgs,
            NodeDeviceGetXmlDesc, NodeDeviceGetXmlDescArgs, NodeDeviceLookupByName, NodeDeviceLookupByNameArgs,
            NodeDeviceReAttach, NodeDeviceReAttachArgs, NodeDeviceReset, NodeDeviceResetArgs,
        },
        record::NodeDeviceRef,
    },
    xdr::Text,
};

calls! {
    /// The device of a name.
    node_device_lookup_by_name(name: &str) -> NodeDeviceRef
        = NodeDeviceLookupByName (NodeDeviceLookupByNameArgs { name: name.into() }) => |r| r.dev;
    /// The description.
    node_device_xml(device: &NodeDeviceRef) -> String
        = NodeDeviceGetXmlDesc (NodeDeviceGetXmlDescArgs { name: device.name.clone(), flags: 0 })
        => |r| r.xml.into_string_lossy();
    /// The name of the device it hangs on.
    node_device_parent(device: &NodeDeviceRef) -> Option<String>
        = NodeDeviceGetParent (NodeDeviceGetParentArgs { name: device.name.clone() })
        => |r| r.parent_name.map(Text::into_string_lossy);
    /// Takes a device from the host's driver, so that a domain can have it.
    node_device_detach(device: &NodeDeviceRef, driver: Option<&str>)
        = NodeDeviceDetachFlags (NodeDeviceDetachFlagsArgs {
            name: device.name.clone(),
            driver_name: driver.map(Text::from),
            flags: 0,
        });
    /// Gives a device back to the host's driver.
    node_device_reattach(device: &NodeDeviceRef)
        = NodeDeviceReAttach (NodeDeviceReAttachArgs { name: device.name.clone() });
    /// Resets a device.
    node_device_reset(device: &NodeDeviceRef) = NodeDeviceReset (NodeDeviceResetArgs { name: device.name.clone() });
}
