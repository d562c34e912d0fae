//! The host's devices.

use serde::{Deserialize, Serialize};

use super::{
    call::{Call, Refusal},
    event,
    table::Entry,
    world::World,
    xml::Description,
};
use crate::wire::{
    constant::{
        error::ErrorNumber,
        nodedev::{ConnectListAllNodeDeviceFlags as Flags, NodeDeviceEventLifecycleType as Event},
    },
    remote::{
        connect::{ConnectListAllNodeDevices, ConnectListAllNodeDevicesRet},
        node::{NodeListDevices, NodeListDevicesRet, NodeNumOfDevices, NodeNumOfDevicesRet},
        node_device::{
            NodeDeviceDetachFlags, NodeDeviceGetParent, NodeDeviceGetParentRet, NodeDeviceGetXmlDesc,
            NodeDeviceGetXmlDescRet, NodeDeviceLookupByName, NodeDeviceLookupByNameRet, NodeDeviceReAttach,
            NodeDeviceReset,
        },
        record::NodeDeviceRef,
    },
    xdr::Text,
};

/// Which flag asks for devices of which capability.
const SORTS: [(&str, Flags); 6] = [
    ("system", Flags::CAP_SYSTEM),
    ("pci", Flags::CAP_PCI_DEV),
    ("usb_device", Flags::CAP_USB_DEV),
    ("net", Flags::CAP_NET),
    ("storage", Flags::CAP_STORAGE),
    ("mdev", Flags::CAP_MDEV),
];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Device {
    name: String,
    parent: Option<String>,
    /// `pci`, `net`.
    sort: String,
    xml: String,
}

impl Entry for Device {
    type Id = String;

    fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> String {
        self.name.clone()
    }
}

fn reference(name: &str) -> NodeDeviceRef {
    NodeDeviceRef { name: name.into() }
}

impl World {
    /// The few devices a new host has.
    pub(super) fn add_host_devices(&mut self) {
        let computer = "<device><name>computer</name><capability type='system'><product>Fake</product>\
            <hardware><vendor>QEMU</vendor></hardware></capability></device>";
        let card = "<device><name>pci_0000_01_00_0</name><path>/sys/devices/pci0000:00/0000:01:00.0</path>\
            <parent>computer</parent><capability type='pci'><class>0x020000</class><domain>0</domain><bus>1</bus>\
            <slot>0</slot><function>0</function><product id='0x10d3'>82574L Gigabit Network Connection</product>\
            <vendor id='0x8086'>Intel Corporation</vendor><iommuGroup number='12'>\
            <address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></iommuGroup></capability></device>";
        let net = "<device><name>net_eth0_02_00_00_00_00_01</name><parent>pci_0000_01_00_0</parent>\
            <capability type='net'><interface>eth0</interface><address>02:00:00:00:00:01</address>\
            <link speed='1000' state='up'/></capability></device>";
        for xml in [computer, card, net] {
            // invariant: they are well-formed, and an error would only leave them out.
            drop(self.add_device(xml));
        }
    }

    pub(super) fn add_device(&mut self, xml: &str) -> Result<(), Refusal> {
        let description = Description::parse(xml, "device")?;
        let sort = description.element(&["capability"]).and_then(|c| c.attribute("type"));
        let device = Device {
            name: description.name()?,
            parent: description.text(&["parent"]).map(str::to_owned),
            sort: sort.unwrap_or_default().to_owned(),
            xml: xml.to_owned(),
        };
        let of = reference(&device.name);
        self.devices.remove(&device.name);
        self.devices.push(device);
        event::device(self, &of, Event::CREATED.0);
        Ok(())
    }

    pub(super) fn remove_device(&mut self, name: &str) -> bool {
        let gone = self.devices.remove(&name.to_owned()).is_some();
        if gone {
            event::device(self, &reference(name), Event::DELETED.0);
        }
        gone
    }

    fn device(&self, name: &Text) -> Result<&Device, Refusal> {
        let missing = || {
            let message = format!("Node device not found: no node device with matching name '{name}'");
            Refusal::new(ErrorNumber::ERR_NO_NODE_DEVICE, message)
        };
        self.devices.named(&name.to_string_lossy()).ok_or_else(missing)
    }
}

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<ConnectListAllNodeDevices>(|world, args| {
        let flags = Flags(args.flags);
        let asked = SORTS.iter().any(|(_, flag)| flags.contains(*flag));
        let fits = |device: &&Device| {
            !asked
                || SORTS
                    .iter()
                    .any(|(sort, flag)| *sort == device.sort && flags.contains(*flag))
        };
        let devices: Vec<_> = world.devices.iter().filter(fits).map(|d| reference(&d.name)).collect();
        Ok(ConnectListAllNodeDevicesRet {
            ret: u32::try_from(devices.len()).unwrap_or(u32::MAX),
            devices,
        })
    });
    call.on::<NodeNumOfDevices>(|world, _| {
        let num = i32::try_from(world.devices.len()).unwrap_or(i32::MAX);
        Ok(NodeNumOfDevicesRet { num })
    });
    call.on::<NodeListDevices>(|world, args| {
        let room = usize::try_from(args.maxnames).unwrap_or(0);
        let names = world
            .devices
            .iter()
            .take(room)
            .map(|d| d.name.as_str().into())
            .collect();
        Ok(NodeListDevicesRet { names })
    });
    call.on::<NodeDeviceLookupByName>(|world, args| {
        world.device(&args.name).map(|d| NodeDeviceLookupByNameRet {
            dev: reference(&d.name),
        })
    });
    call.on::<NodeDeviceGetXmlDesc>(|world, args| {
        world.device(&args.name).map(|d| NodeDeviceGetXmlDescRet {
            xml: d.xml.as_str().into(),
        })
    });
    call.on::<NodeDeviceGetParent>(|world, args| {
        world.device(&args.name).map(|d| NodeDeviceGetParentRet {
            parent_name: d.parent.as_deref().map(Text::from),
        })
    });
    call.on::<NodeDeviceDetachFlags>(|world, args| world.pci(&args.name));
    call.on::<NodeDeviceReAttach>(|world, args| world.pci(&args.name));
    call.on::<NodeDeviceReset>(|world, args| world.pci(&args.name));
}

impl World {
    fn pci(&self, name: &Text) -> Result<(), Refusal> {
        match self.device(name)?.sort.as_str() {
            "pci" => Ok(()),
            _ => Err(Refusal::internal(format!("device {name} is not a PCI device"))),
        }
    }
}
