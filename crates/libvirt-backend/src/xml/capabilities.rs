//! What a host can run: read from `virConnectGetCapabilities` and `virConnectGetDomainCapabilities`.

/// What a host's hypervisor can do for domains of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DomainCapabilities {
    /// `kvm` or `qemu`.
    pub(crate) domain: String,
    /// The machine type an alias such as `q35` stands for.
    pub(crate) machine: String,
    /// The architecture.
    pub(crate) arch: String,
    /// The most virtual CPUs a domain may have.
    pub(crate) max_vcpus: Option<u32>,
    /// Firmware libvirt can choose by itself: `bios`, `efi`.
    pub(crate) firmware: Vec<String>,
    /// CPU modes that are supported: `host-passthrough`, `host-model`, `maximum`, `custom`.
    pub(crate) cpu_modes: Vec<String>,
    /// Buses a disk may be on.
    pub(crate) disk_buses: Vec<String>,
}

impl DomainCapabilities {
    /// Reads the document.
    #[must_use]
    pub(crate) fn parse(xml: &str) -> Option<Self> {
        let document = roxmltree::Document::parse(xml).ok()?;
        let root = document.root_element();
        let texts = |node: roxmltree::Node<'_, '_>| -> Vec<String> {
            let values = node.children().filter(|node| node.has_tag_name("value"));
            values.filter_map(|node| node.text()).map(str::to_owned).collect()
        };
        let text = |name: &str| {
            let node = root.children().find(|node| node.has_tag_name(name))?;
            node.text().map(str::to_owned)
        };
        let enumeration = |parent: &str, name: &str| {
            let parent = root.descendants().find(|node| node.has_tag_name(parent));
            let found = parent.and_then(|parent| {
                let mut children = parent.children();
                children.find(|node| node.has_tag_name("enum") && node.attribute("name") == Some(name))
            });
            found.map(texts).unwrap_or_default()
        };
        let vcpu = root.children().find(|node| node.has_tag_name("vcpu"));
        let modes = root.descendants().filter(|node| node.has_tag_name("mode"));
        let supported = modes.filter(|node| node.attribute("supported") == Some("yes"));
        Some(Self {
            domain: text("domain")?,
            machine: text("machine").unwrap_or_default(),
            arch: text("arch")?,
            max_vcpus: vcpu
                .and_then(|node| node.attribute("max"))
                .and_then(|max| max.parse().ok()),
            firmware: enumeration("os", "firmware"),
            cpu_modes: supported
                .filter_map(|node| node.attribute("name"))
                .map(str::to_owned)
                .collect(),
            disk_buses: enumeration("disk", "bus"),
        })
    }
}

/// The architecture of the host itself.
#[must_use]
pub(crate) fn host_arch(capabilities: &str) -> Option<String> {
    let document = roxmltree::Document::parse(capabilities).ok()?;
    let mut nodes = document.root_element().children();
    let host = nodes.find(|node| node.has_tag_name("host"))?;
    let cpu = host.children().find(|node| node.has_tag_name("cpu"))?;
    let arch = cpu.children().find(|node| node.has_tag_name("arch"))?;
    arch.text().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_supported_is_read() {
        let xml = "<domainCapabilities><path>/usr/bin/qemu-system-x86_64</path><domain>qemu</domain>\
            <machine>pc-q35-7.2</machine><arch>x86_64</arch><vcpu max='288'/>\
            <os supported='yes'><enum name='firmware'><value>efi</value></enum></os>\
            <cpu><mode name='host-passthrough' supported='no'/><mode name='maximum' supported='yes'><enum name='x'/></mode></cpu>\
            <devices><disk supported='yes'><enum name='diskDevice'><value>disk</value></enum>\
            <enum name='bus'><value>virtio</value><value>sata</value></enum></disk></devices></domainCapabilities>";
        let read = DomainCapabilities::parse(xml).unwrap();
        assert_eq!((read.domain.as_str(), read.machine.as_str()), ("qemu", "pc-q35-7.2"));
        assert_eq!(read.max_vcpus, Some(288));
        assert_eq!(
            (read.firmware, read.cpu_modes),
            (vec!["efi".to_owned()], vec!["maximum".to_owned()])
        );
        assert_eq!(read.disk_buses, ["virtio", "sata"]);
    }

    #[test]
    fn the_host_tells_its_architecture() {
        let xml = "<capabilities><host><uuid>u</uuid><cpu><arch>x86_64</arch></cpu></host>\
            <guest><arch name='i686'/></guest></capabilities>";
        assert_eq!(host_arch(xml).as_deref(), Some("x86_64"));
        assert_eq!(host_arch("<capabilities/>"), None);
    }
}
