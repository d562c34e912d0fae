//! How machines are built, as configured.

use std::path::PathBuf;

use libvirt_backend::settings::{Accelerator, Bus, Cpu, Firmware, MachineSettings, Network};
use providerkit_runtime::config::Findings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How machines are built.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct MachineConfig {
    /// The golden image: a volume of the pool, qcow2 or raw.
    pub(crate) image: String,
    /// The storage pool of image, disks and seeds.
    pool: String,
    /// Where each network card goes, the first first: `name` of a libvirt network, or `bridge:name`.
    networks: Vec<String>,
    /// What boots it.
    firmware: FirmwareConfig,
    /// What runs it. Emulation is some ten times slower, so it has to be asked for.
    accelerator: AcceleratorConfig,
    /// The machine type, such as `q35`; the architecture's usual one when empty. An alias outlives upgrades of the
    /// host.
    machine_type: String,
    /// The CPU a guest sees: `host-passthrough`, `host-model`, `maximum` or a model's name; the closest to the host's
    /// when empty.
    cpu: String,
    /// The bus of the cloud-init seed. Debian's cloud kernel, for one, sees no SATA.
    seed_bus: BusConfig,
    /// A file with user-data for cloud-init that every machine gets.
    user_data: PathBuf,
    /// Whether that file may hold what looks like a secret. Everybody in a guest who may read its disks can read it.
    allow_secrets_in_user_data: bool,
    /// Whether machines start when their host does.
    autostart: bool,
    /// Whether a libvirt network that is not active is started.
    start_networks: bool,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            image: String::new(),
            pool: "default".into(),
            networks: vec!["default".into()],
            firmware: FirmwareConfig::default(),
            accelerator: AcceleratorConfig::default(),
            machine_type: String::new(),
            cpu: String::new(),
            seed_bus: BusConfig::default(),
            user_data: PathBuf::new(),
            allow_secrets_in_user_data: false,
            autostart: true,
            start_networks: true,
        }
    }
}

/// What boots a machine.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FirmwareConfig {
    /// The architecture's own.
    #[default]
    Bios,
    /// UEFI without Secure Boot.
    Uefi,
    /// UEFI with Secure Boot.
    UefiSecure,
}

/// What runs a machine.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AcceleratorConfig {
    /// KVM.
    #[default]
    Kvm,
    /// KVM where there is any, else emulation.
    Auto,
    /// Emulation.
    Qemu,
}

/// The bus of a disk.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BusConfig {
    /// A read-only virtio disk.
    #[default]
    Virtio,
    /// A CD-ROM on SATA.
    Sata,
    /// A CD-ROM on SCSI.
    Scsi,
}

impl MachineConfig {
    pub(crate) fn parse(self, findings: &mut Findings) -> MachineSettings {
        for (key, value) in [("machine.image", &self.image), ("machine.pool", &self.pool)] {
            if value.is_empty() {
                findings.refuse(key, "must name a volume or pool of the hosts");
            } else if value.contains('/') {
                findings.refuse(key, "is a name within the host's libvirt, not a path");
            }
        }
        let networks = self.networks.iter().map(|network| match network.split_once(':') {
            None => Network::Network(network.clone()),
            Some(("bridge", name)) => Network::Bridge(name.to_owned()),
            Some((kind, _)) => {
                findings.refuse(
                    "machine.networks",
                    format_args!("has `{network}`; write `name` or `bridge:name`, for `{kind}` is no kind of network"),
                );
                Network::Network(network.clone())
            }
        });
        let networks = networks.collect();
        MachineSettings {
            user_data: user_data(&self.user_data, self.allow_secrets_in_user_data, findings),
            pool: self.pool,
            image: self.image,
            networks,
            firmware: match self.firmware {
                FirmwareConfig::Bios => Firmware::Bios,
                FirmwareConfig::Uefi => Firmware::Uefi,
                FirmwareConfig::UefiSecure => Firmware::UefiSecure,
            },
            accelerator: match self.accelerator {
                AcceleratorConfig::Kvm => Accelerator::Kvm,
                AcceleratorConfig::Auto => Accelerator::Auto,
                AcceleratorConfig::Qemu => Accelerator::Qemu,
            },
            machine_type: Some(self.machine_type).filter(|kind| !kind.is_empty()),
            cpu: match self.cpu.as_str() {
                "" => None,
                "host-passthrough" => Some(Cpu::HostPassthrough),
                "host-model" => Some(Cpu::HostModel),
                "maximum" => Some(Cpu::Maximum),
                model => Some(Cpu::Model(model.to_owned())),
            },
            seed_bus: match self.seed_bus {
                BusConfig::Virtio => Bus::Virtio,
                BusConfig::Sata => Bus::Sata,
                BusConfig::Scsi => Bus::Scsi,
            },
            autostart: self.autostart,
            start_networks: self.start_networks,
        }
    }
}

/// The file's content, checked: cloud-init ignores what it does not recognize without a word (field report F50).
fn user_data(path: &PathBuf, allow_secrets: bool, findings: &mut Findings) -> Option<libvirt_backend::UserData> {
    const KEY: &str = "machine.user_data";
    if path.as_os_str().is_empty() {
        return None;
    }
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) => {
            findings.refuse(
                KEY,
                format_args!("names {}, which cannot be read: {error}", path.display()),
            );
            return None;
        }
    };
    match libvirt_backend::UserData::new(content) {
        Ok(user_data) => {
            let secrets = user_data.secrets();
            if let (Some(secret), false) = (secrets.first(), allow_secrets) {
                findings.refuse(
                    KEY,
                    format_args!(
                        "names {}, which holds {secret}; a seed can be read by whoever may read the guest's disks, so \
                         leave it to the bootstrap blob, or set `machine.allow_secrets_in_user_data`",
                        path.display()
                    ),
                );
            }
            Some(user_data)
        }
        Err(error) => {
            findings.refuse(KEY, format_args!("names {}: {error}", path.display()));
            None
        }
    }
}
