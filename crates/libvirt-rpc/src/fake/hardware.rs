//! What a domain's description says the domain has.

use serde::{Deserialize, Serialize};

use super::xml::{Description, child};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hardware {
    /// `kvm`, `qemu`.
    pub(super) kind: String,
    pub(super) memory_kib: u64,
    pub(super) vcpus: u16,
    pub(super) has_agent: bool,
    /// Whether the firmware keeps variables in a file.
    pub(super) keeps_variables: bool,
    pub(super) disks: Vec<Disk>,
    pub(super) nics: Vec<Nic>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Disk {
    /// `disk`, `cdrom`.
    pub(super) device: String,
    /// `vda`.
    pub(super) target: String,
    pub(super) source: Option<Source>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Source {
    Path(String),
    Volume { pool: String, volume: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Nic {
    pub(super) mac: String,
    /// The network it is on, if it is on one.
    pub(super) network: Option<String>,
}

impl Hardware {
    pub(super) fn read(description: &Description<'_>) -> Self {
        let agent = |node: roxmltree::Node<'_, '_>| node.attribute("name") == Some("org.qemu.guest_agent.0");
        let os = description.element(&["os"]);
        let efi = os.is_some_and(|os| os.attribute("firmware") == Some("efi") || child(os, "nvram").is_some());
        Self {
            kind: description.root().attribute("type").unwrap_or_default().to_owned(),
            memory_kib: description.size(&["memory"], 1 << 10).unwrap_or(0) >> 10,
            vcpus: description.text(&["vcpu"]).and_then(|t| t.parse().ok()).unwrap_or(1),
            has_agent: description.all("target").any(agent),
            keeps_variables: efi,
            disks: description.all("disk").map(disk).collect(),
            nics: description.all("interface").map(nic).collect(),
        }
    }

    /// The disk the guest's own files are on.
    pub(super) fn root(&self) -> Option<&Source> {
        let disk = self.disks.iter().find(|disk| disk.device == "disk")?;
        disk.source.as_ref()
    }
}

fn disk(node: roxmltree::Node<'_, '_>) -> Disk {
    let attribute = |of: &str, name: &str| child(node, of).and_then(|n| n.attribute(name)).map(str::to_owned);
    let path = attribute("source", "file").or_else(|| attribute("source", "dev"));
    let volume = || {
        Some(Source::Volume {
            pool: attribute("source", "pool")?,
            volume: attribute("source", "volume")?,
        })
    };
    Disk {
        device: node.attribute("device").unwrap_or("disk").to_owned(),
        target: attribute("target", "dev").unwrap_or_default(),
        source: path.map(Source::Path).or_else(volume),
    }
}

fn nic(node: roxmltree::Node<'_, '_>) -> Nic {
    let attribute = |of: &str, name: &str| child(node, of).and_then(|n| n.attribute(name)).map(str::to_owned);
    Nic {
        mac: attribute("mac", "address").unwrap_or_default(),
        network: attribute("source", "network"),
    }
}
