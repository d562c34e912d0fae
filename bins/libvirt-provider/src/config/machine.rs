//! How machines are built, as configured.

use std::path::PathBuf;

use libvirt_backend::{
    UserData,
    settings::{Accelerator, Bus, Cpu, Firmware, MachineSettings, Network},
};
use providerkit_runtime::config::Findings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A configuration for Ignition that wants nothing.
const NO_IGNITION: &str = r#"{"ignition": {"version": "3.0.0"}}"#;

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
    /// A file with user-data that every machine gets at its first boot.
    user_data: PathBuf,
    /// What the image reads that with. With `ignition` (Flatcar, Fedora CoreOS) the file is a configuration of version 3.
    user_data_format: UserDataFormat,
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
            user_data_format: UserDataFormat::default(),
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

/// What an image reads user-data with.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UserDataFormat {
    /// cloud-init, from a seed disk.
    #[default]
    CloudInit,
    /// Ignition, from QEMU's configuration device.
    Ignition,
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
            user_data: self.user_data(findings),
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

    /// The file's content, checked: cloud-init ignores what it does not recognize without a word (field report F50), and
    /// Ignition stops the boot.
    fn user_data(&self, findings: &mut Findings) -> UserData {
        const KEY: &str = "machine.user_data";
        let file = self.user_data.display();
        let content = if self.user_data.as_os_str().is_empty() {
            None
        } else {
            let read = std::fs::read(&self.user_data);
            read.map_err(|error| findings.refuse(KEY, format_args!("names {file}, which cannot be read: {error}")))
                .ok()
        };
        let parsed = match (self.user_data_format, content) {
            (UserDataFormat::CloudInit, None) => Ok(UserData::none()),
            (UserDataFormat::CloudInit, Some(content)) => {
                UserData::cloud_init(content).map_err(|error| error.to_string())
            }
            (UserDataFormat::Ignition, content) => {
                let content = content.unwrap_or_else(|| NO_IGNITION.into());
                UserData::ignition(content).map_err(|error| error.to_string())
            }
        };
        let user_data = parsed.unwrap_or_else(|error| {
            findings.refuse(KEY, format_args!("names {file}: {error}"));
            UserData::none()
        });
        if let (Some(secret), false) = (user_data.secrets().first(), self.allow_secrets_in_user_data) {
            findings.refuse(
                KEY,
                format_args!(
                    "names {file}, which holds {secret}; it can be read by whoever may read the guest's disks, so leave it \
                     to the bootstrap blob, or set `machine.allow_secrets_in_user_data`"
                ),
            );
        }
        user_data
    }
}
