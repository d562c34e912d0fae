//! The description of a machine's domain.

use cloud_init::MacAddress;
use uuid::Uuid;

use super::{
    Format,
    capabilities::DomainCapabilities,
    element::{Element, element},
    volume::Backing,
};
use crate::settings::{Bus, Cpu, Firmware, Network};

/// The agent's channel, by the name every guest agent looks for.
const AGENT_CHANNEL: &str = "org.qemu.guest_agent.0";

/// The channel by which a guest whose agent may not execute tells how its bootstrap ended (docs/image.md).
pub(crate) const RESULT_CHANNEL: &str = "org.bigfleet.result.0";

/// A domain to be defined.
#[derive(Clone, Debug)]
pub(crate) struct Domain<'a> {
    pub(crate) name: &'a str,
    pub(crate) uuid: Uuid,
    /// For people.
    pub(crate) title: &'a str,
    /// The element of ownership.
    pub(crate) metadata: &'a str,
    pub(crate) vcpus: u32,
    pub(crate) memory_mib: u64,
    pub(crate) disk: &'a Disk,
    pub(crate) seed: &'a Seed,
    pub(crate) cards: &'a [Card],
    pub(crate) firmware: Firmware,
    pub(crate) machine_type: &'a str,
    pub(crate) cpu: &'a Cpu,
    pub(crate) capabilities: &'a DomainCapabilities,
}

/// A disk with all it is copied from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) path: String,
    pub(crate) chain: Vec<Backing>,
}

/// What a first boot reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seed {
    /// The disk cloud-init looks for.
    Disk {
        /// Where it is.
        path: String,
        /// How the guest sees it.
        bus: Bus,
    },
    /// A configuration for Ignition.
    Ignition {
        /// Where it is.
        path: String,
    },
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) mac: MacAddress,
    pub(crate) network: Network,
}

impl Domain<'_> {
    pub(crate) fn to_xml(&self) -> String {
        let memory = element("memory").attribute("unit", "MiB").text(self.memory_mib);
        element("domain")
            .attribute("type", &self.capabilities.domain)
            .child(element("name").text(self.name))
            .child(element("uuid").text(self.uuid))
            .child(element("title").text(self.title))
            .child(element("metadata").markup(self.metadata))
            .child(memory)
            .child(element("vcpu").text(self.vcpus))
            .child(self.os())
            .children(self.ignition())
            .child(self.features())
            .child(self.cpu())
            .child(element("clock").attribute("offset", "utc"))
            // A guest that reboots goes on; one that stops or crashes shows it, and is started again by policy.
            .child(element("on_poweroff").text("destroy"))
            .child(element("on_reboot").text("restart"))
            .child(element("on_crash").text("destroy"))
            .child(self.devices())
            .to_xml()
    }

    fn is_x86(&self) -> bool {
        self.capabilities.arch == "x86_64"
    }

    fn os(&self) -> Element {
        let kind = element("type")
            .attribute("arch", &self.capabilities.arch)
            .attribute("machine", self.machine_type)
            .text("hvm");
        let os = match self.firmware {
            Firmware::Bios => element("os"),
            Firmware::Uefi | Firmware::UefiSecure => element("os").attribute("firmware", "efi"),
        };
        let os = os.child(kind);
        let feature = |name, enabled| element("feature").attribute("enabled", enabled).attribute("name", name);
        let secure = |enabled| {
            element("firmware")
                .child(feature("enrolled-keys", enabled))
                .child(feature("secure-boot", enabled))
        };
        let os = match self.firmware {
            Firmware::Bios => os,
            // Without being told, libvirt may choose the build for Secure Boot, which boots no unsigned kernel (F22).
            Firmware::Uefi => os.child(secure("no")),
            Firmware::UefiSecure => os.child(secure("yes")),
        };
        os.child(element("boot").attribute("dev", "hd"))
    }

    fn features(&self) -> Element {
        let features = element("features").child(element("acpi"));
        let features = if self.is_x86() {
            features.child(element("apic"))
        } else {
            features
        };
        match self.firmware {
            Firmware::UefiSecure => features.child(element("smm").attribute("state", "on")),
            _ => features,
        }
    }

    fn cpu(&self) -> Element {
        let mode = |mode| element("cpu").attribute("mode", mode);
        match self.cpu {
            Cpu::HostPassthrough => mode("host-passthrough"),
            Cpu::HostModel => mode("host-model"),
            Cpu::Maximum => mode("maximum"),
            Cpu::Model(name) => mode("custom")
                .attribute("match", "exact")
                .child(element("model").text(name)),
        }
    }

    fn devices(&self) -> Element {
        let serial = if self.is_x86() { "isa-serial" } else { "system-serial" };
        // Images say `console=ttyS0`, and some hang without it (F17). virtlogd keeps the log's size.
        let log = format!("/var/log/libvirt/qemu/{}-serial0.log", self.name);
        let serial = element("serial")
            .attribute("type", "pty")
            .child(element("log").attribute("file", log).attribute("append", "off"))
            .child(element("target").attribute("type", serial).attribute("port", 0));
        let console = element("console")
            .attribute("type", "pty")
            .child(element("target").attribute("type", "serial").attribute("port", 0));
        let channel = |name| {
            let target = element("target").attribute("type", "virtio").attribute("name", name);
            element("channel").attribute("type", "unix").child(target)
        };
        let random = element("rng")
            .attribute("model", "virtio")
            .child(element("backend").attribute("model", "random").text("/dev/urandom"));
        let devices = element("devices")
            .child(self.root_disk())
            .children(self.seed_disk())
            .children(self.cards.iter().map(card))
            .child(serial)
            .child(console)
            .child(channel(AGENT_CHANNEL))
            .child(channel(RESULT_CHANNEL))
            .child(random)
            .child(
                element("watchdog")
                    .attribute("model", "i6300esb")
                    .attribute("action", "reset"),
            )
            .child(
                element("controller")
                    .attribute("type", "usb")
                    .attribute("model", "none"),
            )
            .child(element("memballoon").attribute("model", "virtio"));
        // A guest that panics is seen to have crashed, instead of running on in silence (F63).
        if self.is_x86() {
            devices.child(element("panic").attribute("model", "isa"))
        } else {
            devices
        }
    }

    /// By path and with the whole chain, so that AppArmor's helper lets QEMU read all of it (F26).
    fn root_disk(&self) -> Element {
        let driver = element("driver")
            .attribute("name", "qemu")
            .attribute("type", Format::Qcow2.name())
            .attribute("discard", "unmap");
        disk("disk")
            .child(driver)
            .child(source(&self.disk.path))
            .child(backing(&self.disk.chain))
            .child(element("target").attribute("dev", "vda").attribute("bus", "virtio"))
    }

    /// Whether QEMU has its configuration device there, and Ignition looks at it.
    fn has_configuration_device(&self) -> bool {
        !self.capabilities.arch.starts_with("s390") && !self.capabilities.arch.starts_with("ppc")
    }

    /// Under both names that Ignition knows, so that no flavour has to be told: Fedora CoreOS looks for the first alone,
    /// Flatcar for the second before the first.
    fn ignition(&self) -> Option<Element> {
        let Seed::Ignition { path } = self.seed else {
            return None;
        };
        let entry = |name| element("entry").attribute("name", name).attribute("file", path);
        let sysinfo = element("sysinfo")
            .attribute("type", "fwcfg")
            .child(entry("opt/com.coreos/config"))
            .child(entry("opt/org.flatcar-linux/config"));
        self.has_configuration_device().then_some(sysinfo)
    }

    fn seed_disk(&self) -> Option<Element> {
        let driver = element("driver")
            .attribute("name", "qemu")
            .attribute("type", Format::Raw.name());
        let (path, (device, name, bus), serial) = match self.seed {
            Seed::Disk { path, bus } => {
                let place = match bus {
                    Bus::Virtio => ("disk", "vdb", "virtio"),
                    Bus::Sata => ("cdrom", "sda", "sata"),
                    Bus::Scsi => ("cdrom", "sda", "scsi"),
                };
                (path, place, None)
            }
            Seed::Ignition { .. } if self.has_configuration_device() => return None,
            // Where Ignition looks instead: /dev/disk/by-id/virtio-ignition.
            Seed::Ignition { path } => (path, ("disk", "vdb", "virtio"), Some("ignition")),
        };
        let disk = disk(device)
            .child(driver)
            .child(source(path))
            .child(element("target").attribute("dev", name).attribute("bus", bus))
            .children(serial.map(|serial| element("serial").text(serial)))
            .child(element("readonly"));
        Some(disk)
    }
}

fn disk(device: &'static str) -> Element {
    element("disk").attribute("type", "file").attribute("device", device)
}

fn source(path: &str) -> Element {
    element("source").attribute("file", path)
}

/// An empty element ends the chain: libvirt then does not look for itself.
fn backing(chain: &[Backing]) -> Element {
    let Some((first, rest)) = chain.split_first() else {
        return element("backingStore");
    };
    element("backingStore")
        .attribute("type", "file")
        .child(element("format").attribute("type", first.format.name()))
        .child(source(&first.path))
        .child(backing(rest))
}

fn card(card: &Card) -> Element {
    let (kind, source) = match &card.network {
        Network::Network(name) => ("network", element("source").attribute("network", name)),
        Network::Bridge(name) => ("bridge", element("source").attribute("bridge", name)),
    };
    element("interface")
        .attribute("type", kind)
        .child(element("mac").attribute("address", card.mac))
        .child(source)
        .child(element("model").attribute("type", "virtio"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xml(change: impl FnOnce(&mut Domain<'_>)) -> String {
        let seed = Seed::Disk {
            path: "/p/seed.iso".into(),
            bus: Bus::Virtio,
        };
        xml_of(&seed, "x86_64", change)
    }

    fn with_ignition(path: &str, arch: &str) -> String {
        xml_of(&Seed::Ignition { path: path.into() }, arch, |_| {})
    }

    fn xml_of(seed: &Seed, arch: &str, change: impl FnOnce(&mut Domain<'_>)) -> String {
        let disk = Disk {
            path: "/p/disk.qcow2".into(),
            chain: vec![Backing {
                path: "/p/golden".into(),
                format: Format::Raw,
            }],
        };
        let cards = [Card {
            mac: MacAddress::derive("m"),
            network: Network::Network("default".into()),
        }];
        let capabilities = DomainCapabilities {
            domain: "qemu".into(),
            arch: arch.into(),
            ..DomainCapabilities::default()
        };
        let mut domain = Domain {
            name: "bf-m-1",
            uuid: Uuid::nil(),
            title: "machine <m-1>",
            metadata: "<x:machine xmlns:x='y'>{}</x:machine>",
            vcpus: 2,
            memory_mib: 512,
            disk: &disk,
            seed,
            cards: &cards,
            firmware: Firmware::Bios,
            machine_type: "q35",
            cpu: &Cpu::Maximum,
            capabilities: &capabilities,
        };
        change(&mut domain);
        domain.to_xml()
    }

    #[test]
    fn disks_are_named_by_path_with_the_whole_chain() {
        let text = xml(|_| {});
        let read = roxmltree::Document::parse(&text).unwrap();
        let disks: Vec<_> = read.descendants().filter(|node| node.has_tag_name("disk")).collect();
        assert!(
            disks.iter().all(|disk| disk.attribute("type") == Some("file")),
            "{text}"
        );
        let stores = read
            .descendants()
            .filter(|node| node.has_tag_name("backingStore"))
            .count();
        // The base, and the end of the chain.
        assert_eq!(stores, 2);
    }

    #[test]
    fn the_seed_is_a_disk_the_guest_cannot_write() {
        let text = xml(|_| {});
        let read = roxmltree::Document::parse(&text).unwrap();
        let seed = read
            .descendants()
            .find(|node| node.has_tag_name("disk") && node.children().any(|child| child.has_tag_name("readonly")));
        let seed = seed.unwrap();
        let target = seed.children().find(|node| node.has_tag_name("target")).unwrap();
        assert_eq!(target.attribute("bus"), Some("virtio"));
    }

    #[test]
    fn uefi_without_secure_boot_says_so() {
        let text = xml(|domain| domain.firmware = Firmware::Uefi);
        assert!(
            text.contains("firmware=\"efi\"") && text.contains("enabled=\"no\" name=\"secure-boot\""),
            "{text}"
        );
        let text = xml(|domain| domain.firmware = Firmware::UefiSecure);
        assert!(
            text.contains("enabled=\"yes\" name=\"secure-boot\"") && text.contains("<smm"),
            "{text}"
        );
    }

    #[test]
    fn names_cannot_break_out() {
        let text = with_ignition("/p/'\"<&.ign", "x86_64");
        assert!(roxmltree::Document::parse(&text).is_ok(), "{text}");
    }

    #[test]
    fn ignition_finds_its_configuration_under_either_name() {
        let text = with_ignition("/p/a.ign", "x86_64");
        let read = roxmltree::Document::parse(&text).unwrap();
        let entries: Vec<_> = read
            .descendants()
            .filter(|node| node.has_tag_name("entry"))
            .map(|node| (node.attribute("name").unwrap(), node.attribute("file").unwrap()))
            .collect();
        assert_eq!(
            entries,
            [
                ("opt/com.coreos/config", "/p/a.ign"),
                ("opt/org.flatcar-linux/config", "/p/a.ign")
            ]
        );
        assert!(!text.contains("vdb"), "{text}");
    }

    #[test]
    fn ignition_has_a_disk_where_there_is_no_configuration_device() {
        for arch in ["s390x", "ppc64le"] {
            let text = with_ignition("/p/a.ign", arch);
            assert!(text.contains("<serial>ignition</serial>"), "{text}");
            assert!(!text.contains("sysinfo"), "{text}");
        }
    }
}
